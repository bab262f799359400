"""Requests from the registry: savepoint, stop, cancel, canonical savepoints."""
