"""The work of one task: read a partition of a store, or write one from rows in any order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flinkish.checkpoint.format.names import CANONICAL, HDFS
from flinkish.engine.migration.attempts import (
    Attempt,
    WrittenStore,
    canonical_families,
    is_list,
    store_of,
    target_families,
)
from flinkish.engine.migration.join_regrouping import regrouped
from flinkish.engine.migration.migration_plan import (
    OperatorMigration,
    StoreMigration,
)
from flinkish.engine.migration.row_blocks import (
    PackedRows,
    Packer,
    Rows,
    RowsDigest,
    digest_rows,
    family_salt,
    in_lists,
    unpack,
)
from flinkish.engine.migration.row_transforms import BlockTransform
from flinkish.engine.rows.binaries import Binaries
from flinkish.engine.rows.encodings import delimited
from flinkish.engine.stores.canonical import read_rows, write_canonical
from flinkish.engine.stores.canonical_families import list_families
from flinkish.engine.stores.checkpoints import store_files
from flinkish.engine.stores.files import StateSource, StateTarget
from flinkish.engine.stores.rocksdb_writer import NO_FAMILIES
from flinkish.engine.stores.rocksdb_writer import write_pieces as write_snapshot_pieces
from flinkish.engine.stores.sst_files import family_prefix
from flinkish.engine.stores.store_rows import RowBlock
from flinkish.engine.stores.writers import write_records


@dataclass(frozen=True)
class ReadRows:
    """A task's report of the rows it read; the digest is that of the rows in their new form."""

    move: int
    store: str
    digest: RowsDigest


def moved_rows(
    source: StateSource, move: OperatorMigration, store: StoreMigration, partition: int
) -> Iterator[tuple[int, Binaries, Binaries, Any]]:
    """Yield the rows of a partition of a store in their new form.

    A block is (index of the family's migration, keys, values, the partition of each row or None).
    """
    state = store_of(move.operator, store.source)
    files = store_files(source, move.operator, partition, state)
    yield from transformed(read_rows(files, move.operator, state), move, store, (partition,))


def transformed(
    blocks: Iterable[RowBlock],
    move: OperatorMigration,
    store: StoreMigration,
    partitions: Sequence[int],
) -> Iterator[tuple[int, Binaries, Binaries, Any]]:
    """Yield rows in their new form; see :func:`moved_rows`.

    ``partitions`` are the old partitions that the ``blocks`` come from; errors name them all.
    """
    state = store_of(move.operator, store.source)
    where = ",".join(map(str, partitions))
    where = where if len(partitions) == 1 else f"{{{where}}}"  # like braces in a shell
    name = f"{move.operator.directory}/{where}/{state.directory}"
    moves = store.by_family
    transforms: dict[str, BlockTransform] = {}
    count = move.partitions if move.moved else None
    lists = list_families(move.operator, state)
    wanted = (block for block in blocks if block.family in moves)
    for block in regrouped(wanted, store, name):
        place, family = moves[block.family]
        if block.family not in transforms:
            transforms[block.family] = BlockTransform(
                family,
                count,
                name,
                interval_days=move.interval_days,
                lists=is_list(family, lists),
                canonical=move.backend == CANONICAL,
            )
        moved = transforms[block.family](block)
        yield place, moved.keys, moved.values, moved.partitions


def read_pieces(
    source: StateSource,
    index: int,
    move: OperatorMigration,
    store: StoreMigration,
    partition: int,
    first: int,
) -> Iterator[PackedRows | ReadRows]:
    """Read a partition of a store and yield its rows in batches for their target partitions.

    ``first`` is the number of the target store's first partition among all partitions of the job.
    The last item reports what was read.
    """
    packer = Packer()
    total = RowsDigest()
    for place, keys, values, partitions in moved_rows(source, move, store, partition):
        family = store.families[place].target
        total += digest_rows(keys, values, family_salt(store.target, family))
        yield from packer.add(first, _place_in_target(move, store, place), keys, values, partitions)
    yield from packer.finish()
    yield ReadRows(index, store.target, total)


def _place_in_target(move: OperatorMigration, store: StoreMigration, place: int) -> int:
    names = target_families(move, store.target)
    return names.index(store.families[place].target)


def write_pieces(
    target: StateTarget, attempts: str, index: int, move: OperatorMigration, store: str, partition:
    int, pieces: Iterable[bytes],
) -> WrittenStore:  # fmt: skip
    """Write a partition of a new store from the batches for it; see :func:`write_store`."""
    rows = (block for piece in pieces for block in unpack(piece))
    return write_store(target, attempts, index, move, store, partition, rows)


def write_store(
    target: StateTarget, attempts: str, index: int, move: OperatorMigration, store: str, partition:
    int, rows: Iterable[Rows],
) -> WrittenStore:  # fmt: skip
    """Write a partition of a new store into its own directory, and read it back.

    ``attempts`` is the directory for files that are not yet in their final place, ``index`` the
    operator's index among the migrations. The indexes of families in ``rows`` are those in
    :func:`target_families`.
    """
    attempt = Attempt(target, attempts, move)
    families = move.families.get(store, NO_FAMILIES)
    if move.backend == CANONICAL:
        canonical = canonical_families(move, store)
        version = move.operator.version
        write_canonical(in_lists(rows), attempt.create, canonical, version, codec=move.compression)
    elif move.backend == HDFS:
        with attempt.create(f"{attempt.name}.snapshot") as file:
            write_records(file, _plain(rows), move.compression)
    else:
        write_snapshot_pieces(
            _with_ids(_delimited(rows, move.delimiter), family_numbers(move, store)),
            attempt.create,
            f"{attempt.name}.zip",
            families=families,
            with_families=bool(families.ids),
            version=move.archive,
            adopt=attempt.adopt,
        )
    return replace(attempt.read_back(index, move, store, partition), native=False)


def family_numbers(move: OperatorMigration, store: str) -> list[int | None]:
    """Return the ids of a new store's families, in the order of :func:`target_families`."""
    families = move.families.get(store, NO_FAMILIES)
    names = target_families(move, store)
    return [families.ids.get(name) if families.ids else None for name in names]


def _plain(rows: Iterable[Rows]) -> Iterator[tuple[bytes, bytes]]:
    for _, keys, values in in_lists(rows):
        yield from zip(keys, values, strict=True)


def _with_ids(
    rows: Iterable[Rows], numbers: Sequence[int | None]
) -> Iterator[tuple[int | None, Any, Any]]:
    """Yield rows, with the family's id before each key if the store has families."""
    for place, keys, values in rows:
        number = numbers[place]
        if number is not None:
            keys = Binaries.of(keys).prefixed(family_prefix(number))
        yield number, keys, values


def _delimited(rows: Iterable[Rows], delimiter: bytes) -> Iterable[Rows]:
    """Return rows with the delimiter Spark expects between records of lists; ``rows`` have none."""
    if not delimiter:
        return rows
    return (
        (place, Binaries.of(keys), delimited(values, delimiter))
        for place, keys, values in in_lists(rows)
    )
