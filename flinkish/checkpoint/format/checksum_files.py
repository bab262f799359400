"""Hadoop's checksum files: ``.<name>.crc`` beside every file of a checkpoint on a local disk.

``ChecksumFileSystem`` writes ``b"crc\\0"``, the bytes per checksum, and the CRC-32 of every so many
bytes, all integers big-endian. Spark reads no file that its checksum file contradicts.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from typing import IO

#: Bytes per checksum; other numbers are not used by Spark.
CHUNK = 512
_BLOCK = 1 << 20
_MAGIC = b"crc\x00"
_HEAD = _MAGIC + struct.pack(">i", CHUNK)


def checksum_file_of(path: str) -> str:
    """Return the location of the checksum file of a file."""
    head, name = os.path.split(path)
    return os.path.join(head, f".{name}.crc")


def checksums_of(data: bytes) -> bytes:
    """Return the CRC-32 of every chunk of ``data``, as a checksum file has them."""
    view = memoryview(data)
    checksums = [zlib.crc32(view[at : at + CHUNK]) for at in range(0, len(data), CHUNK)]
    return struct.pack(f">{len(checksums)}I", *checksums)


def blocks_of(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the rest of a file in blocks of whole chunks; only the last may be shorter."""
    while block := file.read(_BLOCK):
        while len(block) < _BLOCK and (more := file.read(_BLOCK - len(block))):
            block += more  # one remote read may return less
        yield block


def size_of_checksum_file(size: int) -> int:
    """Return the bytes of the checksum file of a file of ``size`` bytes."""
    return len(_HEAD) + 4 * ((size + CHUNK - 1) // CHUNK)


def recorded_checksums(content: bytes, size: int) -> bytes | None:
    """Return the checksums in a checksum file; None if they are not of a file of ``size`` bytes.

    Then it is a remnant of a file that has been replaced, or has another chunk size.
    """
    if not content.startswith(_HEAD) or len(content) != size_of_checksum_file(size):
        return None
    return content[len(_HEAD) :]
