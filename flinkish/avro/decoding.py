"""Avro's binary encoding, read value by value with bounds.

Avro specification 1.11, "Binary Encoding". Bytes are untrusted: every size is compared with the
remaining bytes, and elements of arrays and maps, which may take no bytes, are counted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from flinkish.errors import Corrupt

#: By how much the number of elements of arrays and maps may exceed the number of bytes.
MAX_EMPTY: Final = 1 << 20
_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_INT64: Final = 1 << 63


class DamagedAvro(Corrupt):
    """Bytes are damaged, truncated, or not Avro.

    ``offset`` is the position of the damaged value or block in the bytes or the file.
    """

    def __init__(self, reason: str, offset: int, length: int | None = None) -> None:
        of = "" if length is None else f" of {length}"
        super().__init__(f"an Avro value is damaged at byte {offset}{of}: {reason}")
        self.reason = reason
        self.offset = offset
        self._length = length

    def __reduce__(self) -> tuple[type[DamagedAvro], tuple[str, int, int | None]]:
        # Spark's workers send errors to the driver as pickles.
        return type(self), (self.reason, self.offset, self._length)


class Cursor:
    """A position in bytes.

    ``max_items`` limits the elements of all counted arrays and maps; None allows as many as there
    are bytes and :data:`MAX_EMPTY` more. ``max_text`` limits the bytes of a string; None sets no
    limit.
    """

    __slots__ = ("at", "data", "items", "max_items", "max_text")

    def __init__(
        self, data: bytes, *, max_items: int | None = None, max_text: int | None = None
    ) -> None:
        self.data = data
        self.at = 0
        self.items = 0
        self.max_items = len(data) + MAX_EMPTY if max_items is None else max_items
        self.max_text = len(data) if max_text is None else max_text

    def damaged(self, reason: str) -> DamagedAvro:
        """Return the error for these bytes."""
        return DamagedAvro(reason, self.at, len(self.data))

    def take(self, size: int) -> bytes:
        """Read ``size`` bytes; raise DamagedAvro if fewer are left."""
        start = self.at
        end = start + size
        if size < 0 or end > len(self.data):
            raise self.damaged(f"{size} bytes cannot follow")
        self.at = end
        return self.data[start:end]

    def blocks(self, *, counted: bool) -> Iterator[int]:
        """Yield the number of elements of each block of an array or map."""
        while count := decode_long(self):
            if count < 0:  # followed by the block's size in bytes
                count = -count
                decode_long(self)
            if counted:
                self.items += count
                if self.items > self.max_items:
                    raise self.damaged(f"{count} elements cannot follow")
            yield count


#: Reads a value; raises DamagedAvro if the bytes are not such a value.
Decode = Callable[[Cursor], Any]


def decode_null(cursor: Cursor) -> None:
    """Read a null, which takes no bytes."""
    return


def decode_boolean(cursor: Cursor) -> bool:
    """Read a boolean."""
    byte = cursor.take(1)[0]
    if byte > 1:
        raise cursor.damaged(f"{byte} is not a boolean")
    return byte == 1


def decode_long(cursor: Cursor) -> int:
    """Read an int or long: a zigzag varint."""
    data, at = cursor.data, cursor.at
    try:
        number = data[at]
        if number < 0x80:  # nearly always
            cursor.at = at + 1
            return (number >> 1) ^ -(number & 1)
        number &= 0x7F
        shift = 7
        while True:
            at += 1
            byte = data[at]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise cursor.damaged("a number is too long: it has more than 64 bits")
    except IndexError:
        raise cursor.damaged("it ends within a number") from None
    cursor.at = at + 1
    if number >> 64:
        raise cursor.damaged("a number has more than 64 bits")
    return (number >> 1) ^ -(number & 1)


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
    size = decode_long(cursor)
    start = cursor.at
    end = start + size
    if not 0 <= size <= cursor.max_text or end > len(cursor.data):
        raise cursor.damaged(f"a text of {size} bytes cannot follow")
    cursor.at = end
    try:
        return cursor.data[start:end].decode()
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
    """Round a number to a 32-bit float."""
    return float(_FLOAT.unpack(_FLOAT.pack(number))[0])


def then(decode: Decode, convert: Callable[[Any], Any]) -> Decode:
    """Return a reader that converts the value it reads."""
    return lambda cursor: convert(decode(cursor))


def fixed(size: int) -> Decode:
    """Return a reader of a fixed number of bytes."""
    return lambda cursor: cursor.take(size)


def choice(values: list[str]) -> Decode:
    """Return a reader of an enum; ``values`` has the value for each encoded index."""

    def decode(cursor: Cursor) -> str:
        number = decode_long(cursor)
        if not 0 <= number < len(values):
            raise cursor.damaged(f"{number} is not an index of the enum's symbols")
        return values[number]

    return decode


def union(branches: Sequence[Decode]) -> Decode:
    """Return a reader of a value of a union."""

    def decode(cursor: Cursor) -> Any:
        number = decode_long(cursor)
        if not 0 <= number < len(branches):
            raise cursor.damaged(f"{number} is not an index of the union's types")
        return branches[number](cursor)

    return decode


def array(item: Decode, *, counted: bool = True) -> Decode:
    """Return a reader of an array.

    Elements may be left uncounted only if each takes bytes.
    """

    def decode(cursor: Cursor) -> list[Any]:
        items: list[Any] = []
        for count in cursor.blocks(counted=counted):
            items.extend(item(cursor) for _ in range(count))
        return items

    return decode


def mapping(value: Decode) -> Decode:
    """Return a reader of a map."""

    def decode(cursor: Cursor) -> dict[str, Any]:
        entries = {}
        for count in cursor.blocks(counted=True):
            for _ in range(count):
                key = decode_string(cursor)
                entries[key] = value(cursor)
        return entries

    return decode


class RecordDecoder:
    """Reads a record; the lists are filled after construction, so that a record may contain itself.

    ``parts`` has, for each written field, the name for its value (None to skip the field) and its
    reader. ``added`` has the names of the fields not written, and the factories of their values.
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


