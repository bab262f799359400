"""The types of Spark's state schemas, as a small tree, and the Arrow types that hold their values.

State schema files have the JSON of Spark's ``StructType``. Some types with the same bytes in Spark
are one type here: char, varchar and collated strings are strings, geometry and geography are
binaries, and a user-defined type is its ``sqlType``.

In conversion back to that JSON, properties that these types lose get Spark's defaults: collections
may contain nulls, intervals have all fields, a time has microseconds, strings have no collation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from flinkish.annotations import experimental
from flinkish.engine.rows.unsafe_rows import UnknownType

#: Decimals with more digits do not fit into 8 bytes (``Decimal.MAX_LONG_DIGITS``).
MAX_LONG_DIGITS: Final = 18

_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_STRING = re.compile(r"(string( collate \w+)?|(char|varchar)\(\d+\))")
_BINARY = re.compile(r"(binary|(geometry|geography)(\(.*\))?)")
_MONTHS = re.compile(r"interval (year|month)( to month)?")
_MICROS = re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?")


@experimental
@dataclass(frozen=True)
class Fixed:
    """A type whose values fit into the 8 bytes of a row's field.

    ``name`` is the type's name in Spark's JSON, or the common name of several interval or time
    types. ``width`` is the size of a value as an element of an array, in bytes.
    """

    name: str
    width: int


@experimental
@dataclass(frozen=True)
class Void:
    """The type whose values are all null (``NullType``)."""


@experimental
@dataclass(frozen=True)
class Decimal:
    """A decimal, stored in its field up to ``MAX_LONG_DIGITS`` digits, else after the fields."""

    precision: int
    scale: int

    @property
    def is_long(self) -> bool:
        """Whether values are stored as a long."""
        return self.precision <= MAX_LONG_DIGITS


@experimental
@dataclass(frozen=True)
class Bytes:
    """A string (``text``) or a binary."""

    text: bool


@experimental
@dataclass(frozen=True)
class CalendarInterval:
    """Months, days and microseconds (``CalendarIntervalType``)."""


@experimental
@dataclass(frozen=True)
class Variant:
    """A value and its metadata, both binary (``VariantType``)."""


@experimental
@dataclass(frozen=True)
class Array:
    """A list of values of one type."""

    element: DataType


@experimental
@dataclass(frozen=True)
class Map:
    """Keys and values, in insertion order."""

    key: DataType
    value: DataType


@experimental
@dataclass(frozen=True)
class Field:
    """A field of a struct. Names may repeat: two averages have two fields named ``sum``."""

    name: str
    type: DataType
    nullable: bool = True


@experimental
@dataclass(frozen=True)
class Struct:
    """Fields in order; a row is a struct too."""

    fields: tuple[Field, ...]


DataType = Fixed | Void | Decimal | Bytes | CalendarInterval | Variant | Array | Map | Struct

BOOLEAN: Final = Fixed("boolean", 1)
LONG: Final = Fixed("long", 8)
STRING: Final = Bytes(text=True)
BINARY: Final = Bytes(text=False)
_FIXED: Final = {
    t.name: t
    for t in (
        *(BOOLEAN, Fixed("byte", 1), Fixed("short", 2), Fixed("integer", 4), LONG),
        *(Fixed("float", 4), Fixed("double", 8), Fixed("date", 4)),
        *(Fixed("timestamp", 8), Fixed("timestamp_ntz", 8)),
    )
}
_MONTHS_TYPE: Final = Fixed("year-month interval", 4)
_MICROS_TYPE: Final = Fixed("day-time interval", 8)
_TIME_TYPE: Final = Fixed("time", 8)
_ALIASES: Final[dict[str, DataType]] = {
    "timestamp_ltz": _FIXED["timestamp"],
    "void": Void(),
    "null": Void(),
    "interval": CalendarInterval(),
    "calendar_interval": CalendarInterval(),
    "variant": Variant(),
}
_ARROW: Final = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "year-month interval": pa.int32(),
    "day-time interval": pa.duration("us"),
    "time": pa.time64("ns"),
}


@experimental
def parse_type(data_type: Any) -> DataType:
    """Parse the JSON of Spark's ``DataType``; raise UnknownType if it is unknown."""
    if isinstance(data_type, str):
        return _parse_name(data_type)
    try:
        return _parse_nested(data_type)
    except (KeyError, TypeError, AttributeError) as error:
        raise _unknown(data_type) from error


@experimental
def parse_struct(schema: Any) -> Struct:
    """Parse the JSON of Spark's ``StructType``; raise UnknownType if it is not one."""
    parsed = parse_type(schema)
    if not isinstance(parsed, Struct):
        raise _unknown(schema)
    return parsed


