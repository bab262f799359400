"""UnsafeRows to columns and back, compiled from the JSON of a schema.

What :meth:`RowCodec.encode` makes of what :meth:`RowCodec.decode` gave is bit for bit what
``UnsafeRowWriter`` had written: word alignment, zeroed padding, NaNs and negative zeros included.
The one exception: for a calendar interval that is null Spark reserves 16 bytes and leaves in them
what was there before; here they are zeros.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

from flinkish.engine.errors import EngineError, StateFormatError
from flinkish.engine.rows.columns import BadRow, Memory, Pieces, struct_columns
from flinkish.engine.rows.row_bytes import CannotEncode, encode_rows
from flinkish.engine.rows.types import Struct, arrow_type, parse_struct

#: Arrow's places in a block are of 32 bits; read_store's blocks are much smaller.
MAX_BLOCK_BYTES = (1 << 31) - 1


@dataclass(frozen=True)
class EncodedRows:
    """Rows one behind another: row i is ``data[offsets[i]:offsets[i + 1]]``."""

    data: Any
    offsets: Any

    def rows(self) -> list[bytes]:
        """Each row's bytes."""
        data = memoryview(self.data)
        places = self.offsets.tolist()
        return [bytes(data[a:b]) for a, b in itertools.pairwise(places)]


@dataclass(frozen=True)
class RowCodec:
    """Rows of one schema. Make it by :func:`compile_schema`.

    Attributes:
        struct: the schema.
        schema: the ``pyarrow.Schema`` of its columns (see :func:`~.types.arrow_type`).
    """

    struct: Struct
    schema: Any

    def decode(self, rows: Sequence[bytes], *, skip: int = 0, name: str = "") -> Any:
        """The columns of a block of rows, as a ``pyarrow.RecordBatch``.

        Args:
            rows: the rows' bytes; a row is of whole words.
            skip: bytes before each row that do not belong to it (1 where RocksDB has a version).
            name: the file the rows are from, for errors.

        Raises:
            StateFormatError: a row is not one of this schema.
            EngineError: the block has 2 GiB or more.
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
        if not columns:  # only a struct can have rows without columns
            empty = pa.Array.from_buffers(pa.struct([]), len(rows), [None], children=[])
            return pa.RecordBatch.from_struct_array(empty)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def encode(self, batch: Any, *, prefix: bytes = b"") -> EncodedRows:
        """The UnsafeRows of a batch's rows, each behind ``prefix``.

        Columns are taken by their place, not by their name, and cast to this codec's Arrow types
        where they have others.

        Raises:
            CannotEncode: the columns are not those of the schema, a value does not fit its type, or
                the rows have 2 GiB or more.
        """
        columns = list(batch.columns)
        if len(columns) != len(self.struct.fields):
            reason = f"{len(columns)} columns in place of {len(self.struct.fields)}"
            raise CannotEncode(reason)
        data, offsets = encode_rows(self.struct, columns, batch.num_rows, prefix)
        return EncodedRows(data, offsets)


def compile_schema(schema: Any) -> RowCodec:
    """A codec for rows of a schema, which is the JSON of Spark's ``StructType``; UnknownType."""
    return codec_of(parse_struct(schema))


def codec_of(struct: Struct) -> RowCodec:
    """A codec for rows that are structs of a type."""
    return RowCodec(struct, pa.schema(list(arrow_type(struct))))