def takes_no_bytes(schema: Any) -> bool:
    """Return whether values of a schema, as ``json.loads`` returns it, take no bytes."""
    if isinstance(schema, Mapping) and schema["type"] == "record":
        return all(takes_no_bytes(field["type"]) for field in schema["fields"])
    return bool(schema == "null")


def has_empty_items(schema: Any) -> bool:
    """Return whether a schema contains an array whose elements take no bytes.

    Arrays inside the values of maps are not considered.
    """
    if isinstance(schema, list):
        return any(map(has_empty_items, schema))
    if not isinstance(schema, Mapping):
        return False
    if schema["type"] == "array":
        return takes_no_bytes(schema["items"]) or has_empty_items(schema["items"])
    return any(has_empty_items(field["type"]) for field in schema.get("fields", ()))


def compile_schema(schema: Any, *, counted: Callable[[Any], bool] = lambda _: True) -> Decode:
    """Return a reader of values of a schema.

    ``schema`` is trusted, parsed JSON: it is not recursive, contains each record in full, and has
    no enums, fixed bytes or logical types. ``counted`` decides, by the schema of an array's
    elements, whether they are counted; see :func:`array`.
    """
    if isinstance(schema, list):
        return union([compile_schema(branch, counted=counted) for branch in schema])
    if isinstance(schema, str):
        return PRIMITIVE_DECODERS[schema]
    if schema["type"] == "record":
        record = RecordDecoder()
        for field in schema["fields"]:
            record.parts.append((field["name"], compile_schema(field["type"], counted=counted)))
        return record
    if schema["type"] == "array":
        item = compile_schema(schema["items"], counted=counted)
        return array(item, counted=counted(schema["items"]))
    assert schema["type"] == "map"
    return mapping(compile_schema(schema["values"], counted=counted))


def read_value(decode: Decode, data: bytes, *, max_items: int | None = None) -> Any:
    """Decode all the bytes as one value; raise Corrupt if they are not one.

    ``max_items`` is as for :class:`Cursor`.
    """
    cursor = Cursor(data, max_items=max_items)
    try:
        value = decode(cursor)
    except Corrupt:
        raise
    except RecursionError:
        raise cursor.damaged("it is nested too deeply") from None
    except (ValueError, ArithmeticError) as error:  # a date that no calendar has
        raise cursor.damaged(f"{type(error).__name__}: {error}") from error
    if cursor.at != len(data):
        raise cursor.damaged(f"{len(data) - cursor.at} extra bytes")
    return value
