"""Conversion between Spark's UnsafeRows and columns."""
