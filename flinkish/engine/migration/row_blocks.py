"""Rows on their way to another partition: many in one piece, as Arrow's IPC stream.

A shuffle of single rows costs more than all else together; what Spark shuffles is a piece of rows
of one family for one partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

from flinkish.engine.rows.batches import MAX_ROWS

#: Rows are held back up to this many bytes, so that pieces are large.
MAX_HELD_BYTES: Final = 48 << 20
_ROW_OVERHEAD: Final = 8
_SCHEMA: Final = pa.schema([("key", pa.large_binary()), ("value", pa.large_binary())])
#: (the target's index, the piece)
Piece = tuple[int, bytes]
#: (place of the family's move, keys, values) of rows as the new state has them; keys and values are
#: lists of bytes, or Arrow's arrays of large binaries.
Rows = tuple[int, Any, Any]


@dataclass
class Packer:
    """Collects rows by where they go, and gives pieces of them when it holds enough.

    Use it in one task: ``add`` gives what has to leave, ``finish`` the rest.
    """

    _held: dict[tuple[int, int], list[Any]] = field(default_factory=dict)
    _bytes: int = 0

    def add(
        self, first: int, family: int, keys: list[bytes], values: list[bytes], partitions: Any
    ) -> Iterator[Piece]:
        """Add rows.

        Args:
            first: the index of the target's partition 0; those of the others follow.
            family: the place of the rows' family among its store's moves.
            keys, values: the rows.
            partitions: the partition of each.
        """
        order = np.argsort(partitions, kind="stable")
        arranged = np.asarray(partitions)[order]
        columns = [
            pa.array(keys, pa.large_binary()).take(pa.array(order)),
            pa.array(values, pa.large_binary()).take(pa.array(order)),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
        found, starts = np.unique(arranged, return_index=True)
        ends = [*starts[1:].tolist(), len(arranged)]
        for partition, start, end in zip(found.tolist(), starts.tolist(), ends, strict=True):
            held = self._held.setdefault((first + partition, family), [])
            held.append(batch.slice(start, end - start))
        self._bytes += batch.nbytes + _ROW_OVERHEAD * len(keys)
        if self._bytes >= MAX_HELD_BYTES:
            yield from self.finish()

    def finish(self) -> Iterator[Piece]:
        """Everything that is held."""
        for (target, family), batches in self._held.items():
            yield target, _pack(family, batches)
        self._held.clear()
        self._bytes = 0


def _pack(family: int, batches: list[Any]) -> bytes:
    sink = pa.BufferOutputStream()
    schema = _SCHEMA.with_metadata({"family": str(family)})
    table = pa.Table.from_batches(batches).combine_chunks()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_table(table.replace_schema_metadata(schema.metadata))
    return bytes(sink.getvalue())


def unpack(piece: bytes) -> Iterator[Rows]:
    """The place of the family, the keys and the values in a piece, as Arrow's arrays."""
    with pa.ipc.open_stream(piece) as stream:
        family = int(stream.schema.metadata[b"family"])
        for batch in stream:
            yield family, batch.column(0), batch.column(1)


def in_lists(rows: Iterable[Rows]) -> Iterator[tuple[int, list[bytes], list[bytes]]]:
    """Rows whose keys and values are lists of bytes, a bounded number at a time."""
    for place, keys, values in rows:
        if isinstance(keys, list):
            yield place, keys, values
            continue
        for start in range(0, len(keys), MAX_ROWS):
            part = slice(start, start + MAX_ROWS)
            yield place, keys[part].to_pylist(), values[part].to_pylist()
