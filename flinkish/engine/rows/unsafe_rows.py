"""Checks of the structure of Spark's UnsafeRows, for many rows at once.

A row (``org.apache.spark.sql.catalyst.expressions.UnsafeRow``, little endian) has a null bit for
each field (in words of 8 bytes), 8 bytes for each field, and then the values that do not fit into
8 bytes. For these values (strings, arrays ...) the 8 bytes are the place in the row (upper half)
and the size (lower half).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flinkish.engine.errors import EngineError
from flinkish.errors import UnsupportedFormat

_DECIMAL = re.compile(r"decimal\((\d+),\s*-?\d+\)")
_VARIABLE = re.compile(r"(string|char|varchar|binary|variant|geometry|geography)\b.*")
#: CalendarInterval; the names of other intervals have a unit after the word.
_CALENDAR_INTERVAL = frozenset({"interval", "calendar_interval"})
_FIXED = re.compile(
    r"(boolean|byte|short|integer|long|float|double|date|timestamp|timestamp_ntz|timestamp_ltz|void"
    r"|null|time\(\d+\)|interval (year|month|day|hour|minute|second)( to \w+)?)"
)
#: Decimals with more digits do not fit into 8 bytes.
_MAX_LONG_DIGITS = 18


class UnknownType(UnsupportedFormat, EngineError):
    """A type of a state schema that the engine does not know."""


@dataclass(frozen=True)
class RowShape:
    """The number of fields of a row, and the fields whose values follow the 8-byte fields.

    ``variable`` has the ordinals of the fields of variable length, ascending.
    """

    fields: int
    variable: tuple[int, ...] = ()

    @property
    def bitset_bytes(self) -> int:
        """The size of the null bits at the row's start, in bytes."""
        return (self.fields + 63) // 64 * 8

    @property
    def fixed_bytes(self) -> int:
        """The size in bytes of a row without values of variable length; no row is shorter."""
        return self.bitset_bytes + 8 * self.fields


def shape_of(types: Sequence[Any]) -> RowShape:
    """Return the shape of rows with these types, given as in the JSON of Spark's ``StructType``.

    Raises UnknownType.
    """
    return RowShape(len(types), tuple(i for i, t in enumerate(types) if is_variable(t)))


def types_of(schema: Mapping[str, Any]) -> list[Any]:
    """Return the types of a struct's fields, from its JSON."""
    return [field["type"] for field in schema["fields"]]


def is_variable(data_type: Any) -> bool:
    """Return whether values of a type (JSON) are stored after a row's 8-byte fields.

    Raises UnknownType.
    """
    if isinstance(data_type, Mapping):
        kind = data_type.get("type")
        if kind == "udt":
            return is_variable(data_type["sqlType"])
        if kind in {"struct", "array", "map"}:
            return True
    elif isinstance(data_type, str):
        decimal = _DECIMAL.fullmatch(data_type)
        if decimal:
            return int(decimal[1]) > _MAX_LONG_DIGITS
        if data_type in _CALENDAR_INTERVAL or _VARIABLE.fullmatch(data_type):
            return True
        if _FIXED.fullmatch(data_type):
            return False
    raise UnknownType(f"unknown type {str(data_type)[:100]}")


def check_unsafe_row(
    row: bytes, number_of_fields: int, variable: tuple[int, ...] = ()
) -> str | None:
    """Return the reason why the structure of a row is wrong, or None if it is right.

    ``variable`` has the ordinals of the fields of variable length. If there are none, no places
    are checked, and the row may be longer than its fields.
    """
    shape = RowShape(number_of_fields, variable)
    bad_row = check_rows([row], shape, exact=bool(variable))
    return bad_row[1] if bad_row else None


def check_rows(
    rows: Sequence[bytes], shape: RowShape, *, skip: int = 0, exact: bool = True
) -> tuple[int, str] | None:
    """Return the index of the first row with a wrong structure, and the reason; None if all fit.

    The content of a row's structs, arrays and maps is not checked.

    ``skip`` bytes before each row do not belong to it. With ``exact``, rows of a shape without
    fields of variable length must have exactly the fixed size.
    """
    lengths = np.fromiter(map(len, rows), np.int64, len(rows)) - skip
    fixed = shape.fixed_bytes
    wrong = (lengths < fixed) | (lengths & 7 != 0)
    if exact and not shape.variable:
        wrong |= lengths != fixed
    if wrong.any():
        at = int(wrong.argmax())
        return at, f"a row of {lengths[at]} bytes; {shape.fields} fields need {_need(shape, exact)}"
    if not shape.fields or not rows:
        return None
    joined = np.frombuffer(b"".join(rows), np.uint8)
    starts = np.cumsum(lengths + skip) - lengths
    bits = _words(joined, starts, range(0, shape.bitset_bytes, 8))
    spare = shape.fields % 64
    if spare:
        wrong = bits[:, -1] >> np.uint64(spare) != 0
        if wrong.any():
            return int(wrong.argmax()), "bits of nulls are set for fields that it does not have"
    if not shape.variable:
        return None
    slots = _words(joined, starts, [shape.bitset_bytes + 8 * f for f in shape.variable])
    fields = np.array(shape.variable)
    nulls = (bits[:, fields // 64] >> (fields % 64).astype(np.uint64)) & np.uint64(1)
    place = (slots >> np.uint64(32)).astype(np.int64)
    end = place + (slots & np.uint64(0xFFFFFFFF)).astype(np.int64)
    bad = (nulls == 0) & ((place < fixed) | (place & 7 != 0) | (end > lengths[:, None]))
    if bad.any():
        at, column = divmod(int(bad.argmax()), len(fields))
        return at, f"field {fields[column]} lies outside the row's {lengths[at]} bytes"
    return None


def _need(shape: RowShape, exact: bool) -> str:
    exactly = exact and not shape.variable
    return f"{shape.fixed_bytes}" if exactly else f"{shape.fixed_bytes} at least, in eights"


def _words(joined: Any, starts: Any, offsets: Sequence[int]) -> Any:
    """Return unsigned words of 8 bytes at each offset of each row, shaped rows x offsets."""
    places = starts[:, None] + np.fromiter(offsets, np.int64, len(offsets))
    return joined[places[:, :, None] + np.arange(8)].view("<u8")[:, :, 0]
