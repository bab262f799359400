"""Spark's UnsafeRows to columns and back."""
