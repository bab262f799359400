"""Restore: from a savepoint (or a plain Spark checkpoint) to a new checkpoint."""
