"""Migration of state: planned by pure functions, and run by Spark."""
