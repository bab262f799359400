"""Arrays whose elements take no bytes: their elements are counted before they are allocated.

An array of 2^40 nulls takes six bytes. Only values of schemas with such arrays are scanned.
"""

from __future__ import annotations

from typing import Any, Final

#: The maximum number of elements without bytes in a block.
MAX_EMPTY: Final = 10_000_000
_FIXED: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def has_empty_items(schema: Any) -> bool:
    """Return whether a wire schema contains an array whose elements take no bytes."""
    if isinstance(schema, list):
        return any(map(has_empty_items, schema))
    if not isinstance(schema, dict):
        return False
    if schema["type"] == "array":
        return _is_empty(schema["items"]) or has_empty_items(schema["items"])
    return any(has_empty_items(field["type"]) for field in schema.get("fields", ()))


def _is_empty(schema: Any) -> bool:
    if isinstance(schema, dict) and schema["type"] == "record":
        return all(_is_empty(field["type"]) for field in schema["fields"])
    return bool(schema == "null")


def count_empty(schema: Any, data: bytes) -> None:
    """Scan a value; raise ValueError if it is damaged or has too many elements without bytes."""
    _Skimmer(data).skip(schema)


class _Skimmer:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._empty = 0

    def skip(self, schema: Any) -> None:
        """Move past a value of ``schema``."""
        if isinstance(schema, list):
            branch = self._number()
            if not 0 <= branch < len(schema):
                raise ValueError(f"a union without a branch {branch}")
            self.skip(schema[branch])
        elif isinstance(schema, str):
            self._primitive(schema)
        elif schema["type"] == "array":
            self._array(schema["items"])
        elif schema["type"] == "record":
            for field in schema["fields"]:
                self.skip(field["type"])
        else:
            self.skip(schema["type"])

    def _primitive(self, name: str) -> None:
        if name in _FIXED:
            self._move(_FIXED[name])
        elif name in {"bytes", "string"}:
            self._move(self._number())
        else:
            self._number()

    def _array(self, items: Any) -> None:
        while count := self._number():
            if count < 0:
                count = -count
                self._number()
            if _is_empty(items):
                self._empty += count
                if self._empty > MAX_EMPTY:
                    raise ValueError(f"an array of {count} elements")
            else:
                for _ in range(count):
                    self.skip(items)

    def _move(self, size: int) -> None:
        if not 0 <= size <= len(self._data) - self._at:
            raise ValueError(f"a value of {size} bytes")
        self._at += size

    def _number(self) -> int:
        found = 0
        for shift in range(0, 70, 7):
            byte = self._data[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
        raise ValueError("a number of more than 64 bits")
