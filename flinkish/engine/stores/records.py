"""The records of delta, snapshot and changelog files, read from their uncompressed content.

Delta and snapshot (``HDFSBackedStateStoreProvider``), changelog v1 (``StateStoreChangelog``)::

    repeat: int32BE key length | key | int32BE value length | value    (a removal: length -1)
    end:    int32BE -1

Changelog v2: ``writeUTF("v2")``, then records that each start with a byte for their kind (1 put,
0x10 removal, 0x11 merge). A byte 0 is the end. In checkpoint format 2, v3 has the records of v1 and
v4 those of v2, after ``writeUTF("v3")`` or ``writeUTF("v4")`` and ``writeUTF(lineage)``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from flinkish.checkpoint.format.chains import Lineage, parse_lineage
from flinkish.engine.bounds import MAX_ROW
from flinkish.engine.errors import StateFormatError, UnsupportedState

PUT, REMOVE, MERGE = 0x01, 0x10, 0x11
_END = 0x00
#: (kind, key, value); the value of a removal is empty.
Change = tuple[int, bytes, bytes]

_INT32 = struct.Struct(">i")
_VERSION = re.compile(rb"v(-?\d{1,5})")
_MIN_BUFFER = 1 << 20


class Content:
    """The uncompressed content of a file: a buffer that moves over its pieces."""

    def __init__(self, pieces: Iterator[bytes], name: str) -> None:
        self._pieces = pieces
        self.name = name
        self.buffer = b""
        self._before = 0  # bytes of content dropped from the buffer

    def more(self, at: int, need: int) -> tuple[bytes, int]:
        """Drop the bytes before ``at``, and read until there are ``need`` bytes.

        Returns the new buffer, which begins with the byte that was at ``at``, and its length.
        """
        buffer, size = self._fill(at, min(max(need, _MIN_BUFFER), MAX_ROW))
        if size < need and size >= MAX_ROW:
            raise self.error(0, f"a key or value of {need} bytes")
        if size < need:
            raise self.error(size, "the content ends in the middle of a record")
        return buffer, size

    def _fill(self, at: int, want: int) -> tuple[bytes, int]:
        parts = [self.buffer[at:]]
        size = len(parts[0])
        while size < want:
            piece = next(self._pieces, None)
            if piece is None:
                break
            parts.append(piece)
            size += len(piece)
        self._before += at
        self.buffer = b"".join(parts)
        return self.buffer, size

    def peek(self, count: int) -> bytes:
        """Return the first ``count`` bytes of the buffer, or fewer if the content is shorter."""
        if len(self.buffer) < count:
            self._fill(0, max(count, _MIN_BUFFER))
        return self.buffer[:count]

    def finish(self, at: int) -> None:
        """Check that nothing follows ``at``, which also reads the compressed stream's end mark."""
        _, size = self._fill(at, 1)
        if size:
            raise self.error(0, "content follows the end of the records")

    def error(self, at: int, reason: str) -> StateFormatError:
        return StateFormatError(self.name, self._before + at, f"{reason} (uncompressed content)")


def plain_records(content: Content, at: int = 0) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the key and value of each record of a delta or snapshot; a removal's value is None."""
    int32 = _INT32.unpack_from
    buffer, size = content.buffer, len(content.buffer)
    while True:
        if size - at < 4:
            buffer, size = content.more(at, 4)
            at = 0
        length = int32(buffer, at)[0]
        at += 4
        if length < 0:
            if length != -1:
                raise content.error(at - 4, f"a key has the length {length}")
            content.finish(at)
            return
        if size - at < length + 4:
            buffer, size = content.more(at, length + 4)
            at = 0
        key = buffer[at : at + length]
        at += length
        length = int32(buffer, at)[0]
        at += 4
        if length < 0:
            if length != -1:
                raise content.error(at - 4, f"a value has the length {length}")
            yield key, None
            continue
        if size - at < length:
            buffer, size = content.more(at, length)
            at = 0
        yield key, buffer[at : at + length]
        at += length


@dataclass(frozen=True)
class Changelog:
    """The header of a RocksDB changelog, and the content after it.

    ``version`` is the format's version, 1 to 4. ``lineage`` has the version and unique id of the
    snapshot that the changelog builds on, and of every later state, the oldest first; None in
    checkpoint format 1. ``start`` is the offset of the first record, in bytes of ``content``.
    """

    version: int
    lineage: Lineage | None
    content: Content
    start: int

    def changes(self) -> Iterator[Change]:
        """Yield the changes in order; raise StateFormatError if the content is damaged."""
        if self.version in {1, 3}:
            for key, value in plain_records(self.content, self.start):
                yield (PUT, key, value) if value is not None else (REMOVE, key, b"")
        else:
            yield from _typed_records(self.content, self.start)


def read_changelog(content: Content) -> Changelog:
    """Read the header of a changelog.

    A file of v1 has no header. It is recognised as in Spark's ``StateStoreChangelogReaderFactory``:
    the content does not start with a ``writeUTF`` string of the form "v<number>".

    Raises UnsupportedState for an unknown version, and StateFormatError if the header is damaged.
    """
    size = int.from_bytes(content.peek(2), "big")
    match = _VERSION.fullmatch(content.peek(2 + size)[2:]) if size <= 6 else None
    if match is None:
        return Changelog(1, None, content, 0)
    version = int(match[1])
    if not 2 <= version <= 4:
        raise UnsupportedState(content.name, 0, f"changelog of version {version}; known are 1 to 4")
    start = 2 + size
    if version == 2:
        return Changelog(version, None, content, start)
    content.more(0, start + 2)
    size = int.from_bytes(content.buffer[start : start + 2], "big")
    content.more(0, start + 2 + size)
    text = content.buffer[start + 2 : start + 2 + size]
    return Changelog(version, _lineage(content, start, text), content, start + 2 + size)


def _lineage(content: Content, start: int, text: bytes) -> Lineage:
    try:
        return parse_lineage(text)
    except ValueError as error:
        raise content.error(start, str(error)) from error


def _typed_records(content: Content, at: int) -> Iterator[Change]:
    int32 = _INT32.unpack_from
    buffer, size = content.buffer, len(content.buffer)
    while True:
        if size - at < 1:
            buffer, size = content.more(at, 1)
            at = 0
        kind = buffer[at]
        at += 1
        if kind == _END:
            content.finish(at)
            return
        if kind not in {PUT, REMOVE, MERGE}:
            raise content.error(at - 1, f"unknown kind of record {kind:#04x}")
        if size - at < 4:
            buffer, size = content.more(at, 4)
            at = 0
        length = int32(buffer, at)[0]
        at += 4
        if length < 0:
            raise content.error(at - 4, f"a key has the length {length}")
        if size - at < length + 4:
            buffer, size = content.more(at, length + 4)
            at = 0
        key = buffer[at : at + length]
        at += length
        length = int32(buffer, at)[0]
        at += 4
        if (length < 0) != (kind == REMOVE) or length < -1:
            raise content.error(at - 4, f"a value has the length {length}")
        if kind == REMOVE:
            yield kind, key, b""
            continue
        if size - at < length:
            buffer, size = content.more(at, length)
            at = 0
        yield kind, key, buffer[at : at + length]
        at += length
