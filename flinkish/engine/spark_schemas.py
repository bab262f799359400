"""Spark's JSON of a schema, checked before anything is made of it."""

from __future__ import annotations

from typing import Any, Final

#: Structs, arrays and maps within each other, at most.
MAX_DEPTH: Final = 60


def check_struct(schema: Any) -> None:
    """Raise ValueError unless ``schema`` is a struct: fields with names and types, all through."""
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        raise ValueError("a schema is not a struct")
    _check({"type": "struct", "fields": schema["fields"]}, 0)


def _check(data_type: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
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
