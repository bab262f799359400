"""Decompression of Spark's state files, one piece at a time.

Spark compresses with the streams of its ``CompressionCodec`` classes. ``zstd`` is plain zstd
frames; the others do not write the codec's usual file format: ``lz4`` is lz4-java's
``LZ4BlockOutputStream``, ``snappy`` is snappy-java's ``SnappyOutputStream``, ``lzf`` is
compress-lzf's ``LZFOutputStream``. A file may contain several streams one after another.

Only ``lz4`` has a checksum of its content and an end mark. With the other codecs a flipped bit may
go unnoticed here, but the reader of the records detects a file that ends too early.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import BinaryIO

import cramjam
import xxhash
import zstandard

from flinkish.engine.bounds import most_of
from flinkish.engine.errors import StateFormatError, UnsupportedState
from flinkish.storage.errors import storage_error

#: Maximum bytes of a block. Spark writes none that is larger, so a larger size is damage.
MAX_BLOCK = 1 << 25
_READ = 1 << 20
#: Compressed bytes that zstd gets at a time; they are few because 4 bytes may expand to 128 KiB.
_ZSTD_READ = 2 << 10

LZ4_MAGIC = b"LZ4Block"
LZ4_HEADER = struct.Struct("<8sBiiI")
_LZ4_RAW, _LZ4_COMPRESSED = 0x10, 0x20
LZ4_SEED = 0x9747B28C
#: lz4-java keeps 28 bits, because ``java.util.zip.Checksum`` has no unsigned int.
LZ4_MASK = 0x0FFFFFFF

SNAPPY_MAGIC = b"\x82SNAPPY\x00"
SNAPPY_HEADER = struct.Struct(">8sii")
_INT32 = struct.Struct(">i")

_LZF_RAW, _LZF_COMPRESSED = 0, 1


class _Source:
    """A file that tracks its position and raises an error if it ends too early."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self.name = name
        self.at = 0

    def read(self, count: int) -> bytes:
        """Read ``count`` bytes, or fewer at the end of the file; raise StorageError if refused."""
        try:
            pieces = [self._file.read(count)]
            missing = count - len(pieces[0])
            while missing and pieces[-1]:  # object stores may return fewer bytes than requested
                pieces.append(self._file.read(missing))
                missing -= len(pieces[-1])
        except OSError as error:
            raise storage_error("read", self.name, error) from error
        data = b"".join(pieces) if len(pieces) > 1 else pieces[0]
        self.at += len(data)
        return data

    def exactly(self, count: int, what: str) -> bytes:
        start = self.at
        data = self.read(count)
        if len(data) != count:
            raise self.error(start, f"the file ends within {what}")
        return data

    def error(self, offset: int, reason: str) -> StateFormatError:
        return StateFormatError(self.name, offset, reason)


def decompressed(file: BinaryIO, codec: str, name: str) -> Iterator[bytes]:
    """Yield the uncompressed content of a state file, in pieces.

    ``codec`` is Spark's short name or class name; ``name`` is the file's, for errors. Raises
    StateFormatError if the file is damaged, ends too early or is of another codec, UnsupportedState
    if the codec is unknown, and StorageError if reading is refused.
    """
    return _bounded(_Source(file, name), _READERS[short_name(codec, name)])


def _bounded(source: _Source, reader: Callable[[_Source], Iterator[bytes]]) -> Iterator[bytes]:
    """Yield the pieces of a file's content, and refuse more than its compressed size allows."""
    size = 0
    for piece in reader(source):
        size += len(piece)
        if size > most_of(source.at):
            raise source.error(source.at, f"its content has more than {size} bytes")
        yield piece


def short_name(codec: str, name: str) -> str:
    """Return Spark's short name for a codec.

    Raises UnsupportedState, with the file ``name``, if the codec is unknown.
    """
    short = _SHORT_NAMES.get(codec, codec).lower()
    if short not in _READERS:
        raise UnsupportedState(name, None, f"unknown compression codec {codec!r}")
    return short


def _lz4(source: _Source) -> Iterator[bytes]:
    ended = False
    while True:
        start = source.at
        header = source.read(LZ4_HEADER.size)
        if not header and ended:
            return
        if len(header) < LZ4_HEADER.size:
            raise source.error(start, "the file ends before the end mark of its LZ4 stream")
        magic, token, compressed, size, checksum = LZ4_HEADER.unpack(header)
        if magic != LZ4_MAGIC:
            raise source.error(start, "no LZ4 block of Spark's starts here")
        method = token & 0xF0
        ended = size == 0
        if ended:
            if compressed or checksum or method != _LZ4_RAW:
                raise source.error(start, "damaged end mark of an LZ4 stream")
            continue
        if method not in {_LZ4_RAW, _LZ4_COMPRESSED} or not 0 < size <= MAX_BLOCK:
            raise source.error(start, "damaged header of an LZ4 block")
        # A block that LZ4 does not make smaller is written raw.
        if not 0 < compressed <= size or (method == _LZ4_RAW and compressed != size):
            raise source.error(start, "damaged length of an LZ4 block")
        data = source.exactly(compressed, "an LZ4 block")
        if method == _LZ4_COMPRESSED:
            try:
                data = bytes(cramjam.lz4.decompress_block(data, output_len=size))
            except cramjam.DecompressionError as error:
                raise source.error(start, f"damaged LZ4 block: {error}") from error
        if xxhash.xxh32_intdigest(data, LZ4_SEED) & LZ4_MASK != checksum or len(data) != size:
            raise source.error(start, "an LZ4 block does not match its checksum")
        yield data


