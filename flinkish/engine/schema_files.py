"""Spark's state schema files: key and value schemas of a store's column families.

Strings are Java's modified UTF-8 behind two bytes of length (``DataOutput.writeUTF``); chunks(s) is
int32BE n and n such strings, because one holds 65,535 bytes at most. Formats
(``StateSchemaCompatibilityChecker``, ``SchemaHelper``):

- v1: "v1", key schema, value schema;
- v2: "v2", chunks(key schema), chunks(value schema);
- v3: "v3", int32BE number of families, for each: its name, int16BE id of the key schema,
  chunks(key schema), int16BE id of the value schema, chunks(value schema), chunks(key encoder),
  chunks(schema of the user's key).
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

from flinkish.engine.errors import StateFormatError, UnsupportedState


@dataclass(frozen=True)
class FamilySchemas:
    """What a schema file says of one column family.

    ``key`` and ``value`` are JSON of ``StructType``; ``encoder`` is JSON of the key's encoder
    (``KeyStateEncoderSpec``), None in formats v1 and v2, which have none and name their only family
    ``default``.
    """

    name: str
    key: dict[str, Any]
    value: dict[str, Any]
    encoder: dict[str, Any] | None = None


def parse_schema_file(data: bytes, name: str) -> tuple[FamilySchemas, ...]:
    """The families in a state schema file; ``name`` is the file's in errors.

    Raises StateFormatError when it is damaged, UnsupportedState when its version is not known.
    """
    reader = _Reader(data, name)
    version = reader.utf()
    found: tuple[FamilySchemas, ...]
    if version == "v1":
        found = (
            FamilySchemas("default", reader.parsed(reader.utf()), reader.parsed(reader.utf())),
        )
    elif version == "v2":
        key, value = reader.chunks(), reader.chunks()
        found = (FamilySchemas("default", reader.parsed(key), reader.parsed(value)),)
    elif version == "v3":
        found = tuple(_family(reader) for _ in range(reader.number(">i")))
    else:
        raise UnsupportedState(name, 0, f"state schemas of version {version[:20]!r}")
    if reader.at != len(data):
        raise StateFormatError(name, reader.at, "content follows the end of the schemas")
    return found


def _family(reader: _Reader) -> FamilySchemas:
    name = reader.utf()
    reader.number(">h")
    key = reader.chunks()
    reader.number(">h")
    value, encoder = reader.chunks(), reader.chunks()
    reader.chunks()
    return FamilySchemas(name, *(reader.parsed(text) for text in (key, value, encoder)))


class _Reader:
    def __init__(self, data: bytes, name: str) -> None:
        self._data = data
        self._name = name
        self.at = 0

    def _take(self, count: int) -> bytes:
        piece = self._data[self.at : self.at + count]
        if len(piece) != count:
            raise StateFormatError(self._name, self.at, "the file ends too early")
        self.at += count
        return piece

    def number(self, form: str) -> int:
        start = self.at
        number = int(struct.unpack(form, self._take(struct.calcsize(form)))[0])
        if number < 0:
            raise StateFormatError(self._name, start, f"a count of {number}")
        return number

    def utf(self) -> str:
        start = self.at
        data = self._take(self.number(">H"))
        try:
            # Java writes NUL as two bytes and other planes as two surrogates.
            text = data.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeError as error:
            raise StateFormatError(self._name, start, "a damaged text") from error

    def chunks(self) -> str:
        return "".join(self.utf() for _ in range(self.number(">i")))

    def parsed(self, text: str) -> dict[str, Any]:
        try:
            parsed = json.loads(text)
        except ValueError as error:
            raise StateFormatError(self._name, self.at, "a schema is not JSON") from error
        if not isinstance(parsed, dict):
            raise StateFormatError(self._name, self.at, "a schema is not a struct")
        return parsed
