"""Conversion of columns to the bytes of UnsafeRows.

:mod:`flinkish.engine.rows.columns` is the reverse.

The layout is that of Spark's ``UnsafeRowWriter`` and ``UnsafeArrayWriter``. A column provides a
word for the slot of each value and, for values that do not fit into it, the bytes after the slots.
Arrow joins the parts of all rows.

The slot of a null is zero, with two exceptions in rows (not in arrays): decimals of more than 18
digits, and calendar intervals. For these, Spark reserves 16 bytes after the slots, and the slot of
a null has the place of those bytes too, so that a value can be written there later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkish.engine.errors import EngineError
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
    arrow_type,
    element_width,
    is_fixed,
)

_RESERVED = 16
_NOTHING = pa.scalar(b"", pa.binary())


class CannotEncode(EngineError):
    """Values do not match the schema by which they should be encoded, or are too large."""


@dataclass(frozen=True)
class _Tail:
    """The bytes that follow the slots of rows or arrays, for one column.

    ``sizes`` has the sizes of the values in bytes, as in their slots (0 for nulls, except intervals
    in rows), ``room`` the bytes they take, with padding. The values of the Arrow arrays ``pieces``,
    concatenated, are these bytes. With ``keeps_place`` the slots of nulls have a place too.
    """

    sizes: Any
    room: Any
    pieces: list[Any]
    keeps_place: bool = False


def encode_rows(struct: Struct, columns: list[Any], count: int, prefix: bytes) -> tuple[Any, Any]:
    """Return the bytes of rows, one after another, and their offsets.

    Raises CannotEncode if values do not match the struct, or the rows have 2 GiB or more.
    """
    try:
        rows = _rows(struct, columns, count, prefix)
    except (pa.ArrowException, OverflowError) as error:
        raise CannotEncode(f"rows cannot be encoded: {str(error)[:200]}") from error
    _, offsets, data = rows.buffers()
    if offsets is None or data is None:
        return b"", np.zeros(count + 1, np.int32)
    places = np.frombuffer(offsets, np.int32)[rows.offset : rows.offset + count + 1]
    return data, places


def _rows(struct: Struct, columns: list[Any], count: int, prefix: bytes) -> Any:
    bitset = (len(struct.fields) + 63) // 64
    words = np.zeros((count, bitset + len(struct.fields)), np.uint64)
    cursor = np.full(count, 8 * words.shape[1], np.int64)
    pieces = [pa.scalar(prefix, pa.binary())] if prefix else []
    pieces.append(None)  # replaced by the words when they are complete
    for index, (field, values) in enumerate(zip(struct.fields, columns, strict=True)):
        values = _typed(values, field.type)
        null = _nulls(values)
        bit = np.uint64(index % 64)
        words[:, index // 64] |= null.astype(np.uint64) << bit
        if is_fixed(field.type):
            words[:, bitset + index] = _slots(field.type, values, null)
            continue
        tail = _tail(field.type, values, null, in_row=True)
        word = (cursor << 32) | tail.sizes
        if not tail.keeps_place:
            word = np.where(null, 0, word)
        words[:, bitset + index] = word.view(np.uint64)
        cursor += tail.room
        pieces += tail.pieces
    fixed = 8 * words.shape[1]
    offsets = np.arange(count + 1, dtype=np.int64) * fixed
    pieces[1 if prefix else 0] = _binary(count, offsets, words)
    return _joined(pieces)


def _joined(pieces: list[Any]) -> Any:
    if len(pieces) == 1:
        return pieces[0]
    return pc.binary_join_element_wise(*pieces, _NOTHING)


def _binary(count: int, offsets: Any, data: Any) -> Any:
    if int(offsets[-1]) > 0x7FFFFFFF:
        raise CannotEncode("2 GiB of rows or more cannot be encoded at once")
    buffer = pa.py_buffer(np.ascontiguousarray(data))
    places = pa.py_buffer(offsets.astype(np.int32))
    return pa.Array.from_buffers(pa.binary(), count, [None, places, buffer])


def _typed(values: Any, data_type: DataType) -> Any:
    """Cast values to the Arrow type of ``data_type``; nested values are cast when they are read."""
    wanted = arrow_type(data_type)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if values.type.equals(wanted):
        return values
    if isinstance(data_type, Struct | Array | Map) and values.type.id == wanted.id:
        if isinstance(data_type, Struct) and values.type.num_fields != wanted.num_fields:
            raise CannotEncode(f"{values.type.num_fields} fields in place of {wanted.num_fields}")
        return values
    return values.cast(wanted)


def _nulls(values: Any) -> Any:
    if not values.null_count:
        return np.zeros(len(values), bool)
    return values.is_null().to_numpy(zero_copy_only=False)


def _numbers(values: Any, dtype: str) -> Any:
    """Return the bytes of an array's values as numbers of another type of the same width."""
    buffer = values.buffers()[1]
    if buffer is None:
        return np.zeros(len(values), dtype)
    width = np.dtype(dtype).itemsize
    start = values.offset * width
    return np.frombuffer(buffer, np.uint8)[start : start + len(values) * width].view(dtype)


