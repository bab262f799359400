"""Avro's object container files: header, blocks, and the markers between them.

Avro specification 1.11, "Object Container Files"::

    Obj 1 | metadata: a map of bytes | marker of 16 bytes | block | block ...
    block  count of records | size | that many bytes, compressed | the marker

Files are untrusted. Sizes are compared with the reader's limits; data is read in pieces, so that a
wrong size takes no more memory than the file has bytes; and decompression stops at a limit.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Final

from flinkish.avro.decoding import DamagedAvro
from flinkish.errors import UnsupportedFormat

MAGIC: Final = b"Obj\x01"
SYNC_BYTES: Final = 16
_PIECE: Final = 16 << 20
#: Compressed bytes that zstd gets at a time; they are few because 4 bytes may expand to 128 KiB.
_ZSTD_READ: Final = 2 << 10
#: zlib's own checksum, most of which fastavro leaves after the data; no reader uses it.
_CHECKSUM: Final = 4


class UnsupportedAvro(UnsupportedFormat):
    """A file has another version of Avro's container format."""


@dataclass(frozen=True)
class Block:
    """One block: where it begins in the file, its number of records, their decompressed bytes."""

    offset: int
    count: int
    data: bytes


class ContainerReader:
    """A container file that is read from start to end, without seeking.

    ``max_header`` and ``max_block`` limit the bytes of the header and of a block as in the file.
    ``offset`` is the number of bytes read so far.
    """

    def __init__(self, file: IO[bytes], *, max_header: int, max_block: int) -> None:
        self._file = file
        self._max_header = max_header
        self._max_block = max_block
        self._start = 0  # of the header or block that is being read
        self.offset = 0

    def header(self) -> tuple[dict[str, bytes], bytes]:
        """Read the header, and return its metadata and the marker between blocks.

        Raises DamagedAvro if the header is damaged or the file is not an Avro container file, and
        UnsupportedAvro for another version of the container format.
        """
        magic = self._take(len(MAGIC))
        if magic[:3] != MAGIC[:3]:
            raise self._damaged("not an Avro object container file")
        if magic != MAGIC:
            reason = f"version {magic[3]} of Avro's container files is not read, only {MAGIC[3]}"
            raise UnsupportedAvro(reason)
        metadata: dict[str, bytes] = {}
        while count := self._number():
            if count < 0:  # a negative count is followed by the map block's size
                count = -count
                self._number()
            for _ in range(count):
                name, value = (self._part(self._max_header) for _ in range(2))
                metadata[name.decode("utf-8", "replace")] = value
                if self.offset > self._max_header:
                    raise self._damaged("the metadata is too long")
        return metadata, self._take(SYNC_BYTES)

    def blocks(self, sync: bytes, decompress: Callable[[bytes], bytes]) -> Iterator[Block]:
        """Yield the blocks; DamagedAvro if one is damaged.

        A file that ends between two blocks looks complete. ``sync`` is the marker from the header.
        ``decompress`` raises ValueError if it cannot decompress the bytes of a block.
        """
        self._start = self.offset
        while first := self._file.read(1):
            self.offset += 1
            count = self._number(first)
            if count < 0:
                raise self._damaged(f"a block of {count} records")
            packed = self._part(self._max_block)
            if self._take(SYNC_BYTES) != sync:
                raise self._damaged("the marker after the block is wrong")
            try:
                data = decompress(packed)
            except ValueError as error:
                raise self._damaged(f"a damaged block: {error}") from error
            yield Block(self._start, count, data)
            self._start = self.offset

    def _damaged(self, reason: str) -> DamagedAvro:
        return DamagedAvro(reason, self._start)

    def _part(self, most: int) -> bytes:
        size = self._number()
        if not 0 <= size <= most:
            raise self._damaged(f"a part of {size} bytes; it may have 0 to {most}")
        return self._take(size)

    def _number(self, first: bytes = b"") -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = (first or self._take(1))[0]
            first = b""
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
        raise self._damaged("a number of more than 64 bits")

    def _take(self, size: int) -> bytes:
        parts = []
        left = size
        while left and (part := self._file.read(min(left, _PIECE))):
            parts.append(part)
            left -= len(part)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        self.offset += len(data)
        if left:
            raise self._damaged(f"the file ends too early, at {self.offset}")
        return data


def encode_long(number: int) -> bytes:
    """Return the encoding of a number of 64 bits: a zigzag varint."""
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _deflate(data: bytes) -> bytes:
    # For rows of state, the default level takes six times as long and saves 2 % of the size.
    packer = zlib.compressobj(zlib.Z_BEST_SPEED, wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def _inflate(packed: bytes, most: int) -> bytes:
    unpacker = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    try:
        data = unpacker.decompress(packed, most)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not unpacker.eof:
        # The end mark needs no room, so a block of exactly the limit is read to its end.
        if unpacker.unconsumed_tail:
            raise ValueError(f"it is too large: compressed data of more than {most} bytes")
        raise ValueError("compressed data ends too early")
    if len(unpacker.unused_data) > _CHECKSUM:
        raise ValueError("something follows the compressed data")
    return data


def _zstandard(data: bytes) -> bytes:
    import zstandard

    # The checksum detects flipped bits. Deflated data has none, so they may go unnoticed there.
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def _unzstandard(packed: bytes, most: int) -> bytes:
    import zstandard

    unpacker = zstandard.ZstdDecompressor().decompressobj()
    try:
        parts, size, at = [], 0, 0
        while at < len(packed) and not unpacker.eof:  # a frame may not record its size
            parts.append(unpacker.decompress(packed[at : at + _ZSTD_READ]))
            size += len(parts[-1])
            at += _ZSTD_READ
            if size > most:
                raise ValueError(f"it is too large: compressed data of more than {most} bytes")
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    if not unpacker.eof or unpacker.unused_data or at < len(packed):
        raise ValueError("compressed data ends too early, or more bytes follow it")
    return b"".join(parts)


#: Functions that compress a block, by Avro's name for the codec.
COMPRESS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "zstandard": _zstandard,
    "deflate": _deflate,
}
#: Functions that decompress a block to at most the given number of bytes, by the codec. They raise
#: ValueError if the block is damaged or has more bytes.
DECOMPRESS: Final[dict[str, Callable[[bytes, int], bytes]]] = {
    "zstandard": _unzstandard,
    "deflate": _inflate,
    "null": lambda data, _: data,
}
