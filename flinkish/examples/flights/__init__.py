"""Flights due to leave New York in 2013: two programs in two versions each, their data, a demo."""
