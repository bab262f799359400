"""Drivers that carry out a single task instead of a job."""
