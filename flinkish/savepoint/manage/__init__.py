"""Verifying, comparing and pruning savepoints."""