def _parse_name(name: str) -> DataType:
    data_type: DataType | None = _FIXED.get(name) or _ALIASES.get(name)
    if data_type is not None:
        return data_type
    decimal = _DECIMAL.fullmatch(name)
    if decimal and 1 <= int(decimal[1]) <= 38:
        return Decimal(int(decimal[1]), int(decimal[2]))
    for pattern, chosen in (
        *((_STRING, STRING), (_BINARY, BINARY), (_MONTHS, _MONTHS_TYPE), (_MICROS, _MICROS_TYPE)),
        (re.compile(r"time(\(\d+\))?"), _TIME_TYPE),
    ):
        if pattern.fullmatch(name):
            return chosen
    raise _unknown(name)


def _parse_nested(data_type: Mapping[str, Any]) -> DataType:
    kind = data_type["type"]
    if kind == "struct":
        fields = data_type["fields"]
        return Struct(
            tuple(
                Field(str(f["name"]), parse_type(f["type"]), bool(f.get("nullable", True)))
                for f in fields
            )
        )
    if kind == "array":
        return Array(parse_type(data_type["elementType"]))
    if kind == "map":
        return Map(parse_type(data_type["keyType"]), parse_type(data_type["valueType"]))
    if kind == "udt":
        return parse_type(data_type["sqlType"])
    raise _unknown(data_type)


def _unknown(data_type: Any) -> UnknownType:
    return UnknownType(f"unknown type {str(data_type)[:100]}")


@experimental
def is_fixed(data_type: DataType) -> bool:
    """Return whether values are stored in a row's 8-byte fields alone."""
    return isinstance(data_type, Fixed | Void) or (
        isinstance(data_type, Decimal) and data_type.is_long
    )


@experimental
def element_width(data_type: DataType) -> int:
    """Return the size in bytes of an array element, or of its place-and-size word."""
    return data_type.width if isinstance(data_type, Fixed) else 8


#: No Arrow type holds Spark's calendar interval: 64-bit nanoseconds have a smaller range than its
#: microseconds.
INTERVAL_ARROW: Final = pa.struct(
    [("months", pa.int32()), ("days", pa.int32()), ("microseconds", pa.int64())]
)
VARIANT_ARROW: Final = pa.struct([("value", pa.binary()), ("metadata", pa.binary())])


@experimental
def arrow_type(data_type: DataType) -> Any:
    """Return the ``pyarrow.DataType`` that holds a type's values without loss.

    Year-month intervals are int32 months, calendar intervals and variants are structs. Every field
    is nullable, even if the schema's is not.
    """
    if isinstance(data_type, Fixed):
        return _ARROW[data_type.name]
    if isinstance(data_type, Void):
        return pa.null()
    if isinstance(data_type, Decimal):
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, Bytes):
        return pa.string() if data_type.text else pa.binary()
    if isinstance(data_type, CalendarInterval):
        return INTERVAL_ARROW
    if isinstance(data_type, Variant):
        return VARIANT_ARROW
    if isinstance(data_type, Array):
        return pa.list_(arrow_type(data_type.element))
    if isinstance(data_type, Map):
        return pa.map_(arrow_type(data_type.key), arrow_type(data_type.value))
    return pa.struct([pa.field(f.name, arrow_type(f.type)) for f in data_type.fields])


_FIXED_JSON: Final = {
    "year-month interval": "interval year to month",
    "day-time interval": "interval day to second",
    "time": "time(6)",
}


@experimental
def struct_json(struct: Struct) -> dict[str, Any]:
    """Return the JSON of Spark's ``StructType``, as in its schema files (``StructType.jsonValue``).

    ``types.parse_struct`` of the result is equal to ``struct``.
    """
    return {
        "type": "struct",
        "fields": [
            {"name": f.name, "type": type_json(f.type), "nullable": f.nullable, "metadata": {}}
            for f in struct.fields
        ],
    }


@experimental
def type_json(data_type: DataType) -> Any:
    """Return the JSON of any type: a name, or an object for arrays, maps and structs."""
    if isinstance(data_type, Struct):
        return struct_json(data_type)
    if isinstance(data_type, Array):
        element = type_json(data_type.element)
        return {"type": "array", "elementType": element, "containsNull": True}
    if isinstance(data_type, Map):
        return {
            "type": "map",
            "keyType": type_json(data_type.key),
            "valueType": type_json(data_type.value),
            "valueContainsNull": True,
        }
    return type_name(data_type)


@experimental
def type_name(data_type: DataType) -> str:
    """Return Spark's name for a type.

    For arrays, maps and structs it is only ``array``, ``map`` or ``struct``.
    """
    if isinstance(data_type, Fixed):
        return _FIXED_JSON.get(data_type.name, data_type.name)
    if isinstance(data_type, Decimal):
        return f"decimal({data_type.precision},{data_type.scale})"
    if isinstance(data_type, Bytes):
        return "string" if data_type.text else "binary"
    names: dict[type[Any], str] = {
        Void: "void",
        CalendarInterval: "interval",
        Variant: "variant",
        Array: "array",
        Map: "map",
        Struct: "struct",
    }
    return names[type(data_type)]
