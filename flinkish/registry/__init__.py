"""The registry: jobs, requests and their results, savepoints."""
