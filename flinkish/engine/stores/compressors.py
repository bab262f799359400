"""Compressed streams as Spark's ``CompressionCodec`` classes write them; codecs.py reads them.

The framing is Spark's, byte by byte: lz4-java's ``LZ4BlockOutputStream`` and snappy-java's
``SnappyOutputStream`` with blocks of 32 KiB, compress-lzf's ``LZFOutputStream`` with chunks of
65,535 bytes, a zstd frame of level 1 that is flushed before its end. What is in a block depends on
the compressor's version. Held against Spark 4.3.0: lz4 and zstd are the same bytes, snappy with
pyarrow 19 too (a newer one chooses other matches in large blocks). LZF chunks are written
uncompressed, which every reader of the format reads: no compressor of it is at hand in Python.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import BinaryIO, Final, Protocol

import cramjam
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]
import xxhash
import zstandard

from flinkish.engine.stores.codecs import (
    LZ4_HEADER,
    LZ4_MAGIC,
    LZ4_MASK,
    LZ4_SEED,
    SNAPPY_HEADER,
    SNAPPY_MAGIC,
    short_name,
)

#: Spark's defaults of ``spark.io.compression.{lz4,snappy}.blockSize``.
_BLOCK: Final = 32 << 10
#: ``LZFChunk.MAX_CHUNK_LEN``.
_LZF_CHUNK: Final = 0xFFFF
#: lz4-java's level of a block size: its bits less 10.
_LZ4_LEVEL: Final = 5
_LZ4_RAW, _LZ4_PACKED = 0x10 | _LZ4_LEVEL, 0x20 | _LZ4_LEVEL
#: Spark's default of ``spark.io.compression.zstd.level``.
_ZSTD_LEVEL: Final = 1


class Compressor(Protocol):
    """A stream that is compressed into a file; the file stays open."""

    def write(self, data: bytes) -> None:
        """Compress some more bytes."""

    def finish(self) -> None:
        """Write what is left, and the stream's end."""


def compressor(file: BinaryIO, codec: str) -> Compressor:
    """A stream into ``file``.

    Args:
        file: what the compressed bytes are written to.
        codec: Spark's short name of the codec, or the class name it may be given by.

    Raises:
        UnsupportedState: Spark has no such codec, or we do not write it.
    """
    return _STREAMS[short_name(codec, "")](file)


class _Blocks:
    """Bytes cut into blocks of one size."""

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
    # Arrow has Google's own library, as snappy-java does; others choose other matches.
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
        # Closing a Java stream flushes it first, so that the last block is an empty one.
        self._file.write(self._stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
        self._file.write(self._stream.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH))


_STREAMS: Final[dict[str, Callable[[BinaryIO], Compressor]]] = {
    "lz4": _Lz4,
    "snappy": _Snappy,
    "lzf": _Lzf,
    "zstd": _Zstd,
}
