"""Spark Connect with its server in the driver's JVM: sessions, writers, flows of pipelines."""
