"""Conversion of UnsafeRows to columns: all values of a column at once, including nested ones.

The layout is that of Spark's ``UnsafeRow``, ``UnsafeArrayData``, ``UnsafeMapData``,
``CalendarInterval`` and ``VariantVal``. A value is in a slot: 8 bytes of a row, or an element of an
array. A value that does not fit into its slot follows the slots of its row or array, and the slot
has the value's place (relative to the start of the row or array) and size::

    row    nulls, 8 bytes for each 64 fields | 8 bytes a field | the rest, padded to 8 bytes
    array  int64 n | nulls, 8 bytes for each 64 | n elements of 1, 2, 4 or 8 bytes | the rest
    map    int64 size of the keys | array of keys | array of values

All places and sizes are checked before use: damage raises an error, and no read is outside the row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flinkish.engine.rows.types import (
    INTERVAL_ARROW,
    VARIANT_ARROW,
    Array,
    Bytes,
    CalendarInterval,
    DataType,
    Decimal,
    Map,
    Struct,
    Variant,
    Void,
    arrow_type,
    element_width,
)


class BadRow(ValueError):
    """A row's bytes do not match its schema; ``args`` are its index in the block and the reason.

    The index is 0 if damage is found in the block as a whole.
    """


class Memory:
    """The bytes of a block of rows, as words of each size, and the row of each byte."""

    def __init__(self, data: bytes, starts: Any) -> None:
        self.bytes = np.frombuffer(data, np.uint8)
        self._words = {w: np.frombuffer(data, f"<u{w}") for w in (1, 2, 4, 8)}
        self._starts = starts
        self.size = len(data)
        self.buffer = pa.py_buffer(data)

    def words(self, width: int, at: Any) -> Any:
        """Return the unsigned words at places that are multiples of ``width``."""
        return self._words[width][at // width]

    def check(self, wrong: Any, at: Any, reason: str) -> None:
        """Raise BadRow for the row of the first place in ``at`` whose ``wrong`` is true, if any."""
        if wrong.any():
            place = int(at[int(wrong.argmax())])
            row = int(np.searchsorted(self._starts, place, side="right")) - 1
            raise BadRow(row, reason)


@dataclass(frozen=True)
class Slots:
    """The places of a column's values; all arrays have one entry for each value.

    ``at`` is the place of the slot; ``base`` the start of the row or array, which the places in
    slots are relative to (any place inside the row if the value is null); ``first`` and ``end`` the
    bounds of the values that are not in slots; ``null`` whether the value is null.
    """

    at: Any
    base: Any
    first: Any
    end: Any
    null: Any


@dataclass(frozen=True)
class Pieces:
    """Places of values that do not fit into slots: first byte, size (0 if null), null mask."""

    start: Any
    size: Any
    null: Any


def struct_columns(memory: Memory, struct: Struct, rows: Pieces) -> list[Any]:
    """Return the columns of rows; the columns of a null row are null.

    Raises BadRow if a row does not match the struct.
    """
    bitset = (len(struct.fields) + 63) // 64 * 8
    fixed = bitset + 8 * len(struct.fields)
    wrong = ~rows.null & ((rows.size < fixed) | (rows.size & 7 != 0))
    memory.check(wrong, rows.start, f"{len(struct.fields)} fields need {fixed} bytes at least")
    start = np.where(rows.null, 0, rows.start)
    columns = []
    bits = None
    for index, field in enumerate(struct.fields):
        if index % 64 == 0:
            bits = memory.words(8, np.where(rows.null, 0, start + index // 8))
        null = rows.null | ((bits >> np.uint64(index % 64)) & np.uint64(1) != 0)
        at = np.where(null, 0, start + bitset + 8 * index)
        slots = Slots(at, rows.start, rows.start + fixed, rows.start + rows.size, null)
        columns.append(column(memory, field.type, slots))
    return columns


def column(memory: Memory, data_type: DataType, slots: Slots) -> Any:
    """Return the values in slots, as a ``pyarrow.Array`` of their type.

    Raises BadRow if a value does not match the type.
    """
    if isinstance(data_type, Void):
        memory.check(~slots.null, slots.base, "a field of the type void is not null")
        return pa.nulls(len(slots.null))
    arrow = arrow_type(data_type)
    if data_type == Bytes(text=True) or data_type == Bytes(text=False):
        return binary_array(memory, arrow, _pieces(memory, slots))
    if isinstance(data_type, Decimal):
        words = _long_decimals(memory, slots) if data_type.is_long else _decimals(memory, slots)
        return array_of(arrow, slots.null, words)
    if isinstance(data_type, CalendarInterval):
        return _intervals(memory, _pieces(memory, slots))
    if isinstance(data_type, Variant):
        return _variants(memory, _pieces(memory, slots))
    if isinstance(data_type, Struct):
        pieces = _pieces(memory, slots)
        return _nested(arrow, slots.null, struct_columns(memory, data_type, pieces))
    if isinstance(data_type, Array):
        offsets, elements = _elements(memory, data_type.element, _pieces(memory, slots))
        return _nested(arrow, slots.null, [elements], offsets)
    if isinstance(data_type, Map):
        return _maps(memory, data_type, _pieces(memory, slots))
    width = element_width(data_type)
    values = memory.words(width, slots.at)
    values = np.where(slots.null, values.dtype.type(0), values)
    if arrow == pa.bool_():
        values = np.packbits(values != 0, bitorder="little")
    return array_of(arrow, slots.null, values)


def array_of(arrow: Any, null: Any, values: Any) -> Any:
    """Return an array of values of fixed width, given as a NumPy array or a matrix of bytes."""
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(arrow, len(null), [_validity(null), buffer])


def _nested(arrow: Any, null: Any, children: list[Any], offsets: Any = None) -> Any:
    buffers = [_validity(null)]
    if offsets is not None:
        buffers.append(pa.py_buffer(offsets.astype(np.int32)))
    return pa.Array.from_buffers(arrow, len(null), buffers, children=children)


def _validity(null: Any) -> Any:
    return pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None


def _pieces(memory: Memory, slots: Slots) -> Pieces:
    """Read the place and size in slots, and check that they are inside the row or array."""
    word = memory.words(8, slots.at)
    place = np.where(slots.null, 0, (word >> np.uint64(32)).astype(np.int64))
    size = np.where(slots.null, 0, (word & np.uint64(0xFFFFFFFF)).astype(np.int64))
    start = slots.base + place
    wrong = (start < slots.first) | (start + size > slots.end) | (place & 7 != 0)
    memory.check(~slots.null & wrong, slots.base, "a value lies outside its row")
    # Overlapping values could be many times the row's own size; Spark's never overlap.
    if int(size.sum()) > memory.size:
        raise BadRow(0, "values of the block overlap")
    return Pieces(start, size, slots.null)


def binary_array(memory: Memory, arrow: Any, pieces: Pieces) -> Any:
    """Copy values of variable length into one array.

    An Arrow array over the block's own bytes has the values and the gaps between them as
    alternating elements, so Arrow copies all values at once.
    """
    count = len(pieces.size)
    ends = np.where(pieces.null, 0, pieces.start + pieces.size)
    before = np.zeros(count, np.int64)
    np.maximum.accumulate(ends[:-1], out=before[1:])
    starts = np.where(pieces.null, before, pieces.start)
    if (starts < before).any():  # not in order; Spark never writes this
        joined = memory.bytes.tobytes()
        both = zip(pieces.start.tolist(), ends.tolist(), pieces.null.tolist(), strict=True)
        values = [None if null else joined[a:b] for a, b, null in both]
        return pa.array(values, pa.binary()).view(arrow)
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0:-1:2] = starts
    offsets[1::2] = np.maximum(starts, ends)
    offsets[-1] = offsets[-2] if count else 0
    # Element 2i is value i, element 2i + 1 is the gap after it.
    whole = pa.Array.from_buffers(
        pa.binary(), 2 * count, [None, pa.py_buffer(offsets), memory.buffer]
    )
    taken = whole.take(pa.array(np.arange(0, 2 * count, 2)))
    buffers = [_validity(pieces.null), *taken.buffers()[1:]]
    return pa.Array.from_buffers(arrow, count, buffers)


def _long_decimals(memory: Memory, slots: Slots) -> Any:
    """Convert unscaled longs to the 16 bytes of Arrow's decimals."""
    word = memory.words(8, slots.at)
    wide = np.empty((len(word), 2), np.int64)
    wide[:, 0] = np.where(slots.null, 0, word.view(np.int64))
    wide[:, 1] = wide[:, 0] >> 63
    return wide


