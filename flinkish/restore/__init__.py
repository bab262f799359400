"""Restore: from a savepoint (or a Spark checkpoint, plain or of a job) to a new checkpoint."""
