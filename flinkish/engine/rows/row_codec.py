"""Conversion between UnsafeRows and columns, compiled from the JSON of a schema.

Rows that :meth:`RowCodec.decode` decodes and :meth:`RowCodec.encode` encodes again are bit for bit
the rows that ``UnsafeRowWriter`` wrote, including word alignment, zeroed padding, NaNs and negative
zeros. There is one exception: for a null calendar interval Spark reserves 16 bytes and leaves the
previous content in them; here they are zeros.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flinkish.engine.errors import EngineError, StateFormatError
from flinkish.engine.rows.columns import BadRow, Memory, Pieces, struct_columns
from flinkish.engine.rows.row_bytes import CannotEncode, encode_rows
from flinkish.engine.rows.types import Struct, arrow_type, parse_struct

#: Arrow's offsets in a block have 32 bits; the blocks of ``read_store`` are much smaller.
MAX_BLOCK_BYTES = (1 << 31) - 1


@dataclass(frozen=True)
class EncodedRows:
    """Rows one after another: row i is ``data[offsets[i]:offsets[i + 1]]``."""

    data: Any
    offsets: Any

    def rows(self) -> list[bytes]:
        """Return the bytes of each row."""
        data = memoryview(self.data)
        places = self.offsets.tolist()
        return [bytes(data[a:b]) for a, b in itertools.pairwise(places)]


@dataclass(frozen=True)
class RowCodec:
    """A codec for rows of one schema, from :func:`compile_schema`.

    ``schema`` is the ``pyarrow.Schema`` of its columns (see
    :func:`~flinkish.engine.rows.types.arrow_type`).
    """

    struct: Struct
    schema: Any

    def decode(self, rows: Sequence[bytes], *, skip: int = 0, name: str = "") -> Any:
        """Return the columns of a block of rows, as a ``pyarrow.RecordBatch``.

        The size of each row is a multiple of 8. ``skip`` bytes before each row do not belong to it
        (1 for RocksDB's version byte). ``name`` is the file of the rows, for errors. Raises
        StateFormatError if a row does not match this schema, and EngineError for a block of 2 GiB
        or more.
        """
        if skip:
            rows = [row[skip:] for row in rows]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        data = b"".join(rows)
        if len(data) > MAX_BLOCK_BYTES:
            raise EngineError("a block of 2 GiB of rows or more cannot be decoded at once")
        odd = lengths & 7 != 0
        if odd.any():
            at = int(odd.argmax())
            raise StateFormatError(name, None, f"row {at} has {lengths[at]} bytes, not whole words")
        starts = np.cumsum(lengths) - lengths
        pieces = Pieces(starts, lengths, np.zeros(len(rows), bool))
        try:
            columns = struct_columns(Memory(data, starts), self.struct, pieces)
        except BadRow as error:
            row, reason = error.args
            raise StateFormatError(name, None, f"row {row} of a block: {reason}") from error
        if not columns:  # only a struct array can have rows without columns
            empty = pa.Array.from_buffers(pa.struct([]), len(rows), [None], children=[])
            return pa.RecordBatch.from_struct_array(empty)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def encode(self, batch: Any, *, prefix: bytes = b"") -> EncodedRows:
        """Return the UnsafeRows of a batch's rows, each preceded by ``prefix``.

        Columns are matched by position, not by name, and cast to this codec's Arrow types if
        necessary.

        Raises CannotEncode if the columns do not match the schema, a value does not fit its type,
        or the rows have 2 GiB or more.
        """
        columns = list(batch.columns)
        if len(columns) != len(self.struct.fields):
            reason = f"{len(columns)} columns in place of {len(self.struct.fields)}"
            raise CannotEncode(reason)
        data, offsets = encode_rows(self.struct, columns, batch.num_rows, prefix)
        return EncodedRows(data, offsets)


def compile_schema(schema: Any) -> RowCodec:
    """Return a codec for rows of a schema, given as JSON of Spark's ``StructType``.

    Raises UnknownType.
    """
    return codec_of(parse_struct(schema))


def codec_of(struct: Struct) -> RowCodec:
    """Return a codec for rows of a struct type."""
    return RowCodec(struct, pa.schema(list(arrow_type(struct))))