def _decimals(memory: Memory, slots: Slots) -> Any:
    pieces = _pieces(memory, slots)
    wrong = ~slots.null & ((pieces.size < 1) | (pieces.size > 16))
    memory.check(wrong, slots.base, "a decimal of more than 16 bytes, or of none")
    return decimal_words(memory, pieces)


def decimal_words(memory: Memory, pieces: Pieces) -> Any:
    """Convert big-endian two's complement of 1 to 16 bytes to Arrow's 16 little-endian bytes."""
    order = np.arange(16)
    inside = order < pieces.size[:, None]
    places = np.where(inside, pieces.start[:, None] + pieces.size[:, None] - 1 - order, 0)
    digits = memory.bytes[places]
    first = memory.bytes[np.where(pieces.null, 0, pieces.start)]
    sign = np.where((first & 0x80 != 0) & ~pieces.null, 0xFF, 0).astype(np.uint8)
    return np.where(inside, digits, sign[:, None])


def _intervals(memory: Memory, pieces: Pieces) -> Any:
    memory.check(~pieces.null & (pieces.size != 16), pieces.start, "an interval of not 16 bytes")
    start = np.where(pieces.null, 0, pieces.start)
    children = []
    for field, place in zip(INTERVAL_ARROW, (0, 4, 8), strict=True):
        width = field.type.bit_width // 8
        at = np.where(pieces.null, 0, start + place)
        words = memory.words(width, at)
        children.append(array_of(field.type, pieces.null, words))
    return _nested(INTERVAL_ARROW, pieces.null, children)


