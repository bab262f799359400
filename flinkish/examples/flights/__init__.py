"""Flights that left New York in 2013: the demo program, in two versions, and its data."""
