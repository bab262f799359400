"""A bounded reader of Avro object container files whose schema is known in advance.

Avro specification 1.11, "Object Container Files". Everything in a file is checked before it is
used: every length is compared with the remaining bytes before memory is allocated, decompression
stops at a limit, and the schema in the header is only compared, never used. Limits are in
:mod:`flinkish.savepoint.format.limits`.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from flinkish.savepoint.format import limits

_MAGIC = b"Obj\x01"
_SYNC = 16
_DOUBLE = struct.Struct("<d")

#: Decodes the value at an offset; returns the value and the offset after it.
Decoder = Callable[[bytes, int], tuple[Any, int]]


class Damaged(ValueError):
    """The bytes are not such a file; the message says why."""


@dataclass(frozen=True)
class Block:
    """One block: its number of records, and their decompressed bytes."""

    count: int
    data: bytes


class Container:
    """A container file that is read from start to end.

    Attributes
    ----------
    hash
        SHA-256 of the bytes read so far.
    position
        Number of bytes read so far.
    """

    def __init__(self, file: IO[bytes], size: int) -> None:
        """Prepare to read ``file``, which has ``size`` bytes."""
        if size > limits.MAX_FILE:
            raise Damaged(f"it has {size} bytes, more than any savepoint's ({limits.MAX_FILE})")
        self._file = file
        self._size = size
        self._unpacked = 0
        self.position = 0
        self.hash = hashlib.sha256()

    def header(self) -> tuple[dict[str, bytes], bytes]:
        """Read the header; return its entries and the sync marker between blocks."""
        if self._read(len(_MAGIC)) != _MAGIC:
            raise Damaged("it is no Avro object container file")
        found: dict[str, bytes] = {}
        while count := self._number():
            if count < 0:  # then the size in bytes of this block of the map follows
                count = -count
                self._number()
            for _ in range(count):
                name = self._part(limits.MAX_HEADER)
                found[name.decode("utf-8", "replace")] = self._part(limits.MAX_HEADER)
                if self.position > limits.MAX_HEADER:
                    raise Damaged("its header is too long")
        return found, self._read(_SYNC)

    def blocks(self, codec: str, sync: bytes) -> Iterator[Block]:
        """Yield all blocks; ``codec`` is ``null`` or ``deflate``."""
        while self.position < self._size:
            count = self._number()
            packed = self._part(limits.MAX_BLOCK)
            if self._read(_SYNC) != sync:
                raise Damaged("the marker behind a block is another one")
            data = _inflate(packed) if codec == "deflate" else packed
            if not 0 < count <= len(data):  # a record has at least one byte
                raise Damaged(f"a block of {count} records in {len(data)} bytes")
            self._unpacked += len(data)
            if self._unpacked > limits.SPARE + limits.MAX_RATIO * self.position:
                raise Damaged("it is compressed more than any savepoint's")
            yield Block(count, data)

    def _part(self, most: int) -> bytes:
        size = self._number()
        if not 0 <= size <= most:
            raise Damaged(f"a part of {size} bytes")
        return self._read(size)

    def _number(self) -> int:
        found = 0
        for shift in range(0, 70, 7):
            byte = self._read(1)[0]
            found |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return (found >> 1) ^ -(found & 1)
        raise Damaged("a number of more than 64 bits")

    def _read(self, count: int) -> bytes:
        if count > self._size - self.position:
            raise Damaged("the file ends too early")
        data = self._file.read(count)
        while len(data) < count and (more := self._file.read(count - len(data))):
            data += more
        if len(data) < count:
            raise Damaged("the file ends too early")
        self.position += count
        self.hash.update(data)
        return data


def _inflate(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    try:
        data = unpacker.decompress(packed, limits.MAX_BLOCK)
    except zlib.error as error:
        raise Damaged(str(error)) from error
    if not unpacker.eof:
        # For a block that fills the limit exactly, only the end mark may be left unread.
        reason = "a block is too large" if unpacker.unconsumed_tail else "a block ends too early"
        raise Damaged(reason)
    # fastavro leaves most of zlib's own checksum after the data; no reader uses it.
    if len(unpacker.unused_data) > 4:
        raise Damaged("something follows the data of a block")
    return data


class Decoders:
    """Decoders of the records of one file, with a common limit on the elements they decode."""

    def __init__(self) -> None:
        self._items = 0

    def of(self, schema: Any) -> Decoder:
        """Return the decoder of a schema, which must be a known one and not recursive."""
        if isinstance(schema, list):
            return _union([self.of(branch) for branch in schema])
        if isinstance(schema, str):
            return _PRIMITIVES[schema]
        if schema["type"] == "record":
            return _record([(f["name"], self.of(f["type"])) for f in schema["fields"]])
        if schema["type"] == "array":
            return self._array(self.of(schema["items"]))
        assert schema["type"] == "map"
        return self._map(self.of(schema["values"]))

    def named(self, schema: Sequence[Mapping[str, Any]]) -> Decoder:
        """Return the decoder of a union of records; it returns pairs of record name and fields."""
        return _union([_named(record["name"], self.of(record)) for record in schema])

    def _count(self, data: bytes, at: int) -> tuple[int, int]:
        """Decode the number of elements in the next block of an array; 0 is the array's end."""
        count, at = _long(data, at)
        if count < 0:  # then the size in bytes of this block follows
            count = -count
            _, at = _long(data, at)
        self._items += count
        if count > len(data) - at or self._items > limits.MAX_ITEMS:
            raise Damaged(f"an array of {count} elements")
        return count, at

    def _array(self, element: Decoder) -> Decoder:
        def decode(data: bytes, at: int) -> tuple[Any, int]:
            found = []
            count, at = self._count(data, at)
            while count:
                for _ in range(count):
                    value, at = element(data, at)
                    found.append(value)
                count, at = self._count(data, at)
            return found, at

        return decode

    def _map(self, value: Decoder) -> Decoder:
        entry = self._array(_record([("key", _text), ("value", value)]))

        def decode(data: bytes, at: int) -> tuple[Any, int]:
            entries, at = entry(data, at)
            return {e["key"]: e["value"] for e in entries}, at

        return decode


