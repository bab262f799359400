"""Serializers of Python's own types: dataclasses, NamedTuples, lists, maps, numbers, texts."""
