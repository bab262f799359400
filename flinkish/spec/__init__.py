"""Typed data that crosses the border of a process, and its one JSON codec.

Whatever one process of flinkish writes for another (the registry's documents, what a driver is
asked and what it answers) is a frozen dataclass of this package; ``codec`` alone knows the JSON.
"""
