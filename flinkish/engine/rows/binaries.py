"""The byte strings of a block of rows, as a list or as a buffer with places, made on demand.

RocksDB's binding returns and takes a Python object for each key and value. The steps in between
(decoding, encoding, splitting by partition) read and build buffers. So a block keeps the form that
it was made from, and is converted as rarely as possible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class Binaries(Sequence[bytes]):
    """Byte strings, as a sequence; outside the stores, created by one of its class methods."""

    __slots__ = ("_data", "_lengths", "_rows", "_starts")

    def __init__(self, data: Any, starts: Any, lengths: Any, rows: list[bytes] | None) -> None:
        self._data = data
        self._starts = starts
        self._lengths = lengths
        self._rows = rows

    @classmethod
    def of(cls, rows: Sequence[bytes]) -> Binaries:
        """Return byte strings that are in a sequence; they are not copied."""
        if isinstance(rows, Binaries):
            return rows
        return cls(None, None, None, rows if isinstance(rows, list) else list(rows))

    @classmethod
    def between(cls, data: Any, offsets: Any) -> Binaries:
        """Return byte strings one after another: each between two ``offsets`` of a buffer."""
        places = np.asarray(offsets, np.int64)
        return cls(np.frombuffer(data, np.uint8), places[:-1], np.diff(places), None)

    @classmethod
    def from_arrow(cls, array: Any) -> Binaries:
        """Return the values of a ``pyarrow.LargeBinaryArray`` without nulls."""
        _, offsets, data = array.buffers()
        if data is None or not len(array):
            return cls.between(b"", np.zeros(len(array) + 1, np.int64))
        places = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
        return cls.between(data, places)

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.LargeBinaryArray``."""
        if self._rows is not None:
            return pa.array(self._rows, pa.large_binary())
        ends = self._starts + self._lengths
        if not (self._starts[1:] == ends[:-1]).all():
            return pa.array(self.rows(), pa.large_binary())
        offsets = np.zeros(len(ends) + 1, np.int64)
        if len(ends):
            offsets[0] = self._starts[0]
            offsets[1:] = ends
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(self._data)]
        return pa.Array.from_buffers(pa.large_binary(), len(ends), buffers)

    def rows(self) -> list[bytes]:
        """Return a list of the byte strings; do not change it."""
        if self._rows is None:
            ends = self._starts + self._lengths
            if (self._starts[1:] == ends[:-1]).all():
                self._rows = self.to_arrow().to_pylist()
            else:
                data = self._data.tobytes()
                both = zip(self._starts.tolist(), ends.tolist(), strict=True)
                self._rows = [data[start:end] for start, end in both]
        return self._rows

    def take(self, places: Sequence[int]) -> list[bytes]:
        """Return the byte strings at places."""
        rows = self.rows()
        return [rows[place] for place in places]

    def placed(self) -> tuple[Any, Any, Any]:
        """Return a buffer, and the starts and lengths of the strings in it, as NumPy arrays."""
        if self._data is None:
            lengths = self.lengths
            self._data = np.frombuffer(b"".join(self.rows()), np.uint8)
            self._starts = np.cumsum(lengths) - lengths
        return self._data, self._starts, self._lengths

    def without(self, count: int) -> Binaries:
        """Return the strings without their first ``count`` bytes; none is shorter than that."""
        data, starts, lengths = self.placed()
        return Binaries(data, starts + count, lengths - count, None)

    def prefixed(self, prefix: bytes) -> Binaries:
        """Return the strings with a prefix; nothing is copied if the buffer has it before each."""
        if not prefix or not len(self):
            return self
        if self._rows is not None:
            return Binaries.of([prefix + row for row in self._rows])
        if int(self._starts.min()) >= len(prefix):
            starts = self._starts - len(prefix)
            if all((self._data[starts + at] == byte).all() for at, byte in enumerate(prefix)):
                return Binaries(self._data, starts, self._lengths + len(prefix), None)
        parts = (pa.scalar(prefix, pa.large_binary()), self.to_arrow())
        nothing = pa.scalar(b"", pa.large_binary())
        return Binaries.from_arrow(pc.binary_join_element_wise(*parts, nothing))

    def words(self, skip: int) -> tuple[Any, Any, Any]:
        """Return a buffer, and the strings' starts and lengths without their first ``skip`` bytes.

        The starts are multiples of 8 if the lengths are, as for rows. The buffer can be read in
        words of 8 bytes; its other bytes are zeros, or belong to other strings.
        """
        if self._rows is None and not (self._starts + skip & 7).any() and not self._data.size & 7:
            return self._data, self._starts + skip, self._lengths - skip
        rows = self.rows()
        pad = bytes(-skip & 7)
        lengths = self.lengths
        joined = pad + pad.join(rows)
        data = joined + bytes(-len(joined) & 7)
        ends = np.cumsum(lengths + len(pad))
        return data, ends - lengths + skip, lengths - skip

    @property
    def lengths(self) -> Any:
        """The lengths of the byte strings, as a NumPy array."""
        if self._lengths is None:
            assert self._rows is not None
            self._lengths = np.fromiter(map(len, self._rows), np.int64, len(self._rows))
        return self._lengths

    def all_start_with_zero(self) -> bool:
        """Return whether each string starts with a byte 0: a single row's version in RocksDB."""
        if self._rows is None:
            return bool(self._lengths.all()) and not self._data[self._starts].any()
        # The maximum bounds all first bytes; this is several times faster than checking each one.
        return all(self._rows) and max(self._rows, default=b"\x00") < b"\x01"

    def __len__(self) -> int:
        return len(self._lengths if self._rows is None else self._rows)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.rows())

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> Binaries: ...

    def __getitem__(self, index: int | slice) -> bytes | Binaries:
        if self._rows is not None:
            part: bytes | list[bytes] = self._rows[index]
            return part if isinstance(part, bytes) else Binaries.of(part)
        if isinstance(index, slice):
            return Binaries(self._data, self._starts[index], self._lengths[index], None)
        start = int(self._starts[index])
        return bytes(self._data[start : start + int(self._lengths[index])])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (Binaries, list, tuple)):
            return self.rows() == list(other)
        return NotImplemented
