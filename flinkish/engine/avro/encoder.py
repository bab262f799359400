"""Encoding of columns in Avro's binary encoding, all rows of a block at once.

Avro writes the values of a record one after another without any framing (specification 1.11,
"Binary Encoding"). A row is therefore a sequence of *segments*. Short segments, of a few bytes for
each row, are a matrix of bytes with a mask; longer ones are an Arrow array of binaries. A nested
record adds its segments to those of the row. A list consists of the bytes of its elements, which
are already contiguous.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkish.engine.avro.schemas import as_struct
from flinkish.engine.rows.arrow_parts import build, list_parts, map_parts, null_mask
from flinkish.engine.rows.row_bytes import CannotEncode
from flinkish.engine.rows.types import (
    BOOLEAN,
    Array,
    Bytes,
    DataType,
    Decimal,
    Map,
    Struct,
    Void,
    element_width,
)

#: A matrix of bytes with a mask of the bytes in use, or an Arrow array of binaries without nulls.
Segment = Any
#: Offsets in an Arrow array of binaries have 32 bits.
MAX_BYTES: Final = (1 << 31) - 1
_EMPTY: Final = pa.scalar(b"", pa.binary())


def encode_records(parts: list[tuple[DataType, Any]], count: int) -> bytes:
    """Encode rows, each of which has one value of each part.

    ``parts`` are types and Arrow arrays of these types without nulls; in a part that consists of
    lists, no element of a list may be null. The rows follow one another as in a block. Raises
    CannotEncode for a null that the schema does not allow, and if the bytes are 2 GiB or more.
    """
    present = np.ones(count, bool)
    segments: list[Segment] = []
    try:
        for data_type, array in parts:
            if isinstance(data_type, Array):
                segments += _list(data_type.element, array, present, "", optional=False)
            else:
                segments += _value(data_type, array, present, "")
        joined = _join(segments, count)
    except pa.ArrowException as error:  # too large for Arrow's offsets of 32 bits
        raise CannotEncode(f"{count} rows cannot be one block: {error}") from error
    first, last = _offsets(joined)[[0, -1]].tolist()
    data = joined.buffers()[2]
    return data[first:last].to_pybytes() if data is not None else b""


def array_of_batch(batch: Any, arrow: Any) -> Any:
    """Return a batch as one array: a struct of its columns, or its only column for lists.

    Raises CannotEncode if the columns do not match the type ``arrow``, or a list is null.
    """
    fields = list(arrow) if pa.types.is_struct(arrow) else [pa.field("list", arrow)]
    if len(fields) != batch.num_columns:
        raise CannotEncode(f"{batch.num_columns} columns in place of {len(fields)}")
    columns = []
    for column, field in zip(batch.columns, fields, strict=True):
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowException as error:
            reason = f"the column {field.name} is {column.type}, not {field.type}: {error}"
            raise CannotEncode(reason) from error
    none = np.zeros(batch.num_rows, bool)
    if pa.types.is_struct(arrow):
        return build(arrow, none, columns)
    if columns[0].null_count:
        raise CannotEncode("a list of values is null")
    return columns[0]


def _value(data_type: DataType, array: Any, present: Any, path: str) -> list[Segment]:
    """Return the segments of values; a row whose value is not ``present`` gets no bytes."""
    parts = as_struct(data_type)
    if parts is not None:
        return _struct(parts, array, present, path)
    if isinstance(data_type, Void):
        return []
    if isinstance(data_type, Array):
        array = _hidden(array, present)
        return _list(data_type.element, array, present, f"{path}.element", optional=True)
    if isinstance(data_type, Map):
        return _map(data_type, _hidden(array, present), present, path)
    if isinstance(data_type, Bytes):
        array = pc.fill_null(_hidden(array, present).view(pa.binary()), _EMPTY)
        return [_varints(np.diff(_offsets(array)), present), array]
    if isinstance(data_type, Decimal):
        return _decimals(array, present)
    if data_type == BOOLEAN:
        values = array.fill_null(False).to_numpy(zero_copy_only=False)
        return [(values.astype(np.uint8)[:, None], present[:, None])]
    width = element_width(data_type)
    values = _words(array, width)
    if pa.types.is_floating(array.type):
        matrix = values.view(np.uint8).reshape(-1, width)
        return [(matrix, np.broadcast_to(present[:, None], matrix.shape))]
    return [_varints(values, present)]


def _struct(struct: Struct, array: Any, present: Any, path: str) -> list[Segment]:
    segments: list[Segment] = []
    for index, field in enumerate(struct.fields):
        place = f"{path}.{field.name}" if path else field.name
        child = array.field(index)
        if field.nullable:
            segments += _optional(field.type, child, present, place)
            continue
        _refuse_nulls(field.type, child, present, place)
        segments += _value(field.type, child, present, place)
    return segments


def _optional(data_type: DataType, array: Any, present: Any, path: str) -> list[Segment]:
    """Encode a union of null and a type: branch 0, or branch 1 (zigzag: 2) and the value."""
    if isinstance(data_type, Void):
        return []
    not_null = ~null_mask(array)
    branch = (not_null.astype(np.uint8) << 1)[:, None], present[:, None]
    return [branch, *_value(data_type, array, present & not_null, path)]


def _refuse_nulls(data_type: DataType, array: Any, present: Any, path: str) -> None:
    if array.null_count and not isinstance(data_type, Void) and (null_mask(array) & present).any():
        raise CannotEncode(f"{path or 'a record'} is null, and its schema has no nulls")


def _list(
    element: DataType, array: Any, present: Any, path: str, *, optional: bool
) -> list[Segment]:
    offsets, elements = list_parts(array)
    every = np.ones(len(elements), bool)
    if optional:
        inner = _optional(element, elements, every, path)
    else:
        _refuse_nulls(element, elements, every, path)
        inner = _value(element, elements, every, path)
    return _items(offsets, inner, present)


def _map(data_type: Map, array: Any, present: Any, path: str) -> list[Segment]:
    offsets, keys, items = map_parts(array)
    every = np.ones(len(keys), bool)
    _refuse_nulls(data_type.key, keys, every, f"{path}.key")
    inner = _value(data_type.key, keys, every, f"{path}.key")
    inner += _optional(data_type.value, items, every, f"{path}.value")
    return _items(offsets, inner, present)


def _items(offsets: Any, segments: list[Segment], present: Any) -> list[Segment]:
    """Encode an array: the number of elements and the elements, if there are any, and a zero."""
    joined = _join(segments, int(offsets[-1]))
    places = _offsets(joined)[offsets].astype(np.int32)
    buffers = [None, pa.py_buffer(places), joined.buffers()[2]]
    lists = pa.Array.from_buffers(pa.binary(), len(present), buffers)
    sizes = np.diff(offsets)
    end = np.zeros((len(present), 1), np.uint8), present[:, None]
    return [_varints(sizes, present & (sizes > 0)), lists, end]


def _varints(values: Any, present: Any) -> Segment:
    """Encode numbers as zigzag varints: groups of 7 bits, the lowest first."""
    signed = values.astype(np.int64)
    rest = ((signed << 1) ^ (signed >> 63)).view(np.uint64)
    most = int(rest[present].max()) if present.any() else 0
    width = max(1, -(-most.bit_length() // 7))
    groups = rest[:, None] >> (np.arange(width, dtype=np.uint64) * np.uint64(7))[None, :]
    more = np.zeros(groups.shape, bool)  # another group follows
    more[:, :-1] = groups[:, 1:] != 0
    mask = np.empty(groups.shape, bool)
    mask[:, 0] = present
    mask[:, 1:] = more[:, :-1] & present[:, None]
    matrix = (groups & np.uint64(0x7F)).astype(np.uint8) | (more.astype(np.uint8) << 7)
    return matrix, mask


def _decimals(array: Any, present: Any) -> list[Segment]:
    """Encode decimals: the size, then the shortest big-endian two's complement."""
    if not len(array):
        return []
    start = array.offset * 16
    words = np.frombuffer(array.buffers()[1], np.uint8)[start : start + 16 * len(array)]
    big = words.reshape(-1, 16)[:, ::-1]
    sign = np.where(big[:, 0] & 0x80, 0xFF, 0).astype(np.uint8)
    other = big != sign[:, None]
    first = np.where(other.any(axis=1), other.argmax(axis=1), 15)
    # The top bit of the first byte that is kept must be the sign.
    top = big[np.arange(len(big)), first] & 0x80
    skip = np.where(top != sign & 0x80, first - 1, first)
    mask = (np.arange(16) >= skip[:, None]) & present[:, None]
    return [_varints(16 - skip, present), (big, mask)]


