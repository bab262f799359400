"""Drivers that other launchers start: a program attaches itself (``flinkish.attach``)."""
