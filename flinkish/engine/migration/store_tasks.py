"""The work of one task: read or write a partition of a store, and verify what was written."""

from __future__ import annotations

import errno
import functools
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from flinkish.checkpoint.format.names import CANONICAL, HDFS
from flinkish.engine.errors import EngineError, LostRows
from flinkish.engine.migration.join_regrouping import regrouped
from flinkish.engine.migration.migration_plan import (
    FamilyMigration,
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
from flinkish.engine.stores.canonical import read_canonical, read_rows, write_canonical
from flinkish.engine.stores.canonical_families import CanonicalFamily, list_families
from flinkish.engine.stores.checkpoints import OperatorState, StoreState, store_files
from flinkish.engine.stores.files import StateSource, StateTarget, StoreFiles
from flinkish.engine.stores.rocksdb_writer import NO_FAMILIES, family_prefix
from flinkish.engine.stores.rocksdb_writer import write_pieces as write_snapshot_pieces
from flinkish.engine.stores.store_rows import DEFAULT_FAMILY, RowBlock, read_store
from flinkish.engine.stores.writers import write_records


@dataclass(frozen=True)
class WrittenStore:
    """One store of one partition of the new state, not yet in its final place.

    ``move`` is the index of its operator among the migrations. ``attempt`` is the directory that it
    was written to, relative to the target. ``unique_id`` is the id in its file's name; None in
    checkpoint format 1. ``digest`` is of its rows, as read back from the files. ``size`` is in
    bytes.
    """

    move: int
    store: str
    partition: int
    attempt: str
    unique_id: str | None
    digest: RowsDigest
    size: int


@dataclass(frozen=True)
class ReadRows:
    """A task's report of the rows it read; the digest is that of the rows in their new form."""

    move: int
    store: str
    digest: RowsDigest


class Attempt:
    """The files of a store of one partition, in a directory of their own until all are verified.

    A retried task writes into another directory: files that a failed attempt has left, or still
    writes, are never read. ``attempts`` is the directory of all.
    """

    def __init__(self, target: StateTarget, attempts: str, move: OperatorMigration) -> None:
        self.target = target
        self.directory = f"{attempts}/{uuid.uuid4()}"
        self.unique_id = str(uuid.uuid4()) if move.unique_ids else None
        version = move.operator.version
        #: That of the main file, without its ending.
        self.name = f"{version}_{self.unique_id}" if self.unique_id else str(version)
        self._paths: list[str] = []

    def create(self, name: str) -> BinaryIO:
        """Create a file."""
        self._paths.append(name)
        return self.target.create(f"{self.directory}/{name}")

    def adopt(self, path: str, name: str) -> bool:
        """Move a local file here if the target is on the same file system; return whether it is."""
        local = self.target.local_path(f"{self.directory}/{name}")
        if local is None:
            return False
        os.makedirs(os.path.dirname(local), exist_ok=True)
        try:
            os.rename(path, local)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            return False
        self._paths.append(name)
        return True

    def read_back(self, index: int, move: OperatorMigration, store: str, partition: int, rows:
                  int | None = None) -> WrittenStore:  # fmt: skip
        """Read what was written, all of it, and return its digest.

        ``index`` is the operator's among the migrations, ``rows`` how many were written, where that
        is known. Raises LostRows if there are others.
        """
        names = target_families(move, store)
        families = move.families.get(store, NO_FAMILIES)
        canonical = canonical_families(move, store) if move.backend == CANONICAL else []
        written = self._files(move)
        digest = RowsDigest()
        for block in read_canonical(written, canonical) if canonical else read_store(written):
            # The one family of a store without families may have any name in one that has some.
            alone = block.family == DEFAULT_FAMILY and not families.ids
            values = delimited(block.values) if move.delimiter else block.values
            salt = family_salt(store, names[0] if alone else block.family)
            digest += digest_rows(block.keys, values, salt)
        if rows is not None and rows != digest.rows:
            raise LostRows(
                f"the partition {partition} of the operator {move.ordinal} ({store}) has "
                f"{digest.rows:,} rows, where {rows:,} were written: a key is there twice"
            )
        size = sum(_size(self.target, f"{self.directory}/{path}") for path in self._paths)
        return WrittenStore(index, store, partition, self.directory, self.unique_id, digest, size)

    def _files(self, move: OperatorMigration) -> StoreFiles:
        return StoreFiles(
            names=tuple(self.target.names(self.directory)),
            version=move.operator.version,
            open=functools.partial(_open_in, self.target, self.directory),
            backend=move.backend,
            unique_id=self.unique_id,
            compression=move.compression,
            local_path=functools.partial(_local_in, self.target, self.directory),
        )


def moved_rows(
    source: StateSource, move: OperatorMigration, store: StoreMigration, partition: int
) -> Iterator[tuple[int, Binaries, Binaries, Any]]:
    """Yield the rows of a partition of a store in their new form.

    A block is (index of the family's migration, keys, values, the partition of each row or None).
    """
    state = store_of(move.operator, store.source)
    files = store_files(source, move.operator, partition, state)
    yield from transformed(read_rows(files, move.operator, state), move, store, partition)


def transformed(
    blocks: Iterable[RowBlock], move: OperatorMigration, store: StoreMigration, partition: int
) -> Iterator[tuple[int, Binaries, Binaries, Any]]:
    """Yield rows in their new form; see :func:`moved_rows`. ``partition`` is for errors."""
    state = store_of(move.operator, store.source)
    name = f"{move.operator.directory}/{partition}/{state.directory}"
    moves = store.by_family
    transforms: dict[str, BlockTransform] = {}
    partitions = move.partitions if move.moved else None
    lists = list_families(move.operator, state)
    wanted = (block for block in blocks if block.family in moves)
    for block in regrouped(wanted, store, name):
        place, family = moves[block.family]
        if block.family not in transforms:
            transforms[block.family] = BlockTransform(
                family,
                partitions,
                name,
                interval_days=move.interval_days,
                lists=_is_list(family, lists),
                canonical=move.backend == CANONICAL,
            )
        moved = transforms[block.family](block)
        yield place, moved.keys, moved.values, moved.partitions


def _is_list(family: FamilyMigration, lists: frozenset[str]) -> bool:
    """Return whether a family's new values are lists; ``lists`` are the old families with lists."""
    return family.source in lists if family.regroup is None else family.regroup.lists


def read_pieces(
    source: StateSource,
    index: int,
    move: OperatorMigration,
    store: StoreMigration,
    partition: int,
    first: int,
) -> Iterator[PackedRows | ReadRows]:
    """Read a partition of a store and yield its rows in batches for their target partitions.

    ``first`` is the number of the target's first partition. The last item reports what was read.
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


def target_families(move: OperatorMigration, store: str) -> list[str]:
    """Return the families of a new store that get rows, in the same order for all tasks."""
    names = [f.target for s in move.stores if s.target == store for f in s.families]
    return list(dict.fromkeys(names))


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
    operator's among the migrations. The indexes of families in ``rows`` are those in
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
            _prefixed(_delimited(rows, move.delimiter), family_numbers(move, store)),
            attempt.create,
            f"{attempt.name}.zip",
            families=families,
            with_families=bool(families.ids),
            version=move.archive,
        )
    return attempt.read_back(index, move, store, partition)


def family_numbers(move: OperatorMigration, store: str) -> list[int | None]:
    """Return the ids of a new store's families, in the order of :func:`target_families`."""
    families = move.families.get(store, NO_FAMILIES)
    names = target_families(move, store)
    return [families.ids.get(name) if families.ids else None for name in names]


def canonical_families(move: OperatorMigration, store: str) -> list[CanonicalFamily]:
    """Return the families of a new canonical store, in the order of :func:`target_families`."""
    families = move.families.get(store, NO_FAMILIES)
    by_name: dict[str, CanonicalFamily] = {}
    for source in move.stores:
        lists = list_families(move.operator, store_of(move.operator, source.source))
        for family in source.families if source.target == store else ():
            canonical = CanonicalFamily(
                store=store,
                name=family.target if families.ids else DEFAULT_FAMILY,
                key=family.after.key,
                value=family.after.value,
                encoder=family.after.encoder,
                lists=_is_list(family, lists),
                internal=family.target in families.internal,
            )
            by_name.setdefault(family.target, canonical)
    return list(by_name.values())


def _plain(rows: Iterable[Rows]) -> Iterator[tuple[bytes, bytes]]:
    for _, keys, values in in_lists(rows):
        yield from zip(keys, values, strict=True)


def _prefixed(
    rows: Iterable[Rows], numbers: Sequence[int | None]
) -> Iterator[tuple[int | None, Any, Any]]:
    """Yield rows with keys prefixed by the ids of their families, where there are any."""
    nothing = pa.scalar(b"", pa.large_binary())
    for place, keys, values in rows:
        number = numbers[place]
        if number is not None:
            prefix = pa.scalar(family_prefix(number), pa.large_binary())
            joined = pc.binary_join_element_wise(prefix, Binaries.of(keys).to_arrow(), nothing)
            yield number, Binaries.from_arrow(joined), values
        else:
            yield number, keys, values


def _delimited(rows: Iterable[Rows], delimiter: bytes) -> Iterable[Rows]:
    """Return rows with the delimiter Spark expects between records of lists; the input has none."""
    if not delimiter:
        return rows
    return (
        (place, Binaries.of(keys), delimited(values, delimiter))
        for place, keys, values in in_lists(rows)
    )


def _open_in(target: StateTarget, directory: str, name: str) -> BinaryIO:
    return target.open(f"{directory}/{name}")


def _local_in(target: StateTarget, directory: str, name: str) -> str | None:
    return target.local_path(f"{directory}/{name}")


def _size(target: StateTarget, path: str) -> int:
    with target.open(path) as file:
        return file.seek(0, 2)


def store_of(operator: OperatorState, name: str) -> StoreState:
    """Return an operator's store by its name; EngineError when it has none of that name."""
    for store in operator.stores:
        if store.name == name:
            return store
    raise EngineError(f"the operator {operator.ordinal} has no store {name!r}")
