"""Spark's checkpoint format: the only place that parses and writes its files.

Pure functions over bytes and names, which need only the standard library. Nothing here touches a
disk, or imports anything of flinkish but its errors and annotations. Parsing is strict: invalid
content is refused with a :class:`~flinkish.checkpoint.format.errors.CheckpointFormatError` that
names file and offset.
"""
