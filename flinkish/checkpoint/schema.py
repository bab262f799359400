"""Spark's state schema files: the key and value schema of every state store, as Spark wrote them.

Formats (Spark's ``StateSchemaCompatibilityChecker`` and ``SchemaHelper``), strings in Java's
modified UTF-8 behind a two-byte length (``DataOutput.writeUTF``):

- v1: ``"v1"``, key schema JSON, value schema JSON;
- v2: ``"v2"``, chunks(key), chunks(value), where chunks is int32 n and n strings (a string of
  writeUTF holds at most 65,535 bytes);
- v3: ``"v3"``, int32 number of column families, for each its name, int16 key schema id,
  chunks(key), int16 value schema id, chunks(value), chunks(key encoder), chunks(user key).
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

from flinkish.engine.spark_schemas import check_struct

#: The column family of a store that has only one.
DEFAULT_FAMILY = "default"


class SchemaFormatError(ValueError):
    """The bytes are no state schema file of a known version."""


@dataclass(frozen=True)
class FamilySchema:
    """Schemas of one column family (or of a whole store that has none)."""

    name: str
    key_schema: dict[str, Any]
    value_schema: dict[str, Any]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        end = self._at + count
        if count < 0 or end > len(self._data):
            raise SchemaFormatError("the file ends too early")
        piece = self._data[self._at : end]
        self._at = end
        return piece

    def int16(self) -> int:
        return int(struct.unpack(">h", self.take(2))[0])

    def int32(self) -> int:
        return int(struct.unpack(">i", self.take(4))[0])

    def count(self) -> int:
        """How many of something follow, each of two bytes at least."""
        count = self.int32()
        if not 0 <= count <= (len(self._data) - self._at) // 2:
            raise SchemaFormatError(f"a count of {count}")
        return count

    def utf(self) -> str:
        (size,) = struct.unpack(">H", self.take(2))
        return decode_modified_utf8(self.take(size))

    def chunks(self) -> str:
        return "".join(self.utf() for _ in range(self.count()))


def decode_modified_utf8(data: bytes) -> str:
    """Java's modified UTF-8: NUL as two bytes, other planes as surrogate pairs."""
    text = data.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def parse_schema_file(data: bytes) -> tuple[FamilySchema, ...]:
    """The schemas in a state schema file; SchemaFormatError when it is none we know."""
    reader = _Reader(data)
    try:
        version = reader.utf()
        if version == "v1":
            return (
                FamilySchema(
                    DEFAULT_FAMILY, parse_struct(reader.utf()), parse_struct(reader.utf())
                ),
            )
        if version == "v2":
            key, value = reader.chunks(), reader.chunks()
            return (FamilySchema(DEFAULT_FAMILY, parse_struct(key), parse_struct(value)),)
        if version == "v3":
            return tuple(_family(reader) for _ in range(reader.count()))
    except ValueError as error:  # JSON and Unicode errors are ValueErrors too
        raise SchemaFormatError(f"not a state schema file: {error}") from error
    raise SchemaFormatError(f"state schema file of unknown version {version[:20]!r}")


def _family(reader: _Reader) -> FamilySchema:
    name = reader.utf()
    reader.int16()  # key schema id
    key = parse_struct(reader.chunks())
    reader.int16()  # value schema id
    value = parse_struct(reader.chunks())
    reader.chunks()  # key state encoder
    reader.chunks()  # schema of the user's key
    return FamilySchema(name, key, value)


def parse_struct(text: str) -> dict[str, Any]:
    """A struct's schema in Spark's JSON; SchemaFormatError where it is none."""
    try:
        parsed: dict[str, Any] = json.loads(text)
        check_struct(parsed)
    except (ValueError, RecursionError) as error:
        raise SchemaFormatError(str(error)) from error
    return parsed
