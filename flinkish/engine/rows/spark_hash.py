"""Spark's hash of rows, calculated over columns; it determines the partition of a row of state.

The algorithm is that of Spark's ``Murmur3Hash``, ``HashExpression`` and ``Murmur3_x86_32``. A row's
hash is a fold over its values: each value is hashed with the hash of the preceding values as the
seed, and a null leaves the hash unchanged. Structs, arrays and maps are folded over their content
in the same way.

A column is converted to a function from seeds to hashes (:data:`_Mixer`), which is applied to the
rows that have a value. So nested values need no loop over rows, only one over the positions in a
list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from flinkish.engine.errors import UnsupportedState
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
    parse_type,
)

#: Spark's seed for partitions (``HashPartitioning``) and for its function ``hash``.
SEED: Final = 42

#: (seeds, indexes of values in the column or None for all of them) -> hashes, in new memory.
_Mixer = Callable[[Any, Any], Any]

_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)
_M5, _N = np.uint32(5), np.uint32(0xE6546B64)
_F1, _F2 = np.uint32(0x85EBCA6B), np.uint32(0xC2B2AE35)
_MASK = 0xFFFFFFFF

#: Rows that are hashed at once, so that intermediate results stay in the processor's cache.
_ROWS = 1 << 15
#: When at most this many values have words left, the rest of each one is hashed on its own.
_FEW = 4
_NARROW: Final = frozenset({"byte", "short", "integer", "date", "year-month interval"})
_WIDE: Final = frozenset({"long", "timestamp", "timestamp_ntz", "day-time interval", "time"})
_BINARY_COLLATION: Final = "UTF8_BINARY"


def hash_columns(
    columns: Sequence[Any],
    types: Sequence[DataType],
    rows: int,
    seed: int = SEED,
    *,
    interval_days: bool = True,
) -> Any:
    """Return Spark's ``hash(columns...)`` of each row of a block.

    Returns a numpy array of int32. ``columns`` are ``pyarrow`` arrays, cast to their types if
    necessary. Call :func:`check_hashable` with the schema first, because ``types`` do not
    distinguish collated strings from others. ``rows`` is the length of the columns. Without columns
    every hash is the seed, but does not determine the partition, because Spark then puts all rows
    into partition 0. ``interval_days`` includes the days of a calendar interval, as in Spark 4.3
    and later (SPARK-58236); the code that older versions generate leaves them out.

    Raises UnsupportedState if Spark has no hash for a type (variant), and ValueError if the numbers
    of columns, types, rows or nested fields do not agree.
    """
    if len(columns) != len(types) or any(len(column) != rows for column in columns):
        raise ValueError(f"{len(columns)} columns for {len(types)} types and {rows} rows")
    hashes = np.full(rows, seed & _MASK, np.uint32)
    for values, data_type in zip(columns, types, strict=True):
        hashes = _mixer(values, data_type, interval_days)(hashes, None)
    return hashes.view(np.int32)


def partition_of(hashes: Any, partitions: int) -> Any:
    """Return each row's partition as int32: Spark's ``pmod(hash, n)`` (``HashPartitioning``)."""
    return np.mod(hashes, np.int32(partitions))


def check_hashable(schema: Any) -> None:
    """Refuse a schema that :func:`hash_columns` cannot hash as Spark does.

    Spark hashes strings of a collation other than ``UTF8_BINARY`` by their collation keys, and does
    not hash variants and geometries. Of these, the types given to :func:`hash_columns` show only
    the variants.

    ``schema`` is JSON of any Spark type. Raises UnsupportedState, which names the type, and
    UnknownType.
    """
    parse_type(schema)  # raises for unknown types, so that the rest is known
    _check_type(schema)


def _check_type(data_type: Any) -> None:
    if isinstance(data_type, str):
        collation = data_type.partition(" collate ")[2]
        if collation and collation != _BINARY_COLLATION:
            raise _unsupported(f"strings of the collation {collation}")
        if data_type == "variant" or data_type.startswith(("geometry", "geography")):
            raise _unsupported(f"a {data_type}")
        return
    # The metadata of a field has the collations of all strings in it: {"path": "provider.NAME"}.
    metadata = data_type.get("metadata") or {}
    if isinstance(metadata, Mapping):
        collations = metadata.get("__COLLATIONS") or {}
        if not isinstance(collations, Mapping):
            raise _unsupported(f"strings of the collations {collations!r}")
        for collation in collations.values():
            if str(collation).rpartition(".")[2] != _BINARY_COLLATION:
                raise _unsupported(f"strings of the collation {collation}")
    for field in data_type.get("fields", ()):
        _check_type(field)
    # The "type" of a field is a nested type; the "type" of a struct, array or map is its kind.
    inner = ("type",) if "name" in data_type and "fields" not in data_type else ()
    for part in (*inner, "elementType", "keyType", "valueType", "sqlType"):
        if part in data_type:
            _check_type(data_type[part])


def _unsupported(what: str) -> UnsupportedState:
    return UnsupportedState("", None, f"the partition of {what} in a key cannot be calculated")


def _mixer(values: Any, data_type: DataType, days: bool) -> _Mixer:
    """Return the function that hashes the values of a column; nulls keep their seeds."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(data_type, Void):
        return lambda seeds, _: seeds
    mix = _nested(values, data_type, days) or _flat(values, data_type, days)
    if not values.null_count:
        return mix
    present = values.is_valid().to_numpy(zero_copy_only=False)

    def mix_present(seeds: Any, at: Any) -> Any:
        chosen = np.flatnonzero(present if at is None else present[at])
        hashes = seeds.copy()
        hashes[chosen] = mix(seeds[chosen], chosen if at is None else at[chosen])
        return hashes

    return mix_present


