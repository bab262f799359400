"""Measurements of what users wait for and of what bounds the size of a job: ``make bench``."""
