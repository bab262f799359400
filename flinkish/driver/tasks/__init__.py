"""Drivers that are run for one answer instead of a job."""
