"""Spark's checkpoint format: parsers and writers for everything but the rows of state.

The functions work on bytes, open files and names, and need only the standard library. They neither
find files on a disk nor import anything of flinkish but its errors and annotations. Parsing is
strict: invalid content is refused with a :class:`~.errors.CheckpointFormatError` that names the
file and, if known, the offset.
"""
