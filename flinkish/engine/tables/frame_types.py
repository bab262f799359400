"""The types of state in tables: unique names, and no types that only state can hold.

Spark's DataFrames, Parquet and JSON do not accept everything that a state schema may have. In a
frame

- names that repeat in a struct (two ``sum``, also ``a`` and ``A``) are made unique: ``sum_2``;
- void is a string that is always null;
- a calendar interval is a struct of months, days and microseconds, a variant one of its two
  binaries, a year-month interval an integer of months;
- strings and binaries are plain, without the schema's collation, length or coordinates.

Every field is nullable. Positions are those of the state schema, so that the conversion back needs
no names.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from flinkish.engine.avro.schemas import as_struct, unique_names
from flinkish.engine.rows.arrow_parts import build, build_map, list_parts, map_parts, null_mask
from flinkish.engine.rows.row_bytes import CannotEncode
from flinkish.engine.rows.types import (
    STRING,
    Array,
    DataType,
    Field,
    Fixed,
    Map,
    Struct,
    Void,
    arrow_type,
    parse_type,
)

_INTEGER: Final = parse_type("integer")


def frame_type(data_type: DataType) -> DataType:
    """Return the frame's type for a type of a state schema. Pure."""
    if isinstance(data_type, Void):
        return STRING
    if isinstance(data_type, Fixed) and data_type.name == "year-month interval":
        return _INTEGER
    struct = as_struct(data_type)
    if struct is not None:
        return frame_struct(struct)
    if isinstance(data_type, Array):
        return Array(frame_type(data_type.element))
    if isinstance(data_type, Map):
        return Map(frame_type(data_type.key), frame_type(data_type.value))
    return data_type


def frame_struct(struct: Struct) -> Struct:
    """Return :func:`frame_type` of a struct."""
    names = frame_names([field.name for field in struct.fields])
    fields = zip(names, struct.fields, strict=True)
    return Struct(tuple(Field(name, frame_type(field.type)) for name, field in fields))


def frame_names(names: list[str]) -> list[str]:
    """Return unique names, ignoring case as Spark does. Pure."""
    lower = [name.lower() for name in names]
    unique = unique_names(lower)
    # Append the suffix of the lower-case name to the original name.
    return [n + u[len(small) :] for n, small, u in zip(names, lower, unique, strict=True)]


def to_frame(array: Any, data_type: DataType) -> Any:
    """Convert values of a state schema's type to the frame's type.

    From ``arrow_type(data_type)`` to ``arrow_type(frame_type(data_type))``.
    """
    return _between(array, data_type, to_state=False)


def to_state(array: Any, data_type: DataType) -> Any:
    """Convert values back from a frame (see :func:`to_frame`): take columns by position, and cast.

    Raises CannotEncode if a value does not fit, or a struct has another number of fields.
    """
    try:
        return _between(array, data_type, to_state=True)
    except pa.ArrowException as error:
        raise CannotEncode(f"a value is not of its state's type: {error}") from error


def _between(array: Any, data_type: DataType, *, to_state: bool) -> Any:
    goal = arrow_type(data_type if to_state else frame_type(data_type))
    if array.type == goal:
        return array
    if isinstance(data_type, Void):
        if to_state and array.null_count < len(array):
            raise CannotEncode("a value of the type void is not null")
        return pa.nulls(len(array), goal)
    struct = as_struct(data_type)
    if struct is not None:
        if array.type.num_fields != len(struct.fields):
            reason = f"{array.type.num_fields} fields in place of {len(struct.fields)}"
            raise CannotEncode(f"a struct has {reason}")
        children = [
            _between(child, field.type, to_state=to_state)
            for child, field in zip(array.flatten(), struct.fields, strict=True)
        ]
        return build(goal, null_mask(array), children)
    if isinstance(data_type, Array):
        offsets, elements = list_parts(array)
        inner = _between(elements, data_type.element, to_state=to_state)
        return build(goal, null_mask(array), [inner], offsets)
    if isinstance(data_type, Map):
        offsets, keys, items = map_parts(array)
        parts = (
            _between(keys, data_type.key, to_state=to_state),
            _between(items, data_type.value, to_state=to_state),
        )
        return build_map(goal, null_mask(array), offsets, *parts)
    return array.cast(goal)