def _zstd(source: _Source) -> Iterator[bytes]:
    context = zstandard.ZstdDecompressor()
    packed, at = source.read(_READ), 0
    if not packed:
        raise source.error(0, "the file is empty")
    while packed:
        stream = context.decompressobj()
        while not stream.eof:
            if not packed:
                raise source.error(source.at, "the file ends within a zstd frame")
            # Do not copy all the rest for each frame: a file may consist of frames of 9 bytes.
            some = packed[at : at + _ZSTD_READ]
            try:
                data = stream.decompress(some)
            except zstandard.ZstdError as error:
                place = source.at - len(packed) + at
                raise source.error(place, f"damaged zstd frame: {error}") from error
            if data:
                yield data
            at += len(some) - len(stream.unused_data)
            if at == len(packed):
                packed, at = source.read(_READ), 0


def _snappy(source: _Source) -> Iterator[bytes]:
    start = source.at
    header = source.exactly(SNAPPY_HEADER.size, "the header of a Snappy stream")
    _check_snappy_header(source, start, header)
    while True:
        start = source.at
        prefix = source.read(4)
        if not prefix:
            return
        if len(prefix) < 4:
            raise source.error(start, "the file ends within the length of a Snappy block")
        if prefix == SNAPPY_MAGIC[:4]:  # another stream follows
            rest = source.exactly(SNAPPY_HEADER.size - 4, "the header of a Snappy stream")
            _check_snappy_header(source, start, prefix + rest)
            continue
        (size,) = _INT32.unpack(prefix)
        if not 0 <= size <= MAX_BLOCK:
            raise source.error(start, "damaged length of a Snappy block")
        data = source.exactly(size, "a Snappy block")
        try:
            if cramjam.snappy.decompress_raw_len(data) > MAX_BLOCK:
                raise source.error(start, "damaged length of a Snappy block")
            yield bytes(cramjam.snappy.decompress_raw(data))
        except cramjam.DecompressionError as error:
            raise source.error(start, f"damaged Snappy block: {error}") from error


def _check_snappy_header(source: _Source, start: int, header: bytes) -> None:
    magic, _, compatible = SNAPPY_HEADER.unpack(header)
    if magic != SNAPPY_MAGIC:
        raise source.error(start, "no Snappy stream of Spark's starts here")
    if compatible != 1:
        raise UnsupportedState(source.name, start, f"Snappy stream of version {compatible}")


def _lzf(source: _Source) -> Iterator[bytes]:
    while True:
        start = source.at
        header = source.read(5)
        if not header:
            if not start:
                raise source.error(0, "the file is empty")
            return
        if len(header) < 5 or header[:2] != b"ZV":
            raise source.error(start, "no LZF block starts here")
        method, size = header[2], int.from_bytes(header[3:5], "big")
        if method == _LZF_RAW:
            yield source.exactly(size, "an LZF block")
        elif method == _LZF_COMPRESSED:
            original = int.from_bytes(source.exactly(2, "an LZF block"), "big")
            data = _lzf_block(source.exactly(size, "an LZF block"), original)
            if data is None:
                raise source.error(start, "damaged LZF block")
            yield data
        else:
            raise source.error(start, f"LZF block of unknown kind {method}")


def _lzf_block(data: bytes, size: int) -> bytes | None:
    """Decompress one LZF block (liblzf's format); return None if it is damaged."""
    out = bytearray()
    at = 0
    try:
        while at < len(data):
            control = data[at]
            at += 1
            if control < 32:  # ``control + 1`` literal bytes follow
                literal = data[at : at + control + 1]
                if len(literal) != control + 1:
                    return None
                out += literal
                at += control + 1
                continue
            length = control >> 5
            if length == 7:
                length += data[at]
                at += 1
            back = ((control & 0x1F) << 8) + data[at] + 1
            at += 1
            length += 2
            if back > len(out):
                return None
            while length > 0:  # the copied range may overlap its own output
                piece = out[len(out) - back :][:length]
                out += piece
                length -= len(piece)
    except IndexError:
        return None
    return bytes(out) if len(out) == size else None


_READERS: dict[str, Callable[[_Source], Iterator[bytes]]] = {
    "lz4": _lz4,
    "zstd": _zstd,
    "snappy": _snappy,
    "lzf": _lzf,
}
_SHORT_NAMES = {
    "org.apache.spark.io.LZ4CompressionCodec": "lz4",
    "org.apache.spark.io.ZStdCompressionCodec": "zstd",
    "org.apache.spark.io.SnappyCompressionCodec": "snappy",
    "org.apache.spark.io.LZFCompressionCodec": "lzf",
}
