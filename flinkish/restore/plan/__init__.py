"""Restore decisions. Nothing here writes."""