def _slots(data_type: DataType, values: Any, null: Any) -> Any:
    """Return the words of values that fit into their slots."""
    if isinstance(data_type, Void):
        return np.zeros(len(values), np.uint64)
    if isinstance(data_type, Decimal):
        wide = _wide(values)
        low, high = wide[:, 0], wide[:, 1]
        if ((high != low >> 63) & ~null).any():
            raise CannotEncode(f"a value has more than {data_type.precision} digits")
        words = low.view(np.uint64)
    elif data_type == Fixed("boolean", 1):
        words = values.fill_null(False).to_numpy(zero_copy_only=False)
    else:
        words = _numbers(values, f"<u{element_width(data_type)}")
    return np.where(null, 0, words).astype(np.uint64)


def _wide(values: Any) -> Any:
    """Return decimals as pairs of longs, the lower half first."""
    buffer = values.buffers()[1]
    if buffer is None:
        return np.zeros((len(values), 2), np.int64)
    return np.frombuffer(buffer, np.int64).reshape(-1, 2)[values.offset :][: len(values)]


def _tail(data_type: DataType, values: Any, null: Any, *, in_row: bool) -> _Tail:
    if isinstance(data_type, Bytes):
        return _padded(*_contents(values, null))
    if isinstance(data_type, Decimal):
        return _decimals(values, null, in_row=in_row)
    if isinstance(data_type, CalendarInterval):
        return _intervals(values, null, in_row=in_row)
    if isinstance(data_type, Variant):
        return _variants(values, null)
    if isinstance(data_type, Struct):
        children = [values.field(i) for i in range(values.type.num_fields)]
        whole = _rows(data_type, children, len(values), b"")
    elif isinstance(data_type, Array):
        counts, entries = _list_of(values, null, values.values)
        whole = _arrays(data_type.element, entries, counts)
    else:
        assert isinstance(data_type, Map), data_type
        whole = _maps(data_type, values, null)
    if null.any():
        whole = pc.if_else(pa.array(~null), whole, _NOTHING)
    sizes = _lengths(whole)
    return _Tail(sizes, sizes, [whole])


def _contents(values: Any, null: Any) -> tuple[Any, Any]:
    """Return strings or binaries and their sizes; a null is empty."""
    binary = pa.Array.from_buffers(pa.binary(), len(values), values.buffers(), offset=values.offset)
    if null.any():
        binary = binary.fill_null(b"")
    return binary, _lengths(binary)


def _lengths(values: Any) -> Any:
    buffer = values.buffers()[1]
    if buffer is None or not len(values):
        return np.zeros(len(values), np.int64)
    places = np.frombuffer(buffer, np.int32)[values.offset : values.offset + len(values) + 1]
    return np.diff(places).astype(np.int64)


def _padded(values: Any, sizes: Any, more: list[Any] | None = None) -> _Tail:
    padding = -sizes & 7
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(padding, out=offsets[1:])
    zeros = _binary(len(sizes), offsets, np.zeros(int(offsets[-1]), np.uint8))
    return _Tail(sizes, sizes + padding, [*(more or []), values, zeros])


def _decimals(values: Any, null: Any, *, in_row: bool) -> _Tail:
    """Encode decimals as big-endian two's complement, as short as ``BigInteger.toByteArray``."""
    little = _wide(values).view(np.uint8)
    big = little[:, ::-1]
    sign = np.where(big[:, :1] & 0x80, 0xFF, 0)
    # A byte is dropped if it repeats the sign and the next byte begins with the sign bit.
    same = (big[:, :-1] == sign) & ((big[:, 1:] & 0x80) == (sign & 0x80))
    drop = np.cumprod(same, axis=1).sum(axis=1)
    sizes = np.where(null, 0, 16 - drop)
    room = np.full(len(sizes), _RESERVED) if in_row else sizes + (-sizes & 7)
    # Shift the remaining bytes to the front, followed by zeros.
    order = np.arange(16)
    shifted = np.take_along_axis(big, np.minimum(order + drop[:, None], 15), axis=1)
    packed = np.where(order < sizes[:, None], shifted, 0).astype(np.uint8)
    data = packed[order < room[:, None]]
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(room, out=offsets[1:])
    return _Tail(sizes, room, [_binary(len(sizes), offsets, data)], keeps_place=in_row)


