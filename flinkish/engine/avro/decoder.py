"""Decoding of rows in Avro's binary encoding to columns, all rows of a block at once.

The counterpart of :mod:`~flinkish.engine.avro.encoder`, for rows without arrays and maps. fastavro
makes a Python object of each value, which takes several times as long.

Avro frames neither rows nor values (specification 1.11, "Binary Encoding"). So each row is walked
to find where the next one begins, and then the columns are decoded one after another, each from the
places where the column before it ends. The bytes are untrusted: the walk ends exactly at their end,
which bounds every place that the columns read, and the columns check what the walk assumes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from flinkish.engine.avro.schemas import as_struct
from flinkish.engine.rows.arrow_parts import build
from flinkish.engine.rows.columns import (
    Memory,
    Pieces,
    array_of,
    binary_array,
    decimal_words,
)
from flinkish.engine.rows.types import (
    BOOLEAN,
    Array,
    Bytes,
    DataType,
    Decimal,
    Field,
    Map,
    Struct,
    Void,
    arrow_type,
    element_width,
)

#: Steps of the walk: a varint, bytes after their size, a fixed number of bytes, a nullable record.
_NUMBER, _BYTES, _FIXED, _RECORD = range(4)
#: For each value of a row: the kind of step, whether the value may be null, and the number of bytes
#: of a fixed value or the steps of a record.
_Steps = tuple[tuple[int, bool, Any], ...]
#: Bytes of the longest varint.
_LONGEST: Final = 10
#: Bytes of a block up to which the ends of all varints are found at once, in 14 times the memory.
_AT_ONCE: Final = 8 << 20


@dataclass(frozen=True)
class RowDecoder:
    """Decodes rows, each of which has one value of each type, never null."""

    types: tuple[DataType, ...]
    steps: _Steps

    @classmethod
    def of(cls, types: Sequence[DataType]) -> RowDecoder | None:
        """Return the decoder of rows of these types; None if they contain arrays or maps."""
        if any(map(_has_lists, types)):
            return None
        return cls(tuple(types), tuple(_steps((each, False) for each in types)))

    def decode(self, data: bytes, count: int) -> list[Any]:
        """Return an Arrow array of each type.

        Raises ValueError or IndexError if the bytes are not exactly ``count`` rows.
        """
        # Columns read up to 8 bytes ahead, even at the end, and Memory needs whole words.
        padded = data + bytes(16 + -len(data) % 8)
        starts = _starts(padded, len(data), self.steps, count)
        columns = _Columns(Memory(padded, starts), starts)
        present = np.ones(count, bool)
        arrays = [columns.value(each, present) for each in self.types]
        if not (columns.at == np.append(starts[1:], len(data))[:count]).all():
            raise ValueError("its rows do not follow one another")
        return arrays


def _has_lists(data_type: DataType) -> bool:
    struct = as_struct(data_type)
    if struct is not None:
        return any(_has_lists(field.type) for field in struct.fields)
    return isinstance(data_type, (Array, Map))


def _steps(values: Iterable[tuple[DataType, bool]]) -> Iterator[tuple[int, bool, Any]]:
    """Yield the steps over values, given as types and whether a value may be null."""
    for data_type, optional in values:
        struct = as_struct(data_type)
        arrow = arrow_type(data_type)
        if struct is not None:
            inner = _steps((field.type, _is_union(field)) for field in struct.fields)
            if optional:
                yield _RECORD, True, tuple(inner)
            else:
                yield from inner
        elif isinstance(data_type, (Bytes, Decimal)):
            yield _BYTES, optional, None
        elif data_type == BOOLEAN or pa.types.is_floating(arrow):
            yield _FIXED, optional, element_width(data_type)
        elif not isinstance(data_type, Void):
            yield _NUMBER, optional, None


def _is_union(field: Field) -> bool:
    return field.nullable and not isinstance(field.type, Void)


def _starts(padded: bytes, size: int, steps: _Steps, count: int) -> Any:
    """Return where each row begins; raise an error unless the last one ends at ``size``."""
    after = _Ends(padded) if size > _AT_ONCE else _all_ends(padded)
    starts = []
    at = 0
    for _ in range(count):
        starts.append(at)
        at = _end(padded, after, steps, at)
    if at != size:
        raise ValueError(f"its bytes are not those of {count} rows")
    return np.array(starts, np.int64)


def _all_ends(padded: bytes) -> memoryview:
    """Return for each byte the end of the varint that includes it; padding ends the last varint."""
    last = np.frombuffer(padded, np.uint8) < 0x80  # the last byte of a varint
    ends = np.flatnonzero(last).astype(np.int32) + 1
    after: memoryview = ends[np.cumsum(last, dtype=np.int32) - last].data
    return after


@dataclass(frozen=True)
class _Ends:
    """The ends of varints, found when asked for: slower, but without memory for each byte."""

    data: bytes

    def __getitem__(self, at: int) -> int:
        for end in range(at, at + _LONGEST):
            if self.data[end] < 0x80:
                return end + 1
        raise ValueError("a number is too long")


def _end(data: bytes, after: memoryview | _Ends, steps: _Steps, at: int) -> int:
    """Return where the values end that begin at ``at``."""
    for kind, optional, detail in steps:
        if optional:
            at += 1
            if not data[at - 1]:
                continue
        if kind == _NUMBER:
            at = after[at]
        elif kind == _BYTES:
            size = data[at]
            at = at + 1 + (size >> 1) if size < 0x80 else _end_of_long_bytes(data, after, at)
        elif kind == _FIXED:
            at += detail
        else:
            at = _end(data, after, detail, at)
    return at


def _end_of_long_bytes(data: bytes, after: memoryview | _Ends, at: int) -> int:
    end = after[at]
    if end - at > _LONGEST:
        raise ValueError("a number is too long")
    groups = (byte & 0x7F for byte in data[at:end])
    return end + (sum(group << 7 * i for i, group in enumerate(groups)) >> 1)


class _Columns:
    """The columns of rows; ``at`` is where the next value of each row begins.

    Only rows that are ``present`` have bytes for a value; the others get null.
    """

    def __init__(self, memory: Memory, starts: Any) -> None:
        self._memory = memory
        self.at = starts.copy()

    def value(self, data_type: DataType, present: Any) -> Any:
        """Decode a value of each row."""
        struct = as_struct(data_type)
        arrow = arrow_type(data_type)
        if struct is not None:
            return self._record(struct, arrow, present)
        if isinstance(data_type, Void):
            return pa.nulls(len(present))
        if isinstance(data_type, Bytes):
            return binary_array(self._memory, arrow, self._bytes(present))
        if isinstance(data_type, Decimal):
            return self._decimals(arrow, present)
        if data_type == BOOLEAN:
            bits = self._fixed(1, present)[:, 0]
            if (bits > 1).any():
                raise ValueError("a boolean is neither 0 nor 1")
            return array_of(arrow, ~present, np.packbits(bits, bitorder="little"))
        width = element_width(data_type)
        if pa.types.is_floating(arrow):
            return array_of(arrow, ~present, self._fixed(width, present))
        numbers = self._numbers(present)
        kept = numbers.astype(f"<i{width}")
        if (kept != numbers).any():
            raise ValueError(f"a number has more than {8 * width} bits")
        return array_of(arrow, ~present, kept)

    def _record(self, struct: Struct, arrow: Any, present: Any) -> Any:
        children = []
        for field in struct.fields:
            there = self._not_null(present) if _is_union(field) else present
            children.append(self.value(field.type, there))
        return build(arrow, ~present, children)

    def _not_null(self, present: Any) -> Any:
        """Read the branch of a union of null and a type: 0, or 1 (zigzag: 2)."""
        branch = np.where(present, self._memory.bytes[self.at], 0)
        if ((branch != 0) & (branch != 2)).any():
            raise ValueError("a union has another branch than null and a value")
        self.at = self.at + present
        return branch == 2

    def _numbers(self, present: Any) -> Any:
        """Read zigzag varints; 0 where none is present."""
        bits = np.zeros(len(present), np.uint64)
        more = present
        for group in range(_LONGEST):
            if not more.any():
                break
            byte = np.where(more, self._memory.bytes[self.at], 0).astype(np.uint64)
            bits |= (byte & np.uint64(0x7F)) << np.uint64(7 * group)
            self.at = self.at + more
            more = byte > 0x7F
            if group == _LONGEST - 1 and (byte > 1).any():
                raise ValueError("a number is too long: it has more than 64 bits")
        sign = -(bits & np.uint64(1)).astype(np.int64)
        return (bits >> np.uint64(1)).astype(np.int64) ^ sign

    def _fixed(self, width: int, present: Any) -> Any:
        """Read ``width`` bytes of each row; zeros where none are present."""
        places = self.at[:, None] + np.arange(width)
        self.at = self.at + width * present
        return np.where(present[:, None], self._memory.bytes[places], 0).astype(np.uint8)

    def _bytes(self, present: Any) -> Pieces:
        sizes = self._numbers(present)
        if (sizes < 0).any():
            raise ValueError("bytes of a negative size")
        pieces = Pieces(self.at, sizes, ~present)
        self.at = self.at + sizes
        return pieces

    def _decimals(self, arrow: Any, present: Any) -> Any:
        pieces = self._bytes(present)
        if (present & ((pieces.size < 1) | (pieces.size > 16))).any():
            raise ValueError("a decimal of more than 16 bytes, or of none")
        decimals = array_of(arrow, ~present, decimal_words(self._memory, pieces))
        decimals.validate(full=True)  # no value has more digits than the type
        return decimals
