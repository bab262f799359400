"""Serializer of values of an Avro schema: plain dicts, lists, numbers ...

Values are those that fastavro uses for Avro's types: a record is a dict, a decimal a ``Decimal``, a
timestamp a ``datetime``. The bytes are Avro's binary encoding of one value, without a header,
because the schema is in the snapshot.

A value must determine which type of a union it has, because values are plain: 5, not "the long 5".
fastavro writes a value as the first type of the union that accepts it, and floats accept whole
numbers, dates accept numbers of days, arrays accept bytes: with ``[float, long]`` a long would
silently lose digits. So a union is tested when it is declared.
"""

from __future__ import annotations

import io
import itertools
import json
import uuid
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any, Final

import fastavro

from flinkish.annotations import public_evolving
from flinkish.errors import Corrupt, UsageError
from flinkish.state.avro.defaults import is_lossy, is_same, set_defaults
from flinkish.state.avro.resolution import AvroResolution, check_defaults, compile_reader
from flinkish.state.avro.schemas import (
    Array,
    AvroSchema,
    Enum,
    Fixed,
    Map,
    Node,
    Record,
    Scalar,
    Union,
    is_recursive,
    parse_schema,
    walk,
)
from flinkish.state.composite import changed_type
from flinkish.state.serializers import (
    OldStateReader,
    SnapshotLoader,
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
)

#: The field of a record around the value. The record adds no bytes, but fastavro would parse a
#: schema that is not a record at every use.
_VALUE: Final = "value"
#: Calls by which Python's stack may be deeper when a recursive value is read than when written.
_MARGIN: Final = 100