def decode_all(block: Block, decoder: Decoder) -> Iterator[Any]:
    """Yield the records of a block; raise Damaged if anything follows them."""
    at = 0
    for _ in range(block.count):
        try:
            value, at = decoder(block.data, at)
        except IndexError:
            raise Damaged("a block ends in the middle of a record") from None
        yield value
    if at != len(block.data):
        raise Damaged("something follows the records of a block")


def _union(branches: Sequence[Decoder]) -> Decoder:
    def decode(data: bytes, at: int) -> tuple[Any, int]:
        number, at = _long(data, at)
        if not 0 <= number < len(branches):
            raise Damaged(f"a union without a branch {number}")
        return branches[number](data, at)

    return decode


def _record(fields: Sequence[tuple[str, Decoder]]) -> Decoder:
    def decode(data: bytes, at: int) -> tuple[Mapping[str, Any], int]:
        found = {}
        for name, decoder in fields:
            found[name], at = decoder(data, at)
        return found, at

    return decode


def _named(name: str, record: Decoder) -> Decoder:
    def decode(data: bytes, at: int) -> tuple[tuple[str, Any], int]:
        value, at = record(data, at)
        return (name, value), at

    return decode


def _null(data: bytes, at: int) -> tuple[None, int]:
    return None, at


def _long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    number = byte & 0x7F
    for shift in range(7, 70, 7):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >> 64:
                break
            return (number >> 1) ^ -(number & 1), at
    raise Damaged("a number of more than 64 bits")


def _double(data: bytes, at: int) -> tuple[float, int]:
    if at + 8 > len(data):
        raise IndexError
    return _DOUBLE.unpack_from(data, at)[0], at + 8


def _boolean(data: bytes, at: int) -> tuple[bool, int]:
    if data[at] > 1:
        raise Damaged(f"a truth value of {data[at]}")
    return data[at] == 1, at + 1


def _text(data: bytes, at: int) -> tuple[str, int]:
    size, at = _long(data, at)
    end = at + size
    if not 0 <= size <= limits.MAX_TEXT or end > len(data):
        raise Damaged(f"a text of {size} bytes")
    return data[at:end].decode(), end


_PRIMITIVES: dict[str, Decoder] = {
    "null": _null,
    "boolean": _boolean,
    "int": _long,
    "long": _long,
    "double": _double,
    "string": _text,
}
