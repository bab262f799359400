"""Spark's checkpoint directory on disk: its logs, and the files of one state version."""
