"""The registry: jobs, requests and their results, savepoints (DESIGN section 3)."""
