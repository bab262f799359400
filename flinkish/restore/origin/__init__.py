"""The source of a restore: a savepoint, or a plain Spark checkpoint."""
