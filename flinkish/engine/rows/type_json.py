"""From the types of state schemas to the JSON of Spark's ``DataType``; the way back of ``types``.

What ``types`` does not keep gets Spark's own defaults: collections may contain nulls, intervals
have all their fields, a time has microseconds, strings have no collation.
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
    """The JSON of Spark's ``StructType``, as its schema files have it (``StructType.jsonValue``).

    Args:
        struct: the struct; ``types.parse_struct`` of what is returned is equal to it.

    Returns:
        What ``json.dumps`` takes.
    """
    return {
        "type": "struct",
        "fields": [
            {"name": f.name, "type": type_json(f.type), "nullable": f.nullable, "metadata": {}}
            for f in struct.fields
        ],
    }


def type_json(data_type: DataType) -> Any:
    """The JSON of any type: a name, or an object for arrays, maps and structs."""
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
    """Spark's name of a type; of arrays, maps and structs only ``array``, ``map``, ``struct``."""
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
