"""``_metadata``: its schema, what it says, reading it."""
