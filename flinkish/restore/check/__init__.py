"""Checks before a driver is started or a batch is run."""
