"""Spark's checksum sidecars of checkpoint format 2: ``<file>.crc`` beside a state file.

They are not Hadoop's ``.<file>.crc``: Spark's (``ChecksumCheckpointFileManager``) are JSON with the
CRC-32C and the size of the whole file. A file without a sidecar is read unchecked, as in Spark.
"""

from __future__ import annotations

from typing import BinaryIO

import crc32c

from flinkish.checkpoint.format.text import parse_json
from flinkish.engine.errors import StateFormatError, UnsupportedState
from flinkish.engine.stores.files import StoreFiles, open_state_file, read_small

_READ = 1 << 20


def open_checked(files: StoreFiles, name: str) -> BinaryIO:
    """Open a state file after comparing it with its sidecar, if it has one.

    Raises StateFormatError if they differ, the sidecar is damaged or the file is missing
    (MissingStateFile), and UnsupportedState for another algorithm than CRC-32C.
    """
    file = open_state_file(files, name)
    if f"{name}.crc" not in files.names:
        return file
    try:
        size, value = _read_sidecar(files, f"{name}.crc")
        if _size_and_checksum(file) != (size, value):
            raise StateFormatError(name, None, "the file does not match its checksum file")
        if file.seekable():
            file.seek(0)
            return file
    except BaseException:
        file.close()
        raise
    file.close()
    return open_state_file(files, name)


def _size_and_checksum(file: BinaryIO) -> tuple[int, int]:
    size = value = 0
    while data := file.read(_READ):
        size += len(data)
        value = crc32c.crc32c(data, value)
    return size, value


def _read_sidecar(files: StoreFiles, name: str) -> tuple[int, int]:
    text = read_small(files, name)
    try:
        parsed = parse_json(text)
        algorithm = str(parsed["algorithm"])
        size, value = int(parsed["mainFileSize"]), int(parsed["value"])
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise StateFormatError(name, None, "damaged checksum file") from error
    if algorithm != "CRC32C":
        raise UnsupportedState(name, None, f"checksum by {algorithm[:20]!r}")
    return size, value & 0xFFFFFFFF  # Java writes it as a signed int