def _words(array: Any, width: int) -> Any:
    """Return the numbers of Arrow's buffer; null values may be any number."""
    if not len(array):
        return np.zeros(0, f"<i{width}")
    words = np.frombuffer(array.buffers()[1], f"<i{width}")
    return words[array.offset : array.offset + len(array)]


def _hidden(array: Any, present: Any) -> Any:
    """Return the array with nulls where values are not present; Arrow may have values there."""
    if (~present & ~null_mask(array)).any():
        return array.take(pa.array(np.arange(len(array)), mask=~present))
    return array


def _offsets(array: Any) -> Any:
    """Return where each of an array's binaries begins, and where the last one ends."""
    if not len(array):
        return np.zeros(1, np.int32)
    offsets = np.frombuffer(array.buffers()[1], np.int32)
    return offsets[array.offset : array.offset + len(array) + 1]


def _join(segments: list[Segment], count: int) -> Any:
    """Concatenate the segments of each row, as an Arrow array of binaries."""
    arrays: list[Any] = []
    waiting: list[Any] = []
    for segment in [*segments, None]:
        if isinstance(segment, tuple):
            waiting.append(segment)
            continue
        if waiting:
            matrices, masks = zip(*waiting, strict=True)
            arrays.append(_binaries(np.hstack(matrices), np.hstack(masks)))
            waiting = []
        if segment is not None:
            arrays.append(segment)
    if not arrays:
        return _binaries(np.zeros((count, 1), np.uint8), np.zeros((count, 1), bool))
    return arrays[0] if len(arrays) == 1 else pc.binary_join_element_wise(*arrays, _EMPTY)


def _binaries(matrix: Any, mask: Any) -> Any:
    offsets = np.zeros(len(matrix) + 1, np.int64)
    np.cumsum(mask.sum(axis=1), out=offsets[1:])
    if offsets[-1] > MAX_BYTES:
        raise CannotEncode(f"{offsets[-1]} bytes of lists are too many for one block")
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(matrix[mask])]
    return pa.Array.from_buffers(pa.binary(), len(matrix), buffers)
