"""Typed data that crosses process boundaries, and its one JSON codec.

Everything that one flinkish process writes for another (the registry's documents, the calls of a
driver and its answers) is a frozen dataclass of this package. Only ``codec`` knows the JSON.
"""
