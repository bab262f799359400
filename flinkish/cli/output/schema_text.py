"""Schemas in Spark's JSON as text for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def columns_text(schema: Mapping[str, Any] | None) -> str:
    """Return the columns of a schema as ``k int, ts timestamp``."""
    fields = (schema or {}).get("fields", ())
    return ", ".join(f"{field['name']} {_type(field['type'])}" for field in fields)


def _type(type_: Any) -> str:
    if not isinstance(type_, Mapping):
        return str(type_)
    kind = type_.get("type")
    if kind == "struct":
        return f"struct<{columns_text(type_)}>"
    if kind == "array":
        return f"array<{_type(type_['elementType'])}>"
    if kind == "map":
        return f"map<{_type(type_['keyType'])}, {_type(type_['valueType'])}>"
    return str(kind)
