"""Spark's JVM objects and settings, for every supported version."""