def _nested(values: Any, data_type: DataType, days: bool) -> _Mixer | None:
    if isinstance(data_type, Struct):
        children = [values.field(i) for i in range(values.type.num_fields)]
        if len(children) != len(data_type.fields):
            raise ValueError(f"{len(children)} fields in place of {len(data_type.fields)}")
        pairs = zip(children, data_type.fields, strict=True)
        parts = [_mixer(child, field.type, days) for child, field in pairs]
        return lambda seeds, at: _fold(parts, seeds, at)
    if isinstance(data_type, Array):
        return _list_mixer(values, [_mixer(values.values, data_type.element, days)])
    if isinstance(data_type, Map):
        keys = _mixer(values.keys, data_type.key, days)
        return _list_mixer(values, [keys, _mixer(values.items, data_type.value, days)])
    return None


def _fold(parts: list[_Mixer], seeds: Any, at: Any) -> Any:
    for mix in parts:
        seeds = mix(seeds, at)
    return seeds


def _list_mixer(values: Any, parts: list[_Mixer]) -> _Mixer:
    """Return a function that folds the first elements of all lists, then the second ones, etc."""
    offsets = values.offsets.to_numpy().astype(np.int64)
    starts, sizes = offsets[:-1], np.diff(offsets)

    def mix(seeds: Any, at: Any) -> Any:
        first, count = (starts, sizes) if at is None else (starts[at], sizes[at])
        hashes = seeds.copy()
        left = np.flatnonzero(count)
        index = 0
        while len(left):
            hashes[left] = _fold(parts, hashes[left], first[left] + index)
            index += 1
            left = left[count[left] > index]
        return hashes

    return mix


def _flat(values: Any, data_type: DataType, days: bool) -> _Mixer:
    if isinstance(data_type, Variant):
        raise _unsupported("a variant")
    wanted = arrow_type(data_type)
    if not values.type.equals(wanted):
        values = values.cast(wanted)
    if isinstance(data_type, Bytes):
        return _bytes_mixer(values)
    if isinstance(data_type, CalendarInterval):
        months, day, micros = (values.field(i) for i in range(3))
        parts = [_longs(_numbers(micros, "<u8"))]
        parts += [_ints(_numbers(part, "<u4")) for part in ([day, months] if days else [months])]
        return lambda seeds, at: _fold(parts, seeds, at)
    if isinstance(data_type, Decimal):
        wide = _numbers(values, "<u8", 2).reshape(-1, 2)
        return _longs(wide[:, 0]) if data_type.is_long else _decimals_mixer(wide)
    assert isinstance(data_type, Fixed), data_type
    return _fixed(values, data_type)