def _intervals(values: Any, null: Any, *, in_row: bool) -> _Tail:
    months, days, micros = (values.field(i) for i in range(3))
    if any(bool((_nulls(part) & ~null).any()) for part in (months, days, micros)):
        raise CannotEncode("a part of an interval is null")
    data = np.zeros((len(values), 2), np.int64)
    data.view(np.int32)[:, 0] = _numbers(months, "<i4")
    data.view(np.int32)[:, 1] = _numbers(days, "<i4")
    data[:, 1] = _numbers(micros, "<i8")
    data[null] = 0
    kept = np.full(len(values), True) if in_row else ~null
    room = np.where(kept, _RESERVED, 0)
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(room, out=offsets[1:])
    return _Tail(room, room, [_binary(len(values), offsets, data[kept])], keeps_place=in_row)


def _variants(values: Any, null: Any) -> _Tail:
    parts = [values.field(i) for i in range(2)]
    if any(bool((_nulls(part) & ~null).any()) for part in parts):
        raise CannotEncode("a part of a variant is null")
    value, metadata = (_contents(part, _nulls(part)) for part in parts)
    sizes = value[1].astype(np.int32)
    offsets = np.arange(len(sizes) + 1, dtype=np.int64) * 4
    whole = _joined([_binary(len(sizes), offsets, sizes), value[0], metadata[0]])
    if null.any():
        whole = pc.if_else(pa.array(~null), whole, _NOTHING)
    return _padded(whole, _lengths(whole))


def _list_of(values: Any, null: Any, entries: Any) -> tuple[Any, Any]:
    """Return the sizes of lists, 0 for nulls, and their elements without those under nulls."""
    if not len(values):
        return np.zeros(0, np.int64), entries.slice(0, 0)
    places = np.frombuffer(values.buffers()[1], np.int32)
    places = places[values.offset : values.offset + len(values) + 1].astype(np.int64)
    covered = np.diff(places)
    counts = np.where(null, 0, covered)
    if (counts == covered).all():
        return counts, entries.slice(int(places[0]), int(places[-1] - places[0]))
    kept = np.repeat(~null, covered)
    return counts, entries.take(pa.array(int(places[0]) + np.flatnonzero(kept)))


def _maps(data_type: Map, values: Any, null: Any) -> Any:
    counts, keys = _list_of(values, null, values.keys)
    if keys.null_count:
        raise CannotEncode("the key of a map is null")
    _, items = _list_of(values, null, values.items)
    keys = _arrays(data_type.key, keys, counts)
    sizes = _lengths(keys)
    offsets = np.arange(len(counts) + 1, dtype=np.int64) * 8
    head = _binary(len(counts), offsets, sizes)
    return _joined([head, keys, _arrays(data_type.value, items, counts)])


def _arrays(data_type: DataType, elements: Any, counts: Any) -> Any:
    """Return ``UnsafeArrayData`` of lists whose sizes are ``counts``, as Arrow binaries."""
    elements = _typed(elements, data_type)
    null = _nulls(elements)
    width = element_width(data_type)
    header = 8 + (counts + 63) // 64 * 8
    fixed = header + (counts * width + 7) // 8 * 8
    starts = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(fixed, out=starts[1:])
    first = np.cumsum(counts) - counts
    owner = np.repeat(np.arange(len(counts)), counts)
    index = np.arange(len(owner)) - first[owner]
    data = np.zeros(int(starts[-1]), np.uint8)
    data.view(np.int64)[starts[:-1] // 8] = counts
    bits = (1 << (index[null] & 7)).astype(np.uint8)
    np.bitwise_or.at(data, starts[owner[null]] + 8 + (index[null] >> 3), bits)
    at = (starts[owner] + header[owner] + index * width) // width
    if is_fixed(data_type):
        data.view(f"<u{width}")[at] = _slots(data_type, elements, null)
        return _binary(len(counts), starts, data)
    tail = _tail(data_type, elements, null, in_row=False)
    before = np.cumsum(tail.room) - tail.room  # room of all elements before each element
    edges = np.zeros(len(counts) + 1, np.int64)
    edges[1:] = np.cumsum(tail.room)[np.cumsum(counts) - 1] if len(owner) else 0
    edges[1:][np.cumsum(counts) == 0] = 0
    place = fixed[owner] + before - edges[owner]
    data.view(np.int64)[at] = np.where(null, 0, (place << 32) | tail.sizes)
    body = _joined(tail.pieces)
    behind = _binary(len(counts), edges, _data_of(body))
    return _joined([_binary(len(counts), starts, data), behind])


def _data_of(values: Any) -> Any:
    """Return the bytes of all values of a binary array, one after another."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return np.zeros(0, np.uint8)
    places = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    return np.frombuffer(data, np.uint8)[places[0] : places[-1]]
