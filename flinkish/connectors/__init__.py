"""Connectors: the formats that queries read and write, one module or folder for each."""
