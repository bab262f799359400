"""Rewrite the bytes of records with changed fields: whole columns at once, without objects.

A record consists of its fields in order, each preceded by its size
(:mod:`~flinkish.state.builtin.records`). If fields were only added with constant defaults, removed,
moved or renamed, the new bytes are pieces of the old bytes, and constants. Assembling them takes a
tenth of the time of reading and writing each object, and has the same result if the class's
constructor only stores its fields.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from flinkish.state.builtin.record_types import is_constant
from flinkish.state.builtin.records import DataclassSerializer, OldRecordReader
from flinkish.state.generations import StateFormat

#: The size of a field of this many bytes takes several bytes; the serializers rewrite such fields.
_SHORT = 0x80


@dataclass(frozen=True)
class Splice:
    """How the new bytes are assembled.

    ``fields`` is the number of fields of the old record. ``parts`` are in the order of the new
    bytes; each is the index of an old field, or constant bytes.
    """

    fields: int
    parts: tuple[int | bytes, ...]

    def many(self, array: Any) -> Any | None:
        """Return a ``pyarrow`` array of stored values with all of them rewritten.

        Returns None if a value does not have the old record's form, because it is damaged, is of
        another generation or has a field of 128 bytes or more, or if the result would exceed 2 GiB.
        The serializers then rewrite the values, or report the damage.
        """
        import numpy as np
        import pyarrow as pa

        null = array.is_null().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(~null)
        if not len(rows):
            return array
        _, offset_buffer, data_buffer = array.buffers()
        if data_buffer is None:
            return None
        offsets = np.frombuffer(offset_buffer, np.int32)[array.offset :][: len(array) + 1]
        data = np.frombuffer(data_buffer, np.uint8)
        at, end = offsets[:-1][rows].astype(np.int64), offsets[1:][rows].astype(np.int64)
        if (at >= end).any() or data[at].any():
            return None  # not of generation 0
        at += 1
        begins, lengths = [], []
        for _ in range(self.fields):
            if (at >= end).any():
                return None
            sizes = data[at].astype(np.int64)
            if (sizes >= _SHORT).any():
                return None
            begins.append(at)
            lengths.append(sizes + 1)
            at = at + sizes + 1
        if (at != end).any():
            return None
        pieces = [_Piece.of(part, begins, lengths, len(rows)) for part in self.parts]
        sizes = sum((piece.length for piece in pieces), start=np.ones(len(rows), np.int64))
        total = np.zeros(len(array) + 1, np.int64)
        total[1:][rows] = sizes
        total = np.cumsum(total)
        if total[-1] > np.iinfo(np.int32).max:
            return None
        out = np.zeros(total[-1], np.uint8)  # the generation of each value is 0
        at = total[:-1][rows] + 1
        for piece in pieces:
            piece.copy(data, out, at)
            at = at + piece.length
        buffers = [array.buffers()[0] if array.offset == 0 else None]
        if array.offset and null.any():
            buffers = [pa.py_buffer(np.packbits(~null, bitorder="little"))]
        buffers += [pa.py_buffer(total.astype(np.int32)), pa.py_buffer(out)]
        return pa.Array.from_buffers(array.type, len(array), buffers)


@dataclass(frozen=True)
class _Piece:
    """A part of each new value: its length, and its start in the old bytes or its constant."""

    length: Any
    begin: Any = None
    constant: bytes = b""

    @staticmethod
    def of(part: int | bytes, begins: list[Any], lengths: list[Any], rows: int) -> _Piece:
        import numpy as np

        if isinstance(part, bytes):
            return _Piece(np.full(rows, len(part), np.int64), constant=part)
        return _Piece(lengths[part], begins[part])

    def copy(self, data: Any, out: Any, at: Any) -> None:
        """Write the part of each value to its place ``at``."""
        import numpy as np

        longest = int(self.length.max())
        if self.begin is None:
            out[at[:, None] + np.arange(longest)] = np.frombuffer(self.constant, np.uint8)
        elif longest == int(self.length.min()):
            step = np.arange(longest)
            out[at[:, None] + step] = data[self.begin[:, None] + step]
        else:
            inside = np.arange(int(self.length.sum()))
            inside -= np.repeat(np.cumsum(self.length) - self.length, self.length)
            rows = np.repeat(np.arange(len(at)), self.length)
            out[at[rows] + inside] = data[self.begin[rows] + inside]


def splice_of(format: StateFormat) -> Splice | None:
    """Return how the values of a format are spliced; None if impossible."""
    if len(format.readers) != 1:
        return None
    (reader,), writer = format.readers, format.writer
    if not isinstance(reader, OldRecordReader) or not isinstance(writer, DataclassSerializer):
        return None
    if reader.cls is not writer.cls or not _only_stores_fields(writer.cls):
        return None
    old: dict[str, int] = {}
    for index, (name, each) in enumerate(reader.steps):
        if each is None:
            continue
        if each != writer.serializers[name]:
            return None
        old[name] = index
    parts: list[int | bytes] = []
    for name, serializer in writer.serializers.items():
        if name in old:
            parts.append(old[name])
            continue
        default = reader.added.get(name)
        if default is None or not is_constant(default):
            return None
        value = serializer.serialize(default())
        if len(value) >= _SHORT:
            return None
        parts.append(bytes([len(value)]) + value)
    return Splice(len(reader.steps), tuple(parts))


def _only_stores_fields(cls: Any) -> bool:
    """Return whether the constructor of a class does nothing but store its fields."""
    if not dataclasses.is_dataclass(cls) or type(cls) is not type:
        return False
    generated = cls.__dataclass_params__  # type: ignore[attr-defined]
    # A class that defines __init__ keeps it, but ``init`` is True all the same.
    code = getattr(cls.__init__, "__code__", None)
    default_init = generated.init and getattr(code, "co_filename", "") == "<string>"
    plain = cls.__new__ is object.__new__ and not hasattr(cls, "__post_init__")
    sets = cls.__setattr__ is object.__setattr__ or generated.frozen
    fields = dataclasses.fields(cls)
    own = all(each.init and not hasattr(type(cls.__dict__.get(each.name)), "__set__")
              for each in fields)  # fmt: skip
    return bool(default_init and plain and sets and own)


class Rewriter:
    """Rewrites the stored values of a state: one by one, or a whole array. Picklable."""

    def __init__(self, format: StateFormat) -> None:
        self._format = format
        self._splice = splice_of(format)

    def __call__(self, stored: bytes) -> bytes:
        """Return the stored bytes of the same value in the new form."""
        return self._format.rewrite(stored)

    def many(self, array: Any) -> Any | None:
        """Return an array with all values rewritten; None if that must be done one by one."""
        return None if self._splice is None else self._splice.many(array)