@public_evolving
class AvroSerializer(TypeSerializer[Any]):
    """Values of an Avro schema.

    Parameters
    ----------
    schema
        JSON text, the name of a primitive type, or what ``json.loads`` returns.

    Raises
    ------
    UsageError
        It is not an Avro schema; a default is not of its field's type; or values do not determine
        their type in a union (see :mod:`flinkish.state.avro.serializer`).
    """

    def __init__(self, schema: Any) -> None:
        self.schema = parse_schema(schema)
        check_defaults(self.schema)
        check_tellable(self.schema)
        wrapper = {
            "type": "record",
            "name": "FlinkishValue",
            "fields": [{"name": _VALUE, "type": json.loads(self.schema.text)}],
        }
        self._parsed: Any = fastavro.parse_schema(wrapper)
        set_defaults(self._parsed, self.schema)
        self._margin = _MARGIN if is_recursive(self.schema.root) else 0
        self._is_read_back = self._margin > 0 or any(map(is_lossy, walk(self.schema.root)))
        self._same: AvroResolution | None = None
        if not _is_plain(self.schema.root):
            self._same = compile_reader(self.schema, self.schema)

    @property
    def type_name(self) -> str:
        return f"Avro {self.schema.root}"

    def serialize(self, value: Any) -> bytes:
        """Return the bytes of a value; a field that a dict lacks gets its default."""
        out, whole = io.BytesIO(), {_VALUE: value}
        try:
            fastavro.schemaless_writer(out, self._parsed, whole, strict_allow_default=True)
            fastavro.validate(whole, self._parsed)
            if self._is_read_back and not is_same(value, self._read_back(out, self._margin)):
                raise ValueError("another value would be read from its bytes")
        except Exception as error:  # fastavro may raise anything
            raise UsageError(
                f"the value does not match the schema {self.schema.name}: "
                f"{type(error).__name__}: {' '.join(str(error).split())}",
                hint="write values of the declared schema",
            ) from error
        return out.getvalue()

    def _read_back(self, out: io.BytesIO, margin: int) -> Any:
        return self._read_back(out, margin - 1) if margin else self.deserialize(out.getvalue())

    def deserialize(self, data: bytes) -> Any:
        if self._same is not None:
            return self._same.read(data)
        source = io.BytesIO(data)
        try:
            value: Any = fastavro.schemaless_reader(source, self._parsed, None)
        except Exception as error:
            raise Corrupt(
                f"{len(data)} bytes are not a value of the schema {self.schema.name}: "
                f"{type(error).__name__}: {error}"
            ) from error
        if source.tell() != len(data):
            left = len(data) - source.tell()
            raise Corrupt(f"{left} extra bytes after a value of {self.schema.name}")
        return value[_VALUE]

    def snapshot_configuration(self) -> TypeSerializerSnapshot[Any]:
        return AvroSerializerSnapshot(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return AvroSerializer, (self.schema.text,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AvroSerializer) and other.schema.text == self.schema.text

    def __hash__(self) -> int:
        return hash(self.schema.text)

    def __repr__(self) -> str:
        return f"AvroSerializer({self.schema.name})"


class AvroSerializerSnapshot(TypeSerializerSnapshot[Any]):
    """The snapshot of an :class:`AvroSerializer`: its schema.

    Without a serializer its schema is ``null`` until :meth:`read_snapshot` sets it.
    """

    def __init__(self, serializer: AvroSerializer | None = None) -> None:
        self._schema = parse_schema("null") if serializer is None else serializer.schema

    @property
    def type_name(self) -> str:
        return f"Avro {self._schema.root}"

    @property
    def description(self) -> str:
        return f"Avro {self._schema.text}"

    @property
    def schema(self) -> Any:
        """The schema, as ``json.loads`` returns it."""
        return json.loads(self._schema.text)

    def write_snapshot(self) -> bytes:
        return self._schema.text.encode()

    def read_snapshot(self, version: int, data: bytes, loader: SnapshotLoader) -> None:
        self._schema = parse_schema(json.loads(data.decode()))

    def resolve_schema_compatibility(
        self, new_serializer: TypeSerializer[Any]
    ) -> TypeSerializerSchemaCompatibility:
        """Judge by Avro's schema resolution."""
        if not isinstance(new_serializer, AvroSerializer):
            return changed_type(self, new_serializer)
        return compile_reader(self._schema, new_serializer.schema).compatibility

    def restore_serializer(self) -> TypeSerializer[Any]:
        return AvroSerializer(self._schema.text)

    def reader_for(self, new_serializer: TypeSerializer[Any]) -> TypeSerializer[Any]:
        """Return a reader of the old schema's bytes as values of the new one."""
        assert isinstance(new_serializer, AvroSerializer)
        return ResolvingReader(self._schema.text, new_serializer.schema.text)


class ResolvingReader(OldStateReader[Any]):
    """Reads bytes of one schema as values of another; compiled once.

    ``writer`` is the JSON schema of the bytes, ``reader`` that of the values.
    """

    def __init__(self, writer: str, reader: str) -> None:
        self._texts = writer, reader
        self._resolution = compile_reader(json.loads(writer), json.loads(reader))

    @property
    def type_name(self) -> str:
        return f"Avro {parse_schema(json.loads(self._texts[1])).root}"

    def deserialize(self, data: bytes) -> Any:
        return self._resolution.read(data)

    def __reduce__(self) -> tuple[Any, ...]:
        return ResolvingReader, self._texts


def _is_plain(root: Node) -> bool:
    """Return whether fastavro's reader is safe for untrusted bytes.

    With recursive values, or array elements that take no bytes, a few bytes could become more than
    fits into memory; flinkish's own reader, which is slower, counts the elements.
    """
    return not is_recursive(root) and not any(
        isinstance(node, Array) and _is_empty(node.items) for node in walk(root)
    )


def _is_empty(node: Node) -> bool:
    """Return whether values of a type, which is not recursive, take no bytes."""
    if isinstance(node, Record):
        return all(_is_empty(each.type) for each in node.fields)
    if isinstance(node, Fixed):
        return node.size == 0
    return isinstance(node, Scalar) and node.kind == "null"


_UTC: Final = datetime(2024, 2, 29, 1, 2, 3, 4000, tzinfo=timezone.utc)
#: Values that would change if they were written as a wrong type.
_SAMPLES: Final[dict[str, tuple[Any, ...]]] = {
    "null": (None,),
    "boolean": (True,),
    "int": (0, (1 << 31) - 1),
    "long": (0, (1 << 53) + 1),
    "float": (1.0,),
    "double": (1.0, 0.1),
    "bytes": (b"", b"x"),
    "string": ("x",),
    "date": (_UTC.date(), date(1970, 1, 1)),
    "time-millis": (time(1, 2, 3, 4000),),
    "time-micros": (time(1, 2, 3, 4000),),
    "timestamp-millis": (_UTC,),
    "timestamp-micros": (_UTC,),
    "local-timestamp-millis": (_UTC.replace(tzinfo=None),),
    "local-timestamp-micros": (_UTC.replace(tzinfo=None),),
    "uuid": (uuid.UUID(int=1),),
}


def check_tellable(schema: AvroSchema) -> None:
    """Check that a value determines which type of a union it belongs to.

    Raises UsageError if a union has two records with fields of the same names, a record and a map,
    or a type whose values would be written as another type.
    """
    for node in walk(schema.root):
        if isinstance(node, Union):
            _check_dicts(node)
            _check_values(node)


def _check_dicts(union: Union) -> None:
    records = [each for each in union.branches if isinstance(each, Record)]
    if records and any(isinstance(each, Map) for each in union.branches):
        raise UsageError(
            f"the union {union} has a map and a record: a dict does not say which it is",
            hint="put the map into a record of its own",
        )
    names = {each: {field.name for field in each.fields} for each in records}
    for first, second in itertools.combinations(records, 2):
        if names[first] == names[second]:
            raise UsageError(
                f"{first} and {second} of one union have the same fields: a dict does not say "
                "which of them it is",
                hint="give one of them a field that the other does not have",
            )
        more = [each for each in first.fields if each.name not in names[second]]
        if names[second] < names[first] and all(each.has_default for each in more):
            raise UsageError(
                f"in the union {union} a {second} would be written as the {first}, which has its "
                "fields and defaults for the others",
                hint=f"put {second} before it",
            )


def _check_values(union: Union) -> None:
    tried = [each for each in union.branches if isinstance(each, (Scalar, Fixed, Enum, Array))]
    if len(tried) < 2:
        return
    field = {"name": "x", "type": [_simple(each) for each in tried]}
    parsed = fastavro.parse_schema({"type": "record", "name": "Tried", "fields": [field]})
    for each in tried:
        for sample in _samples(each):
            if not _comes_back(parsed, sample):
                raise UsageError(
                    f"in the union {union} the {each} {sample!r} would be written as another "
                    "type that comes before it",
                    hint=f"put {each} before it",
                )


def _comes_back(schema: Any, sample: Any) -> bool:
    out = io.BytesIO()
    try:
        fastavro.schemaless_writer(out, schema, {"x": sample})
        out.seek(0)
        record: Any = fastavro.schemaless_reader(out, schema, None)
    except ValueError:  # a string was written as a date or UUID
        return False
    return type(record["x"]) is type(sample) and bool(record["x"] == sample)


def _simple(node: Scalar | Fixed | Enum | Array) -> Any:
    """Return a simple schema that, like the node, wrongly accepts some values of other types."""
    if isinstance(node, Array):
        return {"type": "array", "items": "int"}
    if isinstance(node, Enum):
        return {"type": "enum", "name": f"X{id(node)}", "symbols": list(node.symbols)}
    if isinstance(node, Fixed):
        return {**node.scalar.schema, "type": "fixed", "name": f"X{id(node)}", "size": node.size}
    return dict(node.schema) if node.logical else node.kind


def _samples(node: Scalar | Fixed | Enum | Array) -> tuple[Any, ...]:
    if isinstance(node, Array):
        return ([], [1])
    if isinstance(node, Enum):
        return node.symbols
    scalar = node.scalar if isinstance(node, Fixed) else node
    if scalar.decimal:
        return (Decimal(1).scaleb(-scalar.decimal[1]),)
    if isinstance(node, Fixed):
        return (bytes(node.size),)
    return _SAMPLES.get(node.logical or node.kind, ())
