"""From a savepoint (or a plain Spark checkpoint) to a new checkpoint (DESIGN section 6)."""
