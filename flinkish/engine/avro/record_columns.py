"""Conversion of Python records, as fastavro decodes them, to columns; compiled for each schema.

Records are decoded by a *wire schema*. It matches the same bytes as the schema in a file's header,
but has no logical types, and bytes in place of strings. So no value becomes a date, time or
decimal of Python, whose range is smaller than Spark's (years 1 to 9999, no nanoseconds). Strings
that are not UTF-8, which Spark does not refuse, keep their bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flinkish.engine.avro.schemas import as_struct
from flinkish.engine.rows.arrow_parts import build, build_map
from flinkish.engine.rows.types import (
    BOOLEAN,
    Array,
    Bytes,
    DataType,
    Decimal,
    Fixed,
    Map,
    Struct,
    Void,
    arrow_type,
)

#: Arrow's integer types by width in bytes, for types that Avro encodes as integers.
_INTEGERS = {1: pa.int8(), 2: pa.int16(), 4: pa.int32(), 8: pa.int64()}


@dataclass(frozen=True)
class Wire:
    """The wire form of a type.

    ``schema`` is the wire schema of a value. ``from_python`` converts what fastavro decoded to an
    Arrow array; it raises ValueError, TypeError or OverflowError if a value is not of the type.
    """

    schema: Any
    from_python: Callable[[list[Any]], Any]


def compile_wire(data_type: DataType, names: Iterator[str]) -> Wire:
    """Return the wire form of a type, including nested types.

    ``names`` are for its records; they must be unique in a schema.
    """
    parts = as_struct(data_type)
    if parts is not None:
        return _struct(parts, names)
    if isinstance(data_type, Array):
        return _lists(arrow_type(data_type), _optional(data_type.element, names))
    if isinstance(data_type, Map):
        return _map(data_type, names)
    if isinstance(data_type, Void):
        return Wire("null", lambda values: pa.nulls(len(values)))
    arrow = arrow_type(data_type)
    if isinstance(data_type, Decimal):
        return Wire("bytes", lambda values: _decimals(arrow, values))
    if isinstance(data_type, Bytes):
        return Wire("bytes", lambda values: pa.array(values, pa.binary()).view(arrow))
    assert isinstance(data_type, Fixed)
    return _fixed(data_type, arrow)


def compile_list(element: Struct, names: Iterator[str]) -> Wire:
    """Return the wire form of lists of records, none of which is null."""
    return _lists(arrow_type(Array(element)), compile_wire(element, names))


def _fixed(data_type: Fixed, arrow: Any) -> Wire:
    if data_type == BOOLEAN:
        schema, kept = "boolean", arrow
    elif data_type.name in {"float", "double"}:
        schema, kept = data_type.name, arrow
    else:
        schema, kept = "long" if data_type.width == 8 else "int", _INTEGERS[data_type.width]
    return Wire(schema, lambda values: pa.array(values, kept).view(arrow))


def _decimals(arrow: Any, values: list[Any]) -> Any:
    if any(value is not None and not 1 <= len(value) <= 16 for value in values):
        raise ValueError("a decimal of more than 16 bytes, or of none")
    wide = b"".join(
        bytes(16) if value is None else value.rjust(16, b"\xff" if value[0] & 0x80 else b"\0")
        for value in values
    )
    words = np.ascontiguousarray(np.frombuffer(wide, np.uint8).reshape(-1, 16)[:, ::-1])
    validity = pa.array([value is not None for value in values], pa.bool_()).buffers()[1]
    decimals = pa.Array.from_buffers(arrow, len(values), [validity, pa.py_buffer(words)])
    decimals.validate(full=True)  # no value has more digits than the type
    return decimals


def _optional(data_type: DataType, names: Iterator[str]) -> Wire:
    """Return the wire form of a value that may be null: a union."""
    wire = compile_wire(data_type, names)
    return wire if wire.schema == "null" else Wire(["null", wire.schema], wire.from_python)


def _struct(struct: Struct, names: Iterator[str]) -> Wire:
    name = next(names)
    wires = [(_optional if f.nullable else compile_wire)(f.type, names) for f in struct.fields]
    keys = [f"f{i}" for i in range(len(wires))]
    arrow = arrow_type(struct)
    fields = [{"name": k, "type": w.schema} for k, w in zip(keys, wires, strict=True)]

    def from_python(values: list[Any]) -> Any:
        null = np.fromiter((v is None for v in values), bool, len(values))
        if null.any():
            columns = [[None if v is None else v[key] for v in values] for key in keys]
        else:
            columns = [[v[key] for v in values] for key in keys]
        children = [w.from_python(c) for w, c in zip(wires, columns, strict=True)]
        return build(arrow, null, children)

    return Wire({"type": "record", "name": name, "fields": fields}, from_python)


def _joined(values: list[Any]) -> tuple[Any, Any, list[Any]]:
    """Return the null mask and the offsets of lists, and all their elements."""
    null = np.fromiter((v is None for v in values), bool, len(values))
    lists = [() if v is None else v for v in values] if null.any() else values
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, lists), np.int64, len(values)), out=offsets[1:])
    return null, offsets, list(itertools.chain.from_iterable(lists))


def _lists(arrow: Any, element: Wire) -> Wire:
    def from_python(values: list[Any]) -> Any:
        null, offsets, elements = _joined(values)
        return build(arrow, null, [element.from_python(elements)], offsets)

    return Wire({"type": "array", "items": element.schema}, from_python)


def _map(data_type: Map, names: Iterator[str]) -> Wire:
    name = next(names)
    key = compile_wire(data_type.key, names)
    value = _optional(data_type.value, names)
    arrow = arrow_type(data_type)
    fields = [{"name": "k", "type": key.schema}, {"name": "v", "type": value.schema}]
    entry = {"type": "record", "name": name, "fields": fields}

    def from_python(values: list[Any]) -> Any:
        null, offsets, entries = _joined(values)
        keys = key.from_python([e["k"] for e in entries])
        items = value.from_python([e["v"] for e in entries])
        return build_map(arrow, null, offsets, keys, items)

    return Wire({"type": "array", "items": entry}, from_python)
