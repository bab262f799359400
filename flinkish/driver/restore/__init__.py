"""Restore (``run -s``) inside the driver: each starting query gets its state back."""
