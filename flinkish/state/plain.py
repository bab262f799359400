"""Decode stored values of typed state to plain data, with a savepoint's snapshots alone.

Nothing of the program is imported: a dataclass becomes a struct of its fields as the snapshot names
them. Values that only a class of the program can read (a custom serializer, a pickled value, a
serializer of the old style) stay bytes.

Types are those of Spark's ``DataType.json``: dataclasses, NamedTuples and tuples are structs, a
dict is a map, a ``datetime`` is an ISO 8601 text (it may have a zone), decimals are texts. A value
of an Avro schema is one JSON text, as Spark has no types for Avro's unions and recursive records.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from flinkish.errors import Corrupt, Incompatible
from flinkish.state.avro.serializer import AvroSerializerSnapshot
from flinkish.state.builtin.containers import (
    ListSerializerSnapshot,
    MapSerializerSnapshot,
    OptionalSerializerSnapshot,
    TupleSerializerSnapshot,
)
from flinkish.state.builtin.numpy_scalars import NumpyScalarSerializerSnapshot
from flinkish.state.builtin.primitives import (
    BoolSerializerSnapshot,
    BytesSerializerSnapshot,
    DateSerializerSnapshot,
    DateTimeSerializerSnapshot,
    DecimalSerializerSnapshot,
    DoubleSerializerSnapshot,
    LongSerializerSnapshot,
    StringSerializerSnapshot,
)
from flinkish.state.builtin.records import DataclassSerializerSnapshot
from flinkish.state.generations import split_generation
from flinkish.state.serializers import TypeSerializerSnapshot
from flinkish.state.snapshots import ModuleLoader, StatePlace
from flinkish.state.wire import Parts

#: Spark's types of single values.
_SINGLE: Final[dict[type, str]] = {
    BoolSerializerSnapshot: "boolean",
    LongSerializerSnapshot: "long",
    DoubleSerializerSnapshot: "double",
    StringSerializerSnapshot: "string",
    BytesSerializerSnapshot: "binary",
    DateSerializerSnapshot: "date",
    DateTimeSerializerSnapshot: "string",
    DecimalSerializerSnapshot: "string",
}
_NUMPY: Final = {"bool": "boolean", "float16": "double", "float32": "double", "float64": "double"}


@dataclass(frozen=True)
class PlainType:
    """How the bytes of one serializer become plain data. Picklable.

    ``json`` is Spark's type, as JSON data. ``read`` returns the value of bytes in the form that
    ``pyarrow.array`` accepts for that type.
    """

    json: Any
    read: Callable[[bytes], Any]


@dataclass(frozen=True)
class PlainState:
    """The stored values of one state as plain data. Picklable.

    ``types`` has one entry for each generation; all have the same ``json``.
    """

    types: tuple[PlainType, ...]

    @property
    def json(self) -> Any:
        """Spark's type, as JSON data."""
        return self.types[-1].json

    def read(self, stored: bytes) -> Any:
        """Return the plain value of stored bytes; Corrupt if they are not of this state."""
        generation, data = split_generation(stored)
        if generation >= len(self.types):
            newest = len(self.types) - 1
            raise Corrupt(f"a value is of generation {generation}, but the newest is {newest}")
        return self.types[generation].read(data)


def plain_state(snapshots: Sequence[bytes], place: StatePlace | str) -> PlainState | None:
    """Return how the values of a state become plain data; None if they have no plain form.

    ``snapshots`` has one per generation, the oldest first. If the types of generations differ, all
    values become JSON texts. See :func:`plain_type`. Raises Corrupt if a snapshot is damaged.
    """
    types = [plain_type(each, place) for each in snapshots]
    plain = [each for each in types if each is not None]
    if not plain or len(plain) < len(types):
        return None
    if any(each.json != plain[0].json for each in plain):
        plain = [PlainType("string", _AsText(each.read)) for each in plain]
    return PlainState(tuple(plain))


def plain_type(snapshot: bytes, place: StatePlace | str) -> PlainType | None:
    """Return how a serializer's bytes become plain data; None if they have no plain form.

    They have none if only the program or a newer flinkish can read them, or for a record without
    fields. Raises Corrupt if the snapshot is damaged.
    """
    try:
        return _plain(ModuleLoader(place).read(snapshot))
    except Incompatible:  # a class of the program, or of a newer flinkish
        return None