def _variants(memory: Memory, pieces: Pieces) -> Any:
    """Decode variants: int32 size of the value | the value | its metadata."""
    memory.check(~pieces.null & (pieces.size < 4), pieces.start, "a variant without its size")
    at = np.where(pieces.null, 0, pieces.start)
    words = memory.words(4, at)
    size = np.where(pieces.null, 0, words.view(np.int32).astype(np.int64))
    rest = np.where(pieces.null, 0, pieces.size - 4)
    memory.check((size < 0) | (size > rest), pieces.start, "a variant larger than its bytes")
    value = Pieces(pieces.start + 4, size, pieces.null)
    metadata = Pieces(pieces.start + 4 + size, rest - size, pieces.null)
    children = [binary_array(memory, pa.binary(), part) for part in (value, metadata)]
    return _nested(VARIANT_ARROW, pieces.null, children)


def _maps(memory: Memory, data_type: Map, pieces: Pieces) -> Any:
    arrow = arrow_type(data_type)
    memory.check(~pieces.null & (pieces.size < 8), pieces.start, "a map without its size")
    keys_size = _first_word(memory, pieces)
    wrong = (keys_size < 0) | (keys_size > pieces.size - 8) | (keys_size & 7 != 0)
    memory.check(~pieces.null & wrong, pieces.start, "keys of a map larger than the map")
    keys_size = np.where(pieces.null, 0, keys_size)
    rest = np.where(pieces.null, 0, pieces.size - 8 - keys_size)
    keys = Pieces(pieces.start + 8, keys_size, pieces.null)
    values = Pieces(pieces.start + 8 + keys_size, rest, pieces.null)
    offsets, key_column = _elements(memory, data_type.key, keys)
    others, value_column = _elements(memory, data_type.value, values)
    wrong = np.diff(offsets) != np.diff(others)
    memory.check(wrong, pieces.start, "a map has more keys than values, or fewer")
    if key_column.null_count:
        raise BadRow(0, "a map of the block has a null as its key")
    entries_type = pa.struct([arrow.key_field, arrow.item_field])
    entries = pa.Array.from_buffers(
        entries_type, len(key_column), [None], children=[key_column, value_column]
    )
    return _nested(arrow, pieces.null, [entries], offsets)


def _elements(memory: Memory, data_type: DataType, pieces: Pieces) -> tuple[Any, Any]:
    """Return the offsets of arrays and all their elements."""
    memory.check(~pieces.null & (pieces.size < 8), pieces.start, "an array without its size")
    memory.check(~pieces.null & (pieces.start & 7 != 0), pieces.start, "an array out of place")
    count = _first_word(memory, pieces)
    width = element_width(data_type)
    # The count is checked first, so that values calculated from it do not overflow.
    wrong = (count < 0) | (count > pieces.size)
    memory.check(~pieces.null & wrong, pieces.start, "an array of more elements than bytes")
    count = np.where(pieces.null, 0, count)
    header = 8 + (count + 63) // 64 * 8
    fixed = header + (count * width + 7) // 8 * 8
    memory.check(
        ~pieces.null & (fixed > pieces.size), pieces.start, "an array is larger than its bytes"
    )
    offsets = np.zeros(len(count) + 1, np.int64)
    np.cumsum(count, out=offsets[1:])
    owner = np.repeat(np.arange(len(count)), count)
    start = pieces.start[owner]
    index = np.arange(len(owner)) - offsets[:-1][owner]
    bits = memory.bytes[start + 8 + (index >> 3)]
    null = (bits >> (index & 7).astype(np.uint8)) & 1 != 0
    at = np.where(null, 0, start + header[owner] + index * width)
    slots = Slots(at, start, start + fixed[owner], start + pieces.size[owner], null)
    return offsets, column(memory, data_type, slots)


def _first_word(memory: Memory, pieces: Pieces) -> Any:
    at = np.where(pieces.null, 0, pieces.start)
    return memory.words(8, at).view(np.int64)