def _fixed(values: Any, data_type: Fixed) -> _Mixer:
    name = data_type.name
    if name == "boolean":
        return _ints(values.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint32))
    if name in {"float", "double"}:
        width = data_type.width
        bits = _numbers(values, f"<u{width}")
        absolute = bits & bits.dtype.type((1 << 8 * width - 1) - 1)
        infinite, one_nan = (0x7F800000, 0x7FC00000) if width == 4 else (0x7FF << 52, 0x7FF8 << 48)
        # As in Java: all NaNs become the same NaN, and negative zero becomes zero.
        bits = np.where(absolute > infinite, one_nan, np.where(absolute == 0, 0, bits))
        bits = bits.astype(absolute.dtype)
        return _ints(bits) if width == 4 else _longs(bits)
    if name in _NARROW:
        numbers = _numbers(values, f"<i{data_type.width}")
        return _ints(numbers.astype(np.int32).view(np.uint32))
    assert name in _WIDE, name
    return _longs(_numbers(values, "<u8"))


def _numbers(values: Any, dtype: str, parts: int = 1) -> Any:
    """Return an array's bytes as numbers of another type, ``parts`` of them for each value."""
    buffer = values.buffers()[1]
    count = len(values) * parts
    if buffer is None:
        return np.zeros(count, dtype)
    start = values.offset * parts * np.dtype(dtype).itemsize
    return np.frombuffer(buffer, dtype, count, start)


def _ints(numbers: Any) -> _Mixer:
    """Return a function that hashes as ``Murmur3_x86_32.hashInt``."""

    def mix(seeds: Any, at: Any) -> Any:
        hashes = np.empty_like(seeds)
        for part in _slices(len(seeds)):
            words = numbers[part] if at is None else numbers[at[part]]
            hashes[part] = _finish(_mix_h1(seeds[part], _mix_k1(words)), np.uint32(4))
        return hashes

    return mix


def _longs(numbers: Any) -> _Mixer:
    """Return a function that hashes as ``Murmur3_x86_32.hashLong``: the lower half first."""

    def mix(seeds: Any, at: Any) -> Any:
        hashes = np.empty_like(seeds)
        for part in _slices(len(seeds)):
            words = numbers[part] if at is None else numbers[at[part]]
            h1 = _mix_h1(seeds[part], _mix_k1(words.astype(np.uint32)))
            h1 = _mix_h1(h1, _mix_k1((words >> np.uint64(32)).astype(np.uint32)))
            hashes[part] = _finish(h1, np.uint32(8))
        return hashes

    return mix


def _decimals_mixer(wide: Any) -> _Mixer:
    """Return a function that hashes decimals of more than 18 digits.

    Their bytes are those of ``BigInteger.toByteArray``: big-endian, without redundant sign bytes.
    """
    big = np.ascontiguousarray(wide).view(np.uint8).reshape(-1, 16)[:, ::-1]
    sign = np.where(big[:, :1] & 0x80, 0xFF, 0)
    # A byte is dropped if it repeats the sign and the next byte begins with the sign bit.
    same = (big[:, :-1] == sign) & ((big[:, 1:] & 0x80) == (sign & 0x80))
    drop = np.cumprod(same, axis=1).sum(axis=1)
    starts = 16 * np.arange(len(big), dtype=np.int64) + drop
    return _pieces_mixer(np.ascontiguousarray(big).reshape(-1), starts, 16 - drop)


