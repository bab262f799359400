"""The state in a savepoint, as the engine reads and writes it."""
