"""State rewritten: planned (pure), and carried out by Spark."""
