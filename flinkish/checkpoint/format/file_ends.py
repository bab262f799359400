r"""Whether a checkpoint's files are whole: by their ends, and by Hadoop's checksums. Pure.

Spark writes a file under a temporary name and renames it, so a file that is empty or cut off was
damaged later, by a full disk, an interrupted copy, or a crash before the data reached the disk. In
most files the end shows this, so the rest need not be read:

- deltas, snapshots and changelogs that lz4-java (Spark's default) compressed end with an end mark
  of 21 bytes. Streams of other codecs have none that can be read from the end;
- archives end with zip's end of the central directory, which Spark writes without a comment;
- SSTs end with the magic number of RocksDB's block-based tables;
- Spark's logs of file sources consist of JSON objects, one a line, below a version.

``ChecksumFileSystem`` writes ``b"crc\0"``, the bytes per checksum, and a CRC-32 for each chunk of
that many bytes, all integers big-endian. Spark reads no file that its checksum file contradicts.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from typing import IO, Final

from flinkish.checkpoint.format.names import SST_DIRECTORY, parse_name
from flinkish.checkpoint.format.pins import short_codec
from flinkish.checkpoint.format.text import parse_json

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

    Then the checksum file is a remnant of a replaced file, has another chunk size, or is damaged.
    """
    if not content.startswith(_HEAD) or len(content) != size_of_checksum_file(size):
        return None
    return content[len(_HEAD) :]


#: How many bytes of a file's end are looked at.
TAIL: Final = 32
_LZ4_END: Final = struct.Struct("<8sBiiI")
_ZIP_END: Final = struct.Struct("<4s4H2LH")
_SST_MAGIC: Final = bytes.fromhex("f7cff485b741e288")


def has_end(path: str) -> bool:
    """Return whether the end of a state file can show damage; in other files only the size can."""
    return path.endswith(".sst") or parse_name(path.rpartition("/")[2]) is not None


def end_fault(path: str, size: int, tail: bytes, codec: str) -> str | None:
    """Return what is wrong with a state file, judged by its size and its end, or None.

    Only the name and the directory in ``path`` matter. ``tail`` is the last :data:`TAIL` bytes, or
    all of a smaller file; it is unused without :func:`has_end`. ``codec`` is the query's
    compression codec, pinned or Spark's default.
    """
    if size == 0:
        return "is empty"
    directory, _, name = path.rpartition("/")
    if name.endswith(".sst") and directory.endswith(f"/{SST_DIRECTORY}"):
        return None if tail.endswith(_SST_MAGIC) else "is cut off: RocksDB's last bytes are missing"
    file = parse_name(name)
    if file is None:
        return None
    if file.kind == "zip":
        ends = _ends_as_zip(size, tail)
        return None if ends else "is cut off: the directory at the end of the archive is missing"
    if short_codec(codec) == "lz4" and not _ends_as_lz4(tail):
        return "is cut off: the end mark of its compressed content is missing"
    return None


def _ends_as_lz4(tail: bytes) -> bool:
    if len(tail) < _LZ4_END.size:
        return False
    magic, token, compressed, size, checksum = _LZ4_END.unpack(tail[-_LZ4_END.size :])
    return magic == b"LZ4Block" and token & 0xF0 == 0x10 and not (compressed or size or checksum)


def _ends_as_zip(size: int, tail: bytes) -> bool:
    if len(tail) < _ZIP_END.size:
        return False
    magic, *_, length, start, comment = _ZIP_END.unpack(tail[-_ZIP_END.size :])
    return magic == b"PK\x05\x06" and not comment and start + length + _ZIP_END.size <= size


def source_log_fault(data: bytes, *, complete: bool) -> str | None:
    """Return what is wrong with an entry of a file source's log, or None.

    ``data`` is the content, or its beginning and its end if not ``complete``: then only its first
    line and its last byte are checked.
    """
    if not data:
        return "is empty"
    head, newline, body = data.partition(b"\n")
    if not head.startswith(b"v") or not head[1:].isdigit():
        return "does not begin with a version"
    if newline and body and not body.endswith(b"}"):
        return "is cut off: its last line has no end"
    if complete:
        for number, line in enumerate(body.split(b"\n"), start=2) if body else ():
            try:
                entry = parse_json(line)
            except ValueError:
                return f"is damaged: line {number} is not JSON"
            if not isinstance(entry, dict) or "path" not in entry:
                return f"is damaged: line {number} names no file"
    return None
