"""Upgrades: plans of steps with their undo, carried out through the client's use cases."""