def _plain(snapshot: TypeSerializerSnapshot[Any]) -> PlainType | None:
    kind = type(snapshot)
    if kind in _SINGLE:
        convert = _iso if kind is DateTimeSerializerSnapshot else None
        convert = _text if kind is DecimalSerializerSnapshot else convert
        return PlainType(_SINGLE[kind], _Single(snapshot.restore_serializer(), convert))
    if isinstance(snapshot, NumpyScalarSerializerSnapshot):
        name = snapshot.type_name.partition(".")[2]
        # A uint64 may exceed Spark's long, and Spark has no type for complex numbers.
        if name == "uint64" or name.startswith("complex"):
            return PlainType("string", _Single(snapshot.restore_serializer(), _text))
        return PlainType(_NUMPY.get(name, "long"), _Single(snapshot.restore_serializer(), _item))
    if isinstance(snapshot, AvroSerializerSnapshot):
        return PlainType("string", _AsText(snapshot.restore_serializer().deserialize))
    if isinstance(snapshot, DataclassSerializerSnapshot):
        return _struct(tuple(snapshot.field_types), snapshot.nested_snapshots)
    if isinstance(snapshot, TupleSerializerSnapshot):
        names = tuple(f"_{place}" for place in range(1, len(snapshot.nested_snapshots) + 1))
        return _struct(names, snapshot.nested_snapshots)
    nested = [_plain(each) for each in getattr(snapshot, "nested_snapshots", ())]
    plain = [each for each in nested if each is not None]
    if len(plain) < len(nested):
        return None
    if isinstance(snapshot, ListSerializerSnapshot):
        (element,) = plain
        json_ = {"type": "array", "elementType": element.json, "containsNull": True}
        return PlainType(json_, _List(element.read))
    if isinstance(snapshot, MapSerializerSnapshot):
        key, value = plain
        if isinstance(snapshot.nested_snapshots[0], OptionalSerializerSnapshot):
            # Keys of Spark's maps are never null.
            return PlainType("string", _AsText(_Map(key.read, value.read)))
        types = {"keyType": key.json, "valueType": value.json, "valueContainsNull": True}
        return PlainType({"type": "map", **types}, _Map(key.read, value.read))
    if isinstance(snapshot, OptionalSerializerSnapshot):
        (inner,) = plain
        return PlainType(inner.json, _Optional(inner.read))
    return None


def _struct(
    names: tuple[str, ...], snapshots: Sequence[TypeSerializerSnapshot[Any]]
) -> PlainType | None:
    """Return a struct's type; None without fields, or if only the program can read a field."""
    nested = [_plain(each) for each in snapshots]
    plain = [each for each in nested if each is not None]
    if len(plain) < len(names) or not names:
        return None
    if len({name.casefold() for name in names}) < len(names):  # Spark ignores case
        return PlainType("string", _AsText(_Struct(names, tuple(each.read for each in plain))))
    fields = [
        {"name": name, "type": each.json, "nullable": True, "metadata": {}}
        for name, each in zip(names, plain, strict=True)
    ]
    reads = tuple(each.read for each in plain)
    return PlainType({"type": "struct", "fields": fields}, _Struct(names, reads))


@dataclass(frozen=True)
class _Single:
    serializer: Any
    convert: Callable[[Any], Any] | None

    def __call__(self, data: bytes) -> Any:
        value = self.serializer.deserialize(data)
        return value if self.convert is None else self.convert(value)


def _iso(value: datetime) -> str:
    return value.isoformat()


def _text(value: Any) -> str:
    return str(value)


def _item(value: Any) -> Any:
    return value.item()


@dataclass(frozen=True)
class _List:
    read: Callable[[bytes], Any]

    def __call__(self, data: bytes) -> Any:
        parts = Parts(data, "a list")
        items = [self.read(parts.part()) for _ in range(parts.count())]
        parts.end()
        return items


@dataclass(frozen=True)
class _Map:
    key: Callable[[bytes], Any]
    value: Callable[[bytes], Any]

    def __call__(self, data: bytes) -> Any:
        parts = Parts(data, "a map")
        entries = []
        for _ in range(parts.count()):
            key = self.key(parts.part())
            entries.append((key, self.value(parts.part())))
        parts.end()
        return entries


@dataclass(frozen=True)
class _Optional:
    read: Callable[[bytes], Any]

    def __call__(self, data: bytes) -> Any:
        if data[:1] == b"\1":
            return self.read(data[1:])
        if data != b"\0":
            raise Parts(data, "an optional value").damaged("it begins with neither 0 nor 1")
        return None


@dataclass(frozen=True)
class _Struct:
    names: tuple[str, ...]
    reads: tuple[Callable[[bytes], Any], ...]

    def __call__(self, data: bytes) -> Any:
        parts = Parts(data, "a record")
        fields = {
            name: read(parts.part()) for name, read in zip(self.names, self.reads, strict=True)
        }
        parts.end()
        return fields


@dataclass(frozen=True)
class _AsText:
    """The value as a JSON text."""

    read: Callable[[bytes], Any]

    def __call__(self, data: bytes) -> Any:
        return json.dumps(_for_json(self.read(data)), ensure_ascii=False)


def _for_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _for_json(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_for_json(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value) if isinstance(value, (Decimal, UUID)) else repr(value)
