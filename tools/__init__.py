"""Programs of the project that are no tests: measurements, deliberate faults, damaged input."""