def _bytes_mixer(values: Any) -> _Mixer:
    _, offsets, data = values.buffers()
    if offsets is None or data is None or not len(values):
        empty = np.zeros(len(values), np.int64)
        return _pieces_mixer(np.zeros(0, np.uint8), empty, empty)
    places = np.frombuffer(offsets, np.int32, len(values) + 1, 4 * values.offset).astype(np.int64)
    return _pieces_mixer(np.frombuffer(data, np.uint8), places[:-1], np.diff(places))


def _pieces_mixer(data: Any, starts: Any, sizes: Any) -> _Mixer:
    """Return a function that hashes as ``Murmur3_x86_32.hashUnsafeBytes``.

    It hashes words, then the remaining bytes as signed ints.
    """
    # For each byte, the word that begins there.
    words = np.ndarray(max(len(data) - 3, 0), "<u4", np.ascontiguousarray(data), 0, (1,))
    signed = data.view(np.int8)

    def mix(seeds: Any, at: Any) -> Any:
        hashes = np.empty_like(seeds)
        for part in _slices(len(seeds)):
            chosen = part if at is None else at[part]
            start, size = starts[chosen], sizes[chosen]
            h1 = _mix_words(words, start, size >> 2, seeds[part].copy())
            place, rest = start + (size & ~3), size & 3
            for index in range(3):
                left = np.flatnonzero(rest > index)
                if not len(left):
                    break
                last = signed[place[left] + index].astype(np.int32).view(np.uint32)
                h1[left] = _mix_h1(h1[left], _mix_k1(last))
            hashes[part] = _finish(h1, size.astype(np.uint32))
        return hashes

    return mix


def _mix_words(words: Any, start: Any, counts: Any, h1: Any) -> Any:
    """Mix ``counts`` words of each value into its hash.

    The first words of all values are mixed first, then the second ones, and so on.
    """
    most = int(counts.max(initial=0))
    if most == 0:
        return h1
    shortest = int(counts.min())
    for index in range(shortest):
        h1 = _mix_h1(h1, _mix_k1(words[start + 4 * index]))
    if shortest == most:
        return h1
    # Sorted by length, longest first, so that the values with a next word are a slice.
    narrow = counts.astype(np.uint16) if most <= 0xFFFF else counts
    order = np.argsort(most - narrow, kind="stable")
    ordered, place = h1[order], start[order]
    longer = len(counts) - np.cumsum(np.bincount(counts))  # [i]: values of more than i words
    index = shortest
    while index < most and longer[index] > _FEW:
        some = slice(0, int(longer[index]))
        ordered[some] = _mix_h1(ordered[some], _mix_k1(words[place[some] + 4 * index]))
        index += 1
    for row in range(int(longer[index]) if index < most else 0):
        first = int(place[row]) + 4 * index
        rest = words[first : int(place[row]) + 4 * int(counts[order[row]]) : 4]
        ordered[row] = _mix_long(int(ordered[row]), _mix_k1(rest))
    h1[order] = ordered
    return h1


def _mix_long(h1: int, mixed: Any) -> int:
    """Apply ``mixH1`` to many words of one value."""
    for k1 in mixed.tolist():
        h1 ^= k1
        h1 = (((h1 << 13) & _MASK | h1 >> 19) * 5 + 0xE6546B64) & _MASK
    return h1


def _slices(count: int) -> list[slice]:
    return [slice(at, min(at + _ROWS, count)) for at in range(0, count, _ROWS)]


def _mix_k1(words: Any) -> Any:
    k1 = words * _C1
    k1 = (k1 << np.uint32(15)) | (k1 >> np.uint32(17))
    k1 *= _C2
    return k1


def _mix_h1(h1: Any, k1: Any) -> Any:
    h1 = h1 ^ k1
    h1 = (h1 << np.uint32(13)) | (h1 >> np.uint32(19))
    h1 *= _M5
    h1 += _N
    return h1


def _finish(h1: Any, length: Any) -> Any:
    """Apply ``fmix``."""
    h1 = h1 ^ length
    h1 ^= h1 >> np.uint32(16)
    h1 *= _F1
    h1 ^= h1 >> np.uint32(13)
    h1 *= _F2
    h1 ^= h1 >> np.uint32(16)
    return h1
