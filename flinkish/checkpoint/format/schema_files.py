"""State schema files: key and value schemas of a store's column families.

Strings are Java's modified UTF-8 after two bytes of length (``DataOutput.writeUTF``); chunks(s) is
int32BE n and n such strings, because one holds 65,535 bytes at most. Formats
(``StateSchemaCompatibilityChecker``, ``SchemaHelper``):

- v1: "v1", key schema, value schema;
- v2: "v2", chunks(key schema), chunks(value schema);
- v3: "v3", int32BE number of families, then for each family: its name, int16BE id of the key
  schema, chunks(key schema), int16BE id of the value schema, chunks(value schema), chunks(key
  encoder), chunks(schema of the user's key).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flinkish.checkpoint.format.errors import (
    CannotWrite,
    CheckpointFormatError,
    UnsupportedCheckpointFormat,
)
from flinkish.checkpoint.format.names import DEFAULT_STORE
from flinkish.checkpoint.format.text import (
    MAX_UTF,
    decode_modified_utf8,
    parse_json,
    spark_json,
    write_utf,
)

#: The column family of a store that has only one.
DEFAULT_FAMILY: Final = DEFAULT_STORE
#: What Spark writes for a family that has no schema of a user's key.
NO_USER_KEY: Final = "{    }"
#: Largest nesting depth of structs, arrays and maps.
MAX_SCHEMA_DEPTH: Final = 60
_VERSION = re.compile(r"v([1-9][0-9]{0,8})")


#: The last key column of session windows (``StreamingSessionWindowStateManagerImplV1``).
SESSION_START: Final = "sessionStartTime"


@dataclass(frozen=True)
class StoreInfo:
    """A state store, or one column family of it, with its schemas as Spark's JSON if known."""

    name: str
    key_schema: dict[str, Any] | None
    value_schema: dict[str, Any] | None

    @property
    def has_grouping_key(self) -> bool:
        """Whether Spark spreads its rows over partitions; False where the schema is not known.

        Global limits and aggregations without keys always have one partition.
        """
        return any(
            field["type"] not in ("void", "null") and field["name"] != SESSION_START
            for field in (self.key_schema or {}).get("fields", ())
        )


@dataclass(frozen=True)
class FamilySchemas:
    """The schemas of one column family in a schema file.

    ``name`` is ``default`` in versions 1 and 2, which have a single family. ``key`` and ``value``
    are JSON of ``StructType``, ``encoder`` of ``KeyStateEncoderSpec``. ``encoder``, the ids and
    ``user_key`` (the schema of the user's key in a map, as text) are in version 3 only.
    """

    name: str
    key: dict[str, Any]
    value: dict[str, Any]
    encoder: dict[str, Any] | None = None
    key_id: int = 0
    value_id: int = 0
    user_key: str = NO_USER_KEY


def parse_schema_file(data: bytes, name: str) -> tuple[FamilySchemas, ...]:
    """Parse a state schema file.

    Raises UnsupportedCheckpointFormat for a newer version, and CheckpointFormatError for damage.
    """
    reader = _Reader(data, name)
    version = reader.version()
    if version == 3:
        families = tuple(_family(reader) for _ in range(reader.count()))
    else:
        text = reader.utf if version == 1 else reader.chunks
        families = (FamilySchemas(DEFAULT_FAMILY, reader.struct(text), reader.struct(text)),)
    if reader.at != len(data):
        raise CheckpointFormatError(name, reader.at, "content follows the end of the schemas")
    return families


def schema_version(data: bytes, name: str) -> int:
    """Return the version of a state schema file, 1 to 3; raise as :func:`parse_schema_file`."""
    return _Reader(data, name).version()


def _family(reader: _Reader) -> FamilySchemas:
    name = reader.utf()
    key_id, key = reader.number(">h"), reader.struct(reader.chunks)
    value_id, value = reader.number(">h"), reader.struct(reader.chunks)
    encoder, user_key = reader.object(reader.chunks), reader.chunks()
    return FamilySchemas(name, key, value, encoder, key_id, value_id, user_key)


def write_schema_file(families: Sequence[FamilySchemas], version: int) -> bytes:
    """Return the bytes of a state schema file; parsed families give the same bytes again.

    ``version`` is 1 to 3; versions 1 and 2 have a single family. Raises CannotWrite for another
    version, for families that it cannot have, or for a schema whose characters make it too long.
    """
    if version == 3:
        return write_utf("v3") + struct.pack(">i", len(families)) + b"".join(map(_v3, families))
    if version not in {1, 2} or len(families) != 1:
        raise CannotWrite(f"no schema file of version {version} has {len(families)} families")
    write = write_utf if version == 1 else _chunks
    [family] = families
    return (
        write_utf(f"v{version}") + write(spark_json(family.key)) + write(spark_json(family.value))
    )


