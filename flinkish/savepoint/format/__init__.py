"""``_metadata``: its schema, its content as plain data, and its reader and writer."""
