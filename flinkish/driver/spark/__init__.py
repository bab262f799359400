"""Access to Spark's JVM objects and session settings, for every supported version."""
