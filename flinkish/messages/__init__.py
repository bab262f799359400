"""Typed data that crosses process boundaries, and its one JSON codec.

The documents that one flinkish process writes for another (those of the registry, the calls of a
driver and its answers) are frozen dataclasses of this package. Only ``codec`` knows their JSON.
"""
