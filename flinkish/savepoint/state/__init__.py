"""A savepoint's state as the engine reads and writes it."""
