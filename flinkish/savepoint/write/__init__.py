"""Taking a savepoint."""
