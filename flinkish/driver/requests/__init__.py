"""Requests that the registry brings: savepoint, stop, cancel, canonical savepoints."""
