"""The container of Avro's object container files: header, blocks, and markers between them.

Avro specification 1.11, "Object Container Files"::

    Obj 1 | metadata: a map of bytes | marker of 16 bytes | block | block ...
    block  count of rows | size | that many bytes, compressed | the marker

Numbers are zigzag varints. All values are checked before use, so that damage raises an error.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import BinaryIO, Final

import zstandard

from flinkish.engine.bounds import most_of
from flinkish.engine.errors import StateFormatError, UnsupportedState

MAGIC: Final = b"Obj\x01"
SYNC_BYTES: Final = 16
#: In bytes. A larger size in a file is damage, and is not read.
MAX_BYTES: Final = 1 << 30
_PIECE: Final = 16 << 20
_MAX_HEADER: Final = 1 << 26
#: Compressed bytes that zstd gets at a time: 4 of them may expand to 128 KiB.
_ZSTD_READ: Final = 2 << 10


def _deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


def _inflate(data: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    try:
        found = unpacker.decompress(data, _most(data))
    except zlib.error as error:
        raise ValueError(str(error)) from error
    # Bytes after the end are ignored: fastavro leaves most of a zlib checksum there.
    if not unpacker.eof:
        if unpacker.unconsumed_tail:
            raise ValueError(f"compressed data of more than {_most(data)} bytes")
        raise ValueError("compressed data ends too early")
    return found


def _most(data: bytes) -> int:
    return min(MAX_BYTES, most_of(len(data)))


def _zstandard(data: bytes) -> bytes:
    # The checksum detects flipped bits, which may go unnoticed with deflate.
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


def _unzstandard(data: bytes) -> bytes:
    unpacker = zstandard.ZstdDecompressor().decompressobj()
    try:
        parts, size, at = [], 0, 0
        while at < len(data) and not unpacker.eof:  # a frame may not record its size
            parts.append(unpacker.decompress(data[at : at + _ZSTD_READ]))
            size += len(parts[-1])
            at += _ZSTD_READ
            if size > _most(data):
                raise ValueError(f"compressed data of more than {_most(data)} bytes")
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    if not unpacker.eof or unpacker.unused_data or at < len(data):
        raise ValueError("compressed data ends too early, or too late")
    return b"".join(parts)


#: The functions that compress a block, by Avro's name of the codec.
COMPRESS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "zstandard": _zstandard,
    "deflate": _deflate,
}
_DECOMPRESS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "zstandard": _unzstandard,
    "deflate": _inflate,
    "null": lambda data: data,
}


def decompress(codec: str, name: str) -> Callable[[bytes], bytes]:
    """Return the function that decompresses blocks of a codec.

    The function raises ValueError for damaged blocks.

    Parameters
    ----------
    codec
        Avro's name of the codec.
    name
        The file's name, for errors.

    Raises
    ------
    UnsupportedState
        The codec is not supported.
    """
    found = _DECOMPRESS.get(codec)
    if found is None:
        raise UnsupportedState(name, 0, f"the codec {codec} is none of {', '.join(_DECOMPRESS)}")
    return found


def zigzag(number: int) -> bytes:
    """Return the Avro encoding of a number of 64 bits."""
    rest = (number << 1) ^ (number >> 63)
    found = bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    found.append(rest)
    return bytes(found)


class ByteSource:
    """A container file that is read from start to end.

    Attributes
    ----------
    name
        The file's name, for errors.
    offset
        The number of bytes read so far.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self.name = name
        self.offset = 0

    def header(self) -> tuple[dict[str, str], bytes]:
        """Read the header, and return its metadata and the marker between blocks.

        Raises
        ------
        StateFormatError
            The file is no Avro container file, or its header is damaged.
        UnsupportedState
            The file has another version of the container format.
        """
        magic = self._take(len(MAGIC), 0)
        if magic[:3] != MAGIC[:3]:
            raise StateFormatError(self.name, 0, "no Avro object container file")
        if magic != MAGIC:
            reason = f"version {magic[3]} of Avro's container files is not read, only {MAGIC[3]}"
            raise UnsupportedState(self.name, 0, reason)
        found: dict[str, str] = {}
        while count := self._number(0):
            if count < 0:  # a negative count is followed by the map block's size
                count = -count
                self._number(0)
            for _ in range(count):
                name, value = (self._take(self._size(0, _MAX_HEADER), 0) for _ in range(2))
                try:
                    found[name.decode()] = value.decode()
                except UnicodeDecodeError as error:
                    reason = "the metadata is damaged: it is not UTF-8"
                    raise StateFormatError(self.name, 0, reason) from error
                if self.offset > _MAX_HEADER:
                    raise StateFormatError(self.name, 0, "the metadata is too long")
        return found, self._take(SYNC_BYTES, 0)

    def block(self, sync: bytes) -> tuple[int, int, bytes] | None:
        """Return the next block's offset, row count and compressed bytes, or None at the end."""
        start = self.offset
        first = self._file.read(1)
        if not first:
            return None
        self.offset += 1
        count = self._number(start, first)
        if count < 0:
            raise StateFormatError(self.name, start, f"a block of {count} rows")
        data = self._take(self._size(start, MAX_BYTES), start)
        if self._take(len(sync), start) != sync:
            raise StateFormatError(self.name, start, "the marker behind the block is another one")
        return start, count, data

    def _size(self, start: int, most: int) -> int:
        size = self._number(start)
        if not 0 <= size <= most:
            raise StateFormatError(self.name, start, f"a part of {size} bytes")
        return size

    def _number(self, start: int, first: bytes = b"") -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = (first or self._take(1, start))[0]
            first = b""
            number |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return (number >> 1) ^ -(number & 1)
        raise StateFormatError(self.name, start, "a number of more than 64 bits")

    def _take(self, size: int, start: int) -> bytes:
        parts = []  # piece by piece, so memory never exceeds the file's size
        left = size
        while left and (part := self._file.read(min(left, _PIECE))):
            parts.append(part)
            left -= len(part)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        self.offset += len(data)
        if left:
            raise StateFormatError(self.name, start, f"the file ends too early, at {self.offset}")
        return data
