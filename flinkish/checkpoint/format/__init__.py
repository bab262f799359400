"""Spark's checkpoint format: the only place that parses and writes its files.

Pure functions over bytes and names, of the standard library alone: nothing here touches a disk, and
nothing else of flinkish is imported. Strict: what cannot be right is refused with a
:class:`~flinkish.checkpoint.format.errors.CheckpointFormatError` that names file and offset.
"""
