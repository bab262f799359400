"""What a restore starts from: a savepoint, or a plain Spark checkpoint."""
