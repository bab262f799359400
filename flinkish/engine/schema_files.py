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
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from flinkish.engine.bounds import parse_json
from flinkish.engine.errors import EngineError, StateFormatError, UnsupportedState
from flinkish.engine.spark_schemas import check_struct

#: What Spark writes where a family has no schema of a user's key.
NO_USER_KEY: Final = "{    }"
#: ``DataOutput.writeUTF`` cannot write more bytes; Spark cuts a schema after so many characters.
_MAX_UTF: Final = 0xFFFF
_ESCAPE = re.compile(r"\\(u[0-9a-f]{4}|.)")


@dataclass(frozen=True)
class FamilySchemas:
    """What a schema file says of one column family.

    ``key`` and ``value`` are JSON of ``StructType``; ``encoder`` is JSON of the key's encoder
    (``KeyStateEncoderSpec``), None in formats v1 and v2, which have none and name their only family
    ``default``. ``key_id`` and ``value_id`` are the ids of the schemas, ``user_key`` is the schema
    of the user's key in a map, as its text; of format v3 only.
    """

    name: str
    key: dict[str, Any]
    value: dict[str, Any]
    encoder: dict[str, Any] | None = None
    key_id: int = 0
    value_id: int = 0
    user_key: str = NO_USER_KEY


def parse_schema_file(data: bytes, name: str) -> tuple[FamilySchemas, ...]:
    """The families in a state schema file; ``name`` is the file's in errors.

    Raises StateFormatError when it is damaged, UnsupportedState when its version is not known.
    """
    reader = _Reader(data, name)
    version = reader.utf()
    found: tuple[FamilySchemas, ...]
    if version == "v1":
        found = (
            FamilySchemas("default", reader.struct(reader.utf()), reader.struct(reader.utf())),
        )
    elif version == "v2":
        key, value = reader.chunks(), reader.chunks()
        found = (FamilySchemas("default", reader.struct(key), reader.struct(value)),)
    elif version == "v3":
        found = tuple(_family(reader) for _ in range(reader.count()))
    else:
        raise UnsupportedState(name, 0, f"state schemas of version {version[:20]!r}")
    if reader.at != len(data):
        raise StateFormatError(name, reader.at, "content follows the end of the schemas")
    return found


def _family(reader: _Reader) -> FamilySchemas:
    name = reader.utf()
    key_id = reader.number(">h")
    key = reader.chunks()
    value_id = reader.number(">h")
    value, encoder, user_key = reader.chunks(), reader.chunks(), reader.chunks()
    key_schema, value_schema = reader.struct(key), reader.struct(value)
    spec = reader.parsed(encoder)
    return FamilySchemas(name, key_schema, value_schema, spec, key_id, value_id, user_key)


def write_schema_file(families: Sequence[FamilySchemas], version: int) -> bytes:
    """The bytes of a state schema file; for what :func:`parse_schema_file` read, the same again.

    Args:
        families: what is in it; one family only in versions 1 and 2.
        version: 1 to 3.

    Raises:
        EngineError: there is no such version, it cannot have these families, or a schema has
            characters that make it too long for the format.
    """
    if version == 3:
        return write_utf("v3") + struct.pack(">i", len(families)) + b"".join(map(_v3, families))
    if version not in {1, 2} or len(families) != 1:
        raise EngineError(f"no schema file of version {version} has {len(families)} families")
    write = write_utf if version == 1 else _chunks
    [family] = families
    return (
        write_utf(f"v{version}") + write(spark_json(family.key)) + write(spark_json(family.value))
    )


def _v3(family: FamilySchemas) -> bytes:
    if family.encoder is None:
        raise EngineError(f"the family {family.name!r} has no key encoder, which version 3 needs")
    return b"".join(
        [
            write_utf(family.name),
            struct.pack(">h", family.key_id) + _chunks(spark_json(family.key)),
            struct.pack(">h", family.value_id) + _chunks(spark_json(family.value)),
            _chunks(spark_json(family.encoder)),
            _chunks(family.user_key),
        ]
    )


def spark_json(value: Any) -> str:
    """JSON as Spark's Jackson writes it: compact, characters as they are, escapes in capitals."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return _ESCAPE.sub(lambda m: "\\u" + m[1][1:].upper() if len(m[1]) > 1 else m[0], text)


def write_utf(text: str) -> bytes:
    """Java's ``DataOutput.writeUTF``; EngineError when the text is too long for it."""
    units = text.encode("utf-16-be", "surrogatepass")
    points = struct.unpack(f">{len(units) // 2}H", units)
    data = b"".join(
        b"\xc0\x80" if p == 0 else chr(p).encode("utf-8", "surrogatepass") for p in points
    )
    if len(data) > _MAX_UTF:
        raise EngineError(f"a text of {len(data)} bytes is too long for Java's writeUTF")
    return struct.pack(">H", len(data)) + data


def _chunks(text: str) -> bytes:
    units = text.encode("utf-16-be", "surrogatepass")  # Java counts in these
    parts = [units[at : at + 2 * _MAX_UTF] for at in range(0, len(units), 2 * _MAX_UTF)]
    texts = [part.decode("utf-16-be", "surrogatepass") for part in parts]
    return struct.pack(">i", len(texts)) + b"".join(map(write_utf, texts))


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

    def count(self) -> int:
        """How many of something follow, each of two bytes at least."""
        count = self.number(">i")
        if count > (len(self._data) - self.at) // 2:
            raise StateFormatError(self._name, self.at - 4, f"a count of {count}")
        return count

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
        return "".join(self.utf() for _ in range(self.count()))

    def struct(self, text: str) -> dict[str, Any]:
        parsed = self.parsed(text)
        try:
            check_struct(parsed)
        except ValueError as error:
            raise StateFormatError(self._name, self.at, str(error)) from error
        return parsed

    def parsed(self, text: str) -> dict[str, Any]:
        try:
            parsed = parse_json(text)
        except ValueError as error:
            reason = f"a schema is not JSON: {error}"
            raise StateFormatError(self._name, self.at, reason) from error
        if not isinstance(parsed, dict):
            raise StateFormatError(self._name, self.at, "a schema is not a struct")
        return parsed
