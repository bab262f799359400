"""Writing of state files as Spark writes them: deltas, snapshots, changelogs, and their codecs.

The same records in the same order give the same bytes as in Spark, if the compressor's bytes are
the same. :mod:`flinkish.engine.stores.records` reads them and documents their formats,
:mod:`flinkish.engine.stores.codecs` decompresses them.

The framing of a codec is Spark's, byte for byte: lz4-java's ``LZ4BlockOutputStream`` and
snappy-java's ``SnappyOutputStream`` with blocks of 32 KiB, compress-lzf's ``LZFOutputStream`` with
chunks of 65,535 bytes, and a zstd frame of level 1 that is flushed before its end. The bytes in a
block depend on the compressor's version. Compared with Spark 4.3.0: lz4 and zstd give the same
bytes, and so does snappy with pyarrow 19 (newer ones choose other matches in large blocks). LZF
chunks are written uncompressed, as Python has no LZF compressor; every reader accepts these.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import BinaryIO, Final, Protocol

import cramjam
import pyarrow as pa
import xxhash
import zstandard

from flinkish.checkpoint.format.chains import write_lineage
from flinkish.checkpoint.format.text import write_utf
from flinkish.engine.errors import EngineError
from flinkish.engine.stores.codecs import (
    LZ4_HEADER,
    LZ4_MAGIC,
    LZ4_MASK,
    LZ4_SEED,
    SNAPPY_HEADER,
    SNAPPY_MAGIC,
    short_name,
)
from flinkish.engine.stores.records import MERGE, PUT, REMOVE, Change

_INT32 = struct.Struct(">i")
_NONE: Final = _INT32.pack(-1)
#: Bytes of records that are collected before they are compressed.
_PIECE = 1 << 18


def write_records(
    file: BinaryIO, records: Iterable[tuple[bytes, bytes | None]], codec: str = "lz4"
) -> int:
    """Write a delta or a snapshot of an HDFS-backed store (``HDFSBackedStateStoreProvider``).

    Returns the number of records. Each is a key and a value, as UnsafeRows; a value of None removes
    the key, which is not allowed in a snapshot. ``codec`` is
    ``spark.sql.streaming.stateStore.compression.codec``. Raises UnsupportedState if it is unknown.
    """
    return _write(file, _plain(records), codec, b"", _NONE)


def write_changelog(
    file: BinaryIO,
    changes: Iterable[Change],
    codec: str = "lz4",
    *,
    version: int = 1,
    lineage: Sequence[tuple[int, str]] | None = None,
) -> int:
    """Write a changelog of a RocksDB store (``StateStoreChangelogWriter``).

    Returns the number of changes. Each is a kind (``PUT``, ``REMOVE``, ``MERGE``), key and value.
    Keys begin with their family's id if the store has families. ``codec`` is as in
    :func:`write_records`. ``version`` is 1 without families and 2 with them. In checkpoint format
    2 it is 3 or 4 instead, and ``lineage`` has the version and unique id of the snapshot and of
    each later state, the oldest first.

    Raises EngineError if the version does not exist, does not fit the lineage, or does not support
    a kind of change, and UnsupportedState if the codec is unknown.
    """
    if not 1 <= version <= 4 or (lineage is None) != (version < 3):
        with_it = "with" if lineage is not None else "without"
        raise EngineError(f"there is no changelog of version {version} {with_it} a lineage")
    head = b"" if version == 1 else write_utf(f"v{version}")
    if lineage is not None:
        head += write_utf(write_lineage(lineage))
    if version in {1, 3}:
        return _write(file, _plain(_without_merges(changes)), codec, head, _NONE)
    return _write(file, _typed(changes), codec, head, b"\x00")


def _write(file: BinaryIO, records: Iterator[bytes], codec: str, head: bytes, end: bytes) -> int:
    stream = compressor(file, codec)
    waiting = bytearray(head)
    count = 0
    for record in records:
        waiting += record
        count += 1
        if len(waiting) >= _PIECE:
            stream.write(bytes(waiting))
            waiting.clear()
    stream.write(bytes(waiting + end))
    stream.finish()
    return count


def _plain(records: Iterable[tuple[bytes, bytes | None]]) -> Iterator[bytes]:
    size = _INT32.pack
    for key, value in records:
        if value is None:
            yield size(len(key)) + key + _NONE
        else:
            yield size(len(key)) + key + size(len(value)) + value


def _without_merges(changes: Iterable[Change]) -> Iterator[tuple[bytes, bytes | None]]:
    for kind, key, value in changes:
        if kind not in {PUT, REMOVE}:
            raise EngineError("a changelog of version 1 or 3 has puts and removals only")
        yield key, value if kind == PUT else None


def _typed(changes: Iterable[Change]) -> Iterator[bytes]:
    size = _INT32.pack
    for kind, key, value in changes:
        if kind not in {PUT, REMOVE, MERGE}:
            raise EngineError(f"there is no change of the kind {kind:#04x}")
        head = bytes([kind]) + size(len(key)) + key
        yield head + _NONE if kind == REMOVE else head + size(len(value)) + value


#: Spark's defaults for ``spark.io.compression.{lz4,snappy}.blockSize``.
_BLOCK: Final = 32 << 10
#: ``LZFChunk.MAX_CHUNK_LEN``.
_LZF_CHUNK: Final = 0xFFFF
#: lz4-java's level for a block size: the base-2 logarithm of the size, minus 10.
_LZ4_LEVEL: Final = 5
_LZ4_RAW, _LZ4_PACKED = 0x10 | _LZ4_LEVEL, 0x20 | _LZ4_LEVEL
#: Spark's default for ``spark.io.compression.zstd.level``.
_ZSTD_LEVEL: Final = 1


class Compressor(Protocol):
    """A stream that compresses into a file and leaves the file open."""

    def write(self, data: bytes) -> None:
        """Compress more bytes."""

    def finish(self) -> None:
        """Write the remaining bytes and the end of the stream."""


def compressor(file: BinaryIO, codec: str) -> Compressor:
    """Return a stream that compresses into ``file``.

    ``codec`` is Spark's short name or class name. Raises UnsupportedState if it is unknown.
    """
    return _STREAMS[short_name(codec, "")](file)


class _Blocks:
    """A stream that cuts its bytes into blocks of one size."""

    def __init__(self, file: BinaryIO, size: int, pack: Callable[[bytes], bytes]) -> None:
        self._file = file
        self._size = size
        self._pack = pack
        self._waiting = bytearray()

    def write(self, data: bytes) -> None:
        waiting = self._waiting
        waiting += data
        if len(waiting) < self._size:
            return
        whole = len(waiting) - len(waiting) % self._size
        for at in range(0, whole, self._size):
            self._file.write(self._pack(bytes(waiting[at : at + self._size])))
        del waiting[:whole]

    def finish(self) -> None:
        if self._waiting:
            self._file.write(self._pack(bytes(self._waiting)))
            self._waiting.clear()


class _Lz4(_Blocks):
    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, _BLOCK, _lz4_block)

    def finish(self) -> None:
        super().finish()
        self._file.write(LZ4_HEADER.pack(LZ4_MAGIC, _LZ4_RAW, 0, 0, 0))


def _lz4_block(data: bytes) -> bytes:
    checksum = xxhash.xxh32_intdigest(data, LZ4_SEED) & LZ4_MASK
    packed = bytes(cramjam.lz4.compress_block(data, store_size=False))
    token = _LZ4_PACKED
    if len(packed) >= len(data):
        token, packed = _LZ4_RAW, data
    return LZ4_HEADER.pack(LZ4_MAGIC, token, len(packed), len(data), checksum) + packed


class _Snappy(_Blocks):
    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, _BLOCK, _snappy_block)
        file.write(SNAPPY_HEADER.pack(SNAPPY_MAGIC, 1, 1))


def _snappy_block(data: bytes) -> bytes:
    # Arrow uses Google's library, as snappy-java does; other libraries choose other matches.
    packed: bytes = pa.compress(data, codec="snappy", asbytes=True)
    return struct.pack(">i", len(packed)) + packed


class _Lzf(_Blocks):
    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, _LZF_CHUNK, _lzf_chunk)


def _lzf_chunk(data: bytes) -> bytes:
    return b"ZV\x00" + struct.pack(">H", len(data)) + data


class _Zstd:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._stream = zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compressobj()

    def write(self, data: bytes) -> None:
        packed = self._stream.compress(data)
        if packed:
            self._file.write(packed)

    def finish(self) -> None:
        # Closing a Java stream flushes it first, so the last block is empty.
        self._file.write(self._stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
        self._file.write(self._stream.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH))


_STREAMS: Final[dict[str, Callable[[BinaryIO], Compressor]]] = {
    "lz4": _Lz4,
    "snappy": _Snappy,
    "lzf": _Lzf,
    "zstd": _Zstd,
}
