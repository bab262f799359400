"""Encode the rows of tables as state: the work of one task of a bootstrap (``bootstrap_state``)."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flinkish.checkpoint.format.names import CANONICAL
from flinkish.engine.errors import EngineError
from flinkish.engine.migration.attempts import target_families
from flinkish.engine.migration.migration_plan import FamilyMigration, OperatorMigration
from flinkish.engine.migration.row_blocks import Packer, RowsDigest, digest_rows, family_salt
from flinkish.engine.migration.row_transforms import BlockTransform
from flinkish.engine.migration.store_tasks import ReadRows
from flinkish.engine.rows.arrow_parts import list_parts
from flinkish.engine.rows.binaries import Binaries
from flinkish.engine.rows.encodings import join_list
from flinkish.engine.rows.row_bytes import CannotEncode
from flinkish.engine.rows.row_codec import codec_of, compile_key
from flinkish.engine.rows.types import Array, DataType
from flinkish.engine.stores.files import StateTarget
from flinkish.engine.stores.store_rows import RowBlock
from flinkish.engine.tables.decoding import to_state
from flinkish.engine.tables.frames import StateTable, columns_of

_BLOCK_ROWS: Final = 10_000


@dataclass(frozen=True)
class Bootstrap:
    """The plan of a bootstrap, as plain data. Made by :func:`~.bootstrap_state.plan_bootstrap`.

    ``move`` is the operator's migration, from the template. ``attempts`` is a directory in the
    target for files that are not yet in their final place.
    """

    move: OperatorMigration
    target: StateTarget
    attempts: str

    @property
    def count(self) -> int:
        """The number of partitions of all stores; reports get it as their target number."""
        return self.move.partitions * len(self.move.targets)

    def place(self, number: int) -> tuple[str, int]:
        """Return the store and the partition of a target number."""
        return (
            self.move.targets[number // self.move.partitions],
            number % self.move.partitions,
        )


@dataclass(frozen=True)
class EncodeRows:
    """A task that encodes batches with the columns ``key`` and ``value`` as packed batches of rows.

    Each packed batch comes with the number of its target partition. The last item reports the rows
    encoded; its number is the one after the last partition.
    """

    job: Bootstrap
    table: StateTable

    def __call__(self, batches: Iterable[Any]) -> Iterator[tuple[int, bytes]]:
        """Encode batches; raise CannotEncode if a row cannot be encoded."""
        move = self.job.move
        store, family = _way(move, self.table)
        first = move.targets.index(store) * move.partitions
        place = target_families(move, store).index(family.target)
        # Rows already have the new form; the transform only assigns their partitions.
        same = FamilyMigration(
            family.target, family.target, family.after, family.after, family.partition_by
        )
        arrange = BlockTransform(
            same,
            move.partitions,
            self.table.name,
            interval_days=move.interval_days,
            lists=self.table.lists and not family.after.framed,
            canonical=move.backend == CANONICAL,
        )
        salt = family_salt(store, family.target)
        packer = Packer()
        total = RowsDigest()
        for batch in batches:
            for at in range(0, batch.num_rows, _BLOCK_ROWS):
                keys, values = encode_batch(self.table, family, batch.slice(at, _BLOCK_ROWS))
                framed = family.after.framed
                moved = arrange(RowBlock(family.target, keys, values, framed))
                total += digest_rows(moved.keys, moved.values, salt)
                yield from packer.add(first, place, moved.keys, moved.values, moved.partitions)
        yield from packer.finish()
        yield self.job.count, pickle.dumps(ReadRows(0, store, total))


def _way(move: OperatorMigration, table: StateTable) -> tuple[str, FamilyMigration]:
    for store in move.stores:
        for family in store.families:
            if (store.source, family.source) == (table.store.name, table.family.name):
                return store.target, family
    raise EngineError(f"the migration does not contain the state {table.name!r}")


def encode_batch(
    table: StateTable, family: FamilyMigration, batch: Any
) -> tuple[Binaries, Binaries]:
    """Encode a batch's keys and values as in state files; raise CannotEncode if impossible."""
    form = family.after
    keys, values = (batch.column(batch.schema.get_field_index(n)) for n in ("key", "value"))
    for name, column in (("key", keys), ("value", values)):
        if column.null_count:
            raise CannotEncode(f"a {name} for the state {table.name!r} is null")
    key_codec = compile_key(form.key, form.encoder)
    encoded = key_codec.encode(_columns(keys, key_codec.whole.struct), framed=form.framed)
    codec = codec_of(table.state_value)
    if not table.lists:
        prefix = b"\x00" if form.framed else b""
        return encoded, codec.encode(_columns(values, codec.struct), prefix=prefix)
    state = to_state(values, Array(table.state_value))
    offsets, elements = list_parts(state)
    if (np.diff(offsets) == 0).any() or elements.null_count:
        raise CannotEncode(f"a list for the state {table.name!r} is empty, or has a null in it")
    rows = codec.encode(columns_of(elements)).rows()
    ends = offsets.tolist()
    lists = [join_list(rows[a:b]) for a, b in itertools.pairwise(ends)]
    return encoded, Binaries.of(lists)


def _columns(array: Any, struct: DataType) -> Any:
    return columns_of(to_state(array, struct))
