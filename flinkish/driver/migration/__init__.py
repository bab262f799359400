"""State rewriting by the engine inside a driver, and file transfers by its executors."""
