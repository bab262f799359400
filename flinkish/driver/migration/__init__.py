"""The engine's work inside a driver, and files that its executors carry."""
