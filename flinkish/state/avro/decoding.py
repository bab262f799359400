"""Avro's binary encoding, read value by value with bounds.

Avro specification 1.11, "Binary Encoding". Bytes may come from anybody: every size is held against
the bytes that are left, and elements that take no bytes (nulls) are counted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

from flinkish.errors import Corrupt

#: Elements of arrays and maps that may be there beyond the number of bytes.
MAX_EMPTY: Final = 1 << 20
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_INT64: Final = 1 << 63


class Cursor:
    """A place in the bytes of one value."""

    __slots__ = ("at", "data", "items")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.items = 0

    def damaged(self, reason: str) -> Corrupt:
        """Return the error for these bytes."""
        return Corrupt(f"an Avro value is damaged at byte {self.at} of {len(self.data)}: {reason}")

    def take(self, size: int) -> bytes:
        """Read some bytes."""
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise self.damaged(f"{size} bytes cannot follow")
        start, self.at = self.at, end
        return self.data[start:end]

    def blocks(self) -> Iterator[int]:
        """Yield the number of elements of each block of an array or map."""
        while count := decode_long(self):
            if count < 0:  # followed by the block's size in bytes
                count = -count
                decode_long(self)
            self.items += count
            if self.items > len(self.data) + MAX_EMPTY:
                raise self.damaged(f"{count} elements cannot follow")
            yield count


#: Reads a value.
Decode = Callable[[Cursor], Any]


def decode_null(cursor: Cursor) -> None:
    """Read a null: no bytes."""
    return


def decode_boolean(cursor: Cursor) -> bool:
    """Read a boolean."""
    byte = cursor.take(1)[0]
    if byte > 1:
        raise cursor.damaged(f"{byte} is no boolean")
    return byte == 1


def decode_long(cursor: Cursor) -> int:
    """Read an int or long: a zigzag varint."""
    data, at = cursor.data, cursor.at
    number = shift = 0
    try:
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise cursor.damaged("a number is too long")
    except IndexError:
        raise cursor.damaged("it ends within a number") from None
    cursor.at = at
    number = (number >> 1) ^ -(number & 1)
    if not -_INT64 <= number < _INT64:
        raise cursor.damaged("a number has more than 64 bits")
    return number


def decode_float(cursor: Cursor) -> float:
    """Read a float."""
    return float(_FLOAT.unpack(cursor.take(4))[0])


def decode_double(cursor: Cursor) -> float:
    """Read a double."""
    return float(_DOUBLE.unpack(cursor.take(8))[0])


def decode_bytes(cursor: Cursor) -> bytes:
    """Read bytes."""
    return cursor.take(decode_long(cursor))


def decode_string(cursor: Cursor) -> str:
    """Read a string."""
    data = cursor.take(decode_long(cursor))
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise cursor.damaged("a string is not UTF-8") from error


PRIMITIVE_DECODERS: Final[dict[str, Decode]] = {
    "null": decode_null,
    "boolean": decode_boolean,
    "int": decode_long,
    "long": decode_long,
    "float": decode_float,
    "double": decode_double,
    "bytes": decode_bytes,
    "string": decode_string,
}


def as_float(number: float) -> float:
    """Round a number to what a float of 32 bits can be."""
    return float(_FLOAT.unpack(_FLOAT.pack(number))[0])


def then(decode: Decode, convert: Callable[[Any], Any]) -> Decode:
    """Return what reads a value and converts it."""
    return lambda cursor: convert(decode(cursor))


def fixed(size: int) -> Decode:
    """Return what reads a fixed number of bytes."""
    return lambda cursor: cursor.take(size)


def choice(values: list[str]) -> Decode:
    """Return what reads an enum; ``values`` are what its numbers mean."""

    def decode(cursor: Cursor) -> str:
        number = decode_long(cursor)
        if not 0 <= number < len(values):
            raise cursor.damaged(f"{number} is no number of the enum's symbols")
        return values[number]

    return decode


def union(branches: list[Decode]) -> Decode:
    """Return what reads a value of a union."""

    def decode(cursor: Cursor) -> Any:
        number = decode_long(cursor)
        if not 0 <= number < len(branches):
            raise cursor.damaged(f"{number} is no number of the union's types")
        return branches[number](cursor)

    return decode


def array(item: Decode) -> Decode:
    """Return what reads an array."""

    def decode(cursor: Cursor) -> list[Any]:
        found: list[Any] = []
        for count in cursor.blocks():
            found.extend(item(cursor) for _ in range(count))
        return found

    return decode


def mapping(value: Decode) -> Decode:
    """Return what reads a map."""

    def decode(cursor: Cursor) -> dict[str, Any]:
        found = {}
        for count in cursor.blocks():
            for _ in range(count):
                key = decode_string(cursor)
                found[key] = value(cursor)
        return found

    return decode


class RecordDecoder:
    """Reads a record; the lists are filled after it is made, so that it may contain itself.

    Attributes
    ----------
    parts
        For each written field the name to keep it under (None to skip it), and what reads it.
    added
        The names of the fields that were not written, and what makes their values.
    """

    def __init__(self) -> None:
        self.parts: list[tuple[str | None, Decode]] = []
        self.added: list[tuple[str, Callable[[], Any]]] = []

    def __call__(self, cursor: Cursor) -> dict[str, Any]:
        """Read a record."""
        record: dict[str, Any] = {}
        for name, decode in self.parts:
            value = decode(cursor)
            if name is not None:
                record[name] = value
        for name, make in self.added:
            record[name] = make()
        return record


def read_value(decode: Decode, data: bytes) -> Any:
    """Return the value of all the bytes.

    Raises
    ------
    Corrupt
        The bytes are none of a value.
    """
    cursor = Cursor(data)
    try:
        value = decode(cursor)
    except Corrupt:
        raise
    except RecursionError:
        raise cursor.damaged("it has too many values within each other") from None
    except (ValueError, ArithmeticError) as error:  # a date that no calendar has
        raise cursor.damaged(f"{type(error).__name__}: {error}") from error
    if cursor.at != len(data):
        raise cursor.damaged(f"{len(data) - cursor.at} bytes too many")
    return value
