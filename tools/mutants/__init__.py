"""Deliberate faults, to see whether the fast tests notice them: ``make mutants``."""
