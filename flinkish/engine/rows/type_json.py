"""Conversion of state schema types to the JSON of Spark's ``DataType``; ``types`` reverses it.

Properties that ``types`` does not keep get Spark's defaults: collections may contain nulls,
intervals have all their fields, a time has microseconds, strings have no collation.
"""

from __future__ import annotations

from typing import Any, Final

from flinkish.engine.rows.types import (
    Array,
    Bytes,
    CalendarInterval,
    DataType,
    Decimal,
    Fixed,
    Map,
    Struct,
    Variant,
    Void,
)

_FIXED: Final = {
    "year-month interval": "interval year to month",
    "day-time interval": "interval day to second",
    "time": "time(6)",
}


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


def type_name(data_type: DataType) -> str:
    """Return Spark's name of a type.

    For arrays, maps and structs it is only ``array``, ``map`` or ``struct``.
    """
    if isinstance(data_type, Fixed):
        return _FIXED.get(data_type.name, data_type.name)
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
