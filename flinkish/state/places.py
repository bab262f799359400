"""The columns of Spark's state that hold the typed states of an operator. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

#: The column of ``applyInPandasWithState`` in which Spark keeps what the function declares.
_GROUP_STATE: Final = "groupState"
#: The column of a state variable of ``transformWithState``.
_VARIABLE: Final = "value"
#: The column of a map's keys, in the key of its rows.
MAP_KEY_PATH: Final = ("userKey", "key")


def typed_columns(
    kind: str | None, store: str, value: Mapping[str, Any] | None
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the names of states that may be typed, and the paths of their columns in the value.

    ``kind`` is Spark's name of the operator, ``store`` the store or column family, and ``value``
    the JSON schema of its values.
    """
    fields = _types(value)
    if not (kind or "").startswith("transformWithState"):
        yield from ((name, (_GROUP_STATE, name)) for name in _types(fields.get(_GROUP_STATE)))
    elif _VARIABLE in fields and not store.startswith("$"):
        # With a time to live, Spark keeps the value and its end in a struct.
        nested = _VARIABLE in _types(fields[_VARIABLE])
        yield store, (_VARIABLE, _VARIABLE) if nested else (_VARIABLE,)


def _types(schema: Any) -> dict[str, Any]:
    """Return the types of a struct's fields by their names; none for another type."""
    if not isinstance(schema, Mapping):
        return {}
    return {str(each["name"]): each["type"] for each in schema.get("fields", ())}
