"""Values of tables: decoded from bytes, as types that frames accept, and as plain JSON data.

The caller can give readers for columns of bytes. The conversion to JSON data loses nothing:

- dates and times are ISO 8601 (``timestamp`` in UTC, with ``Z``), in all years that Spark supports;
  the smallest timestamp is its number, because NumPy has no text for it;
- decimals are strings, as are the numbers that JSON lacks: ``NaN``, ``Infinity``, ``-Infinity``;
- binaries are base64, day-time intervals are microseconds;
- maps are lists of ``{"key", "value"}``: keys may have any type and are ordered.

Spark's DataFrames, Parquet and JSON do not accept all that a state schema may have. In a frame

- names that repeat in a struct (two ``sum``, also ``a`` and ``A``) are made unique: ``sum_2``;
- void is a string that is always null;
- a calendar interval is a struct of months, days and microseconds, a variant a struct of its two
  binaries, a year-month interval an integer of months;
- strings and binaries are plain, without the schema's collation, length or coordinates.

Every field is nullable. Positions are the state schema's, so conversion back needs no names.
"""

from __future__ import annotations

import base64
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from flinkish.engine.avro.schemas import as_struct, unique_names
from flinkish.engine.errors import StateFormatError
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

#: The columns of a table.
KEY: Final = "key"
VALUE: Final = "value"


@dataclass(frozen=True)
class ColumnDecoder:
    """Reads the bytes of one column. Picklable if ``decode`` is.

    ``path`` is ``key`` or ``value``, and the names of the fields down to the column; the elements
    of a list state have no name. ``type`` is the type of the decoded values. ``decode`` returns the
    value of bytes, as ``pyarrow.array`` accepts it, and raises an error if the bytes are not valid.
    """

    path: tuple[str, ...]
    type: DataType
    decode: Callable[[bytes], Any]


def decoded_type(name: str, data_type: DataType, decoders: Sequence[ColumnDecoder]) -> DataType:
    """Return the type of a table's column ``name`` with its bytes decoded. Pure."""
    for decoder in decoders:
        if decoder.path[0] == name:
            data_type = _replaced(data_type, decoder.path[1:], decoder.type)
    return data_type


def _replaced(data_type: DataType, path: tuple[str, ...], new: DataType) -> DataType:
    if not path:
        return new
    if isinstance(data_type, Array):
        return Array(_replaced(data_type.element, path, new))
    assert isinstance(data_type, Struct)
    return Struct(
        tuple(
            Field(field.name, _replaced(field.type, path[1:], new))
            if field.name == path[0]
            else field
            for field in data_type.fields
        )
    )


def decoded_array(
    name: str, array: Any, data_type: DataType, decoders: Sequence[ColumnDecoder], place: str
) -> Any:
    """Return the values of a table's column with their bytes decoded.

    ``place`` names the state's files, for errors. Raises StateFormatError for undecodable bytes.
    """
    for decoder in decoders:
        if decoder.path[0] == name:
            array = _decoded(array, data_type, decoder.path[1:], decoder, place)
            data_type = _replaced(data_type, decoder.path[1:], decoder.type)
    return array


def _decoded(
    array: Any, data_type: DataType, path: tuple[str, ...], decoder: ColumnDecoder, place: str
) -> Any:
    if not path:
        return _values(array, decoder, place)
    arrow = arrow_type(_replaced(data_type, path, decoder.type))
    null = null_mask(array)
    if isinstance(data_type, Array):
        offsets, elements = list_parts(array)
        children = [_decoded(elements, data_type.element, path, decoder, place)]
        return build(arrow, null, children, offsets)
    assert isinstance(data_type, Struct)
    children = [
        _decoded(child, field.type, path[1:], decoder, place) if field.name == path[0] else child
        for field, child in zip(data_type.fields, array.flatten(), strict=True)
    ]
    return build(arrow, null, children)


def _values(array: Any, decoder: ColumnDecoder, place: str) -> Any:
    column = ".".join(decoder.path)
    try:
        values = [None if v is None else decoder.decode(v) for v in array.to_pylist()]
        return pa.array(values, arrow_type(decoder.type))
    except Exception as error:  # the function is the caller's: it may raise anything
        raise StateFormatError(place, None, f"{column}: {error}") from error


_NANOS = 1_000_000_000
_LEAST: Final = -(2**63)


def plain_rows(batch: Any) -> list[dict[str, Any]]:
    """Return the rows of a ``pyarrow.RecordBatch`` as dictionaries for ``json.dumps``."""
    columns = [plain_values(column) for column in batch.columns]
    names = batch.schema.names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def plain_values(array: Any) -> list[Any]:
    """Return the values of an array as plain JSON data, with None for nulls."""
    values = _plain_values(array)
    if not array.null_count:
        return values
    pairs = zip(values, null_mask(array).tolist(), strict=True)
    return [None if null else value for value, null in pairs]


def _plain_values(array: Any) -> list[Any]:
    kind = array.type
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        columns = [plain_values(child) for child in array.flatten()]
        if not columns:
            return [{} for _ in range(len(array))]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    if pa.types.is_map(kind):
        offsets, keys, items = map_parts(array)
        pairs = zip(plain_values(keys), plain_values(items), strict=True)
        return _parts(offsets, [{"key": key, "value": value} for key, value in pairs])
    if pa.types.is_list(kind):
        offsets, elements = list_parts(array)
        return _parts(offsets, plain_values(elements))
    if pa.types.is_timestamp(kind):
        return _moments(array, "us", "Z" if kind.tz else "")
    if pa.types.is_date32(kind):
        return _moments(array.cast(pa.int32()).cast(pa.int64()), "D", "")
    if pa.types.is_time64(kind):
        return [None if n is None else _time(n) for n in array.cast(pa.int64()).to_pylist()]
    if pa.types.is_duration(kind):
        return list(array.cast(pa.int64()).to_pylist())
    return [_plain(value) for value in array.to_pylist()]


def _parts(offsets: Any, elements: list[Any]) -> list[Any]:
    return [elements[a:b] for a, b in itertools.pairwise(offsets.tolist())]


def _moments(array: Any, unit: str, end: str) -> list[Any]:
    """Format dates or times with NumPy, which supports years that Python's datetime does not."""
    numbers = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    texts = np.datetime_as_string(numbers.astype(f"datetime64[{unit}]")).tolist()
    return [_LEAST if text == "NaT" else text + end for text in texts]


def _time(nanos: int) -> str:
    seconds, rest = divmod(nanos, _NANOS)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{rest:09}".rstrip("0") if rest else text


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


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

    The array has the type ``arrow_type(data_type)``, and the result has
    ``arrow_type(frame_type(data_type))``.
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
