"""Spark's file source: where its files are, and how old they may be. Pure."""
