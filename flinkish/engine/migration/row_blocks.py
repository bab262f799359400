"""Rows on their way to another partition: batches as Arrow IPC streams, and their digests.

A shuffle of single rows would cost more than everything else together. Spark shuffles batches, each
with rows of one family for one partition.

A rewrite is verified by counts and digests that do not depend on the order of rows. There are two
digests, each a sum modulo 2^64 of 64-bit xxHashes (XXH3): one of the keys' hashes, and one of the
values' hashes, each with the hash of its key as the seed. Equal sets of rows have equal digests
regardless of their partitions, and a row that is lost, duplicated or changed makes them differ. A
digest is no defence against deliberate collisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import xxhash

from flinkish.engine.rows.arrow_parts import MAX_ROWS
from flinkish.engine.rows.binaries import Binaries

#: Rows are held back up to this many bytes, so that batches are large.
MAX_HELD_BYTES: Final = 48 << 20
_ROW_OVERHEAD: Final = 8
_SCHEMA: Final = pa.schema([("key", pa.large_binary()), ("value", pa.large_binary())])
#: (number of the target partition, packed batch of rows)
PackedRows = tuple[int, bytes]
#: (index of the family, keys, values) of rows in their new form.
Rows = tuple[int, Sequence[bytes], Sequence[bytes]]


def by_partition(partitions: Any) -> tuple[Any, list[tuple[int, int, int]]]:
    """Return the order of rows by partition, and where the rows of each partition are in it.

    The order is None if all rows are in one partition, so that they stay where they are. The parts
    are (partition, start, end). Rows of one partition keep their relative order.
    """
    new = np.asarray(partitions)
    if not len(new):
        return None, []
    # NumPy has a radix sort for numbers of 16 bits.
    narrow = np.uint16 if int(new.max()) < 1 << 16 else np.int32
    order = np.argsort(new.astype(narrow), kind="stable")
    present, starts = np.unique(new[order], return_index=True)
    ends = [*starts[1:].tolist(), len(new)]
    parts = list(zip(present.tolist(), starts.tolist(), ends, strict=True))
    return order if len(parts) > 1 else None, parts


@dataclass
class Packer:
    """Collects rows by target partition and family, and packs them when it holds enough.

    Use it within one task: ``add`` yields batches that are due, ``finish`` yields the rest.
    """

    _held: dict[tuple[int, int], list[Any]] = field(default_factory=dict)
    _bytes: int = 0

    def add(
        self, first: int, family: int, keys: Binaries, values: Binaries, partitions: Any
    ) -> Iterator[PackedRows]:
        """Add rows.

        ``first`` is the number of the target store's partition 0 among all partitions of the job;
        the others follow. ``family`` is the index of the rows' family in its store. ``partitions``
        has the partition of each row.
        """
        order, parts = by_partition(partitions)
        columns = [part.to_arrow() for part in (keys, values)]
        batch = pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
        if order is not None:
            batch = batch.take(pa.array(order))
        for partition, start, end in parts:
            held = self._held.setdefault((first + partition, family), [])
            held.append(batch.slice(start, end - start))
        self._bytes += batch.nbytes + _ROW_OVERHEAD * len(keys)
        if self._bytes >= MAX_HELD_BYTES:
            yield from self.finish()

    def finish(self) -> Iterator[PackedRows]:
        """Yield all rows that are held."""
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
    """Yield the rows of a batch, with the index of their family."""
    with pa.ipc.open_stream(piece) as stream:
        family = int(stream.schema.metadata[b"family"])
        for batch in stream:
            keys, values = (Binaries.from_arrow(batch.column(place)) for place in range(2))
            yield family, keys, values


def in_lists(rows: Iterable[Rows]) -> Iterator[tuple[int, list[bytes], list[bytes]]]:
    """Yield rows with keys and values as lists of bytes, a bounded number at a time."""
    for place, keys, values in rows:
        for start in range(0, len(keys), MAX_ROWS):
            part = slice(start, start + MAX_ROWS)
            yield place, Binaries.of(keys[part]).rows(), Binaries.of(values[part]).rows()


_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class RowsDigest:
    """Count and digests of a set of rows.

    ``keys`` is the digest of the keys, ``content`` that of keys and values.
    """

    rows: int = 0
    keys: int = 0
    content: int = 0

    def __add__(self, other: RowsDigest) -> RowsDigest:
        return RowsDigest(
            self.rows + other.rows,
            (self.keys + other.keys) & _MASK,
            (self.content + other.content) & _MASK,
        )

    def to_json(self) -> dict[str, str | int]:
        """Return the form for metadata: digests as 16 hexadecimal digits."""
        return {"rows": self.rows, "keys": f"{self.keys:016x}", "content": f"{self.content:016x}"}


def digest_rows(keys: Sequence[bytes], values: Iterable[bytes], salt: int = 0) -> RowsDigest:
    """Return the digest of rows.

    ``salt`` seeds the key hashes and separates rows of different families.
    """
    one = xxhash.xxh3_64_intdigest
    hashes = [one(key, salt) for key in keys]
    content = sum(map(one, values, hashes))
    return RowsDigest(len(hashes), sum(hashes) & _MASK, content & _MASK)


def sum_digests(digests: Iterable[RowsDigest]) -> RowsDigest:
    """Return the digest of several sets of rows together."""
    total = RowsDigest()
    for digest in digests:
        total += digest
    return total


def family_salt(store: str, family: str) -> int:
    """Return the salt of a column family's rows."""
    return xxhash.xxh3_64_intdigest(f"{store}/{family}".encode())