def _v3(family: FamilySchemas) -> bytes:
    if family.encoder is None:
        raise CannotWrite(f"the family {family.name!r} has no key encoder, which version 3 needs")
    return b"".join(
        [
            write_utf(family.name),
            struct.pack(">h", family.key_id) + _chunks(spark_json(family.key)),
            struct.pack(">h", family.value_id) + _chunks(spark_json(family.value)),
            _chunks(spark_json(family.encoder)),
            _chunks(family.user_key),
        ]
    )


def _chunks(text: str) -> bytes:
    units = text.encode("utf-16-be", "surrogatepass")  # Java counts in UTF-16 units
    parts = [units[at : at + 2 * MAX_UTF] for at in range(0, len(units), 2 * MAX_UTF)]
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
            raise CheckpointFormatError(self._name, self.at, "the file ends too early")
        self.at += count
        return piece

    def version(self) -> int:
        """Return the version at the beginning, 1 to 3."""
        text = self.utf()
        match = _VERSION.fullmatch(text)
        if match is None:
            reason = f"{text[:20]!r} is not a version of state schemas"
            raise CheckpointFormatError(self._name, 0, reason)
        if int(match[1]) > 3:
            reason = f"state schemas of version {text!r}; the newest known is 'v3'"
            raise UnsupportedCheckpointFormat(self._name, 0, reason)
        return int(match[1])

    def number(self, form: str) -> int:
        """Return a count or an id, which is never negative."""
        start = self.at
        number = int(struct.unpack(form, self._take(struct.calcsize(form)))[0])
        if number < 0:
            raise CheckpointFormatError(self._name, start, f"the number {number} is negative")
        return number

    def count(self) -> int:
        """Return the number of items that follow, each of at least two bytes."""
        count = self.number(">i")
        if count > (len(self._data) - self.at) // 2:
            reason = f"the file is too short for {count} items"
            raise CheckpointFormatError(self._name, self.at - 4, reason)
        return count

    def utf(self) -> str:
        start = self.at
        data = self._take(self.number(">H"))
        try:
            return decode_modified_utf8(data)
        except UnicodeError as error:
            raise CheckpointFormatError(self._name, start, "damaged text") from error

    def chunks(self) -> str:
        return "".join(self.utf() for _ in range(self.count()))

    def struct(self, read: Callable[[], str]) -> dict[str, Any]:
        """Return a schema; errors name the offset where its text begins."""
        start = self.at
        parsed = self.object(read)
        try:
            check_struct(parsed)
        except ValueError as error:
            raise CheckpointFormatError(self._name, start, str(error)) from error
        return parsed

    def object(self, read: Callable[[], str]) -> dict[str, Any]:
        start = self.at
        try:
            parsed = parse_json(read())
        except CheckpointFormatError:
            raise
        except ValueError as error:
            reason = f"a schema is not JSON: {error}"
            raise CheckpointFormatError(self._name, start, reason) from error
        if not isinstance(parsed, dict):
            raise CheckpointFormatError(self._name, start, "a schema is not a struct")
        return parsed


def parse_struct(text: str) -> dict[str, Any]:
    """Parse a struct's schema in Spark's JSON; ValueError if the text is not one."""
    parsed: dict[str, Any] = parse_json(text)
    check_struct(parsed)
    return parsed


def check_struct(schema: Any) -> None:
    """Check that a schema is a struct whose fields have names and types, at every level.

    Raises ValueError.
    """
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        raise ValueError("a schema is not a struct")
    _check({"type": "struct", "fields": schema["fields"]}, 0)


def _check(data_type: Any, depth: int) -> None:
    if depth > MAX_SCHEMA_DEPTH:
        raise ValueError("a schema is nested too deeply")
    if isinstance(data_type, str):
        return
    if not isinstance(data_type, dict):
        raise ValueError("a type is neither a name nor an object")
    kind = data_type.get("type")
    if kind == "struct":
        fields = data_type.get("fields")
        if not isinstance(fields, list):
            raise ValueError("a struct has no fields")
        for field in fields:
            if not isinstance(field, dict) or not isinstance(field.get("name"), str):
                raise ValueError("a field has no name")
            _check(field.get("type"), depth + 1)
    elif kind == "array":
        _check(data_type.get("elementType"), depth + 1)
    elif kind == "map":
        _check(data_type.get("keyType"), depth + 1)
        _check(data_type.get("valueType"), depth + 1)
