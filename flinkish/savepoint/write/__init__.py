"""Writing savepoints."""
