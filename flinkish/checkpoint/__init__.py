"""Spark's checkpoint directory on disk: its logs and the file set of one state version."""
