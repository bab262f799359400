"""Avro schemas of state schemas, and the exact conversion back.

Every Avro tool can read the values; Avro's own logical types are used where they exist. Properties
that Avro tools ignore hold the rest: ``spark.name`` of a field, and ``spark.type`` (a type's name
in Spark's JSON) where the Avro type alone would mean another type. Maps are arrays of
records of key and value, because Spark's maps have keys of any type, and an order.

Source: the Avro specification 1.11, "Complex Types", "Names", "Logical Types".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from flinkish.engine.rows.types import (
    BINARY,
    LONG,
    STRING,
    Array,
    CalendarInterval,
    DataType,
    Decimal,
    Field,
    Fixed,
    Map,
    Struct,
    Variant,
    Void,
    parse_type,
    type_name,
)
from flinkish.engine.rows.unsafe_rows import UnknownType

_LOGICAL: Final = {
    "date": {"type": "int", "logicalType": "date"},
    "timestamp": {"type": "long", "logicalType": "timestamp-micros"},
    "timestamp_ntz": {"type": "long", "logicalType": "local-timestamp-micros"},
}
_PLAIN: Final = {
    "boolean": "boolean",
    "integer": "int",
    "long": "long",
    "float": "float",
    "double": "double",
}
#: Types that are encoded as an Avro integer, and the Avro type.
_INTEGERS: Final = {
    "byte": "int",
    "short": "int",
    "year-month interval": "int",
    "day-time interval": "long",
    "time": "long",
}
_PRIMITIVES: Final[dict[str, DataType]] = {
    **{avro: parse_type(spark) for spark, avro in _PLAIN.items()},
    "string": STRING,
    "bytes": BINARY,
    "null": Void(),
}
_INTERVAL: Final = Struct(
    (
        *(Field(name, parse_type("integer"), nullable=False) for name in ("months", "days")),
        Field("microseconds", LONG, nullable=False),
    )
)
_VARIANT: Final = Struct(
    tuple(Field(name, BINARY, nullable=False) for name in ("value", "metadata"))
)


def as_struct(data_type: DataType) -> Struct | None:
    """Return the fields of a type that Avro and Arrow store as a record; None for other types."""
    if isinstance(data_type, CalendarInterval):
        return _INTERVAL
    if isinstance(data_type, Variant):
        return _VARIANT
    return data_type if isinstance(data_type, Struct) else None


def avro_name(name: str) -> str:
    """Replace characters that Avro forbids in names by ``_``.

    A leading digit gets ``_`` before it; an empty name becomes ``_``.
    """
    cleaned = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return cleaned if cleaned and not cleaned[0].isdigit() else f"_{cleaned}"


def unique_names(
    names: Iterable[str], clean: Callable[[str], str] = lambda name: name
) -> tuple[str, ...]:
    """Make names unique: the second ``sum`` becomes ``sum_2``, or the next name that is free.

    A field whose name needs no cleaning has priority for that name.

    ``clean`` is applied to each name first.
    """
    originals = list(names)
    taken = {name for name in originals if clean(name) == name}
    used: set[str] = set()
    unique = []
    for original in originals:
        name = wanted = clean(original)
        number = 1
        while name in used or (name in taken and name != original):
            number += 1
            name = f"{wanted}_{number}"
        used.add(name)
        unique.append(name)
    return tuple(unique)


def avro_schema(struct: Struct, name: str) -> dict[str, Any]:
    """Return the Avro record schema of a state schema.

    The result suits ``json.dumps`` and ``fastavro.parse_schema``. Nullable fields are unions of
    null and their type, with null as the default. ``name`` is the record's full name; nested
    records are named by their path below it.
    """
    return _record(struct, ".".join(avro_name(part) for part in name.split(".")))


def spark_struct(schema: Any) -> Struct:
    """Return the state schema of an Avro record schema; exact for results of :func:`avro_schema`.

    If the ``spark.`` properties are lost, the result follows the Avro types alone.

    Raises UnknownType if the schema is no record, or not one that :func:`avro_schema` produces.
    """
    parsed = _parse(schema)
    if not isinstance(parsed, Struct):
        raise _unknown(schema)
    return parsed


def _record(struct: Struct, name: str) -> dict[str, Any]:
    fields = []
    names = unique_names((f.name for f in struct.fields), avro_name)
    for field, field_name in zip(struct.fields, names, strict=True):
        field_schema = {"name": field_name, "type": _type(field.type, f"{name}.{field_name}")}
        if field.nullable:
            field_schema |= {"type": _optional(field_schema["type"]), "default": None}
        elif isinstance(field.type, Void):
            field_schema["spark.nullable"] = False
        fields.append(field_schema | {"spark.name": field.name})
    return {"type": "record", "name": name, "fields": fields}


def _optional(schema: Any) -> Any:
    return schema if schema == "null" else ["null", schema]


def _type(data_type: DataType, name: str) -> Any:
    if isinstance(data_type, Void):
        return "null"
    if isinstance(data_type, Fixed):
        if data_type.name in _INTEGERS:
            return {"type": _INTEGERS[data_type.name], "spark.type": type_name(data_type)}
        return _PLAIN.get(data_type.name) or dict(_LOGICAL[data_type.name])
    if isinstance(data_type, Decimal):
        return _decimal(data_type)
    if data_type == STRING:
        return "string"
    if isinstance(data_type, Array):
        return {"type": "array", "items": _optional(_type(data_type.element, f"{name}.element"))}
    if isinstance(data_type, Map):
        return {"type": "array", "items": _entry(data_type, f"{name}.entry"), "spark.type": "map"}
    if isinstance(data_type, Struct):
        return _record(data_type, name)
    parts = as_struct(data_type)
    if parts is None:
        return "bytes"
    return _record(parts, name) | {"spark.type": type_name(data_type)}


def _decimal(data_type: Decimal) -> dict[str, Any]:
    if 0 <= data_type.scale <= data_type.precision:
        logical = {"precision": data_type.precision, "scale": data_type.scale}
        return {"type": "bytes", "logicalType": "decimal", **logical}
    # Spark's legacy decimals may have a negative scale, which Avro does not allow.
    return {"type": "bytes", "spark.type": type_name(data_type)}


def _entry(data_type: Map, name: str) -> dict[str, Any]:
    fields = [
        {"name": "key", "type": _type(data_type.key, f"{name}.key")},
        {"name": "value", "type": _optional(_type(data_type.value, f"{name}.value"))},
    ]
    return {"type": "record", "name": name, "fields": fields}


def _parse(schema: Any) -> DataType:
    try:
        return _PRIMITIVES[schema] if isinstance(schema, str) else _parse_object(schema)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise _unknown(schema) from error


def _parse_object(schema: Mapping[str, Any]) -> DataType:
    kind = schema["type"]
    named = schema.get("spark.type")
    if kind == "array":
        if named != "map":
            return Array(_parse(_without_null(schema["items"])))
        key, value = schema["items"]["fields"]
        return Map(_parse(key["type"]), _parse(_without_null(value["type"])))
    if named is not None:
        return parse_type(named)
    if kind == "record":
        return Struct(tuple(_field(field) for field in schema["fields"]))
    logical = schema.get("logicalType")
    if logical == "decimal":
        return parse_type(f"decimal({schema['precision']},{schema.get('scale', 0)})")
    for name, form in _LOGICAL.items():
        if logical == form["logicalType"]:
            return parse_type(name)
    return _PRIMITIVES[kind]


def _field(field: Mapping[str, Any]) -> Field:
    schema = field["type"]
    inner = _without_null(schema)
    nullable = inner is not schema or (schema == "null" and field.get("spark.nullable", True))
    return Field(str(field.get("spark.name", field["name"])), _parse(inner), bool(nullable))


def _without_null(schema: Any) -> Any:
    if not isinstance(schema, list):
        return schema
    null, inner = schema
    if null != "null":
        raise _unknown(schema)
    return inner


def _unknown(schema: Any) -> UnknownType:
    return UnknownType(f"the Avro schema {str(schema)[:100]} is not a state schema")
