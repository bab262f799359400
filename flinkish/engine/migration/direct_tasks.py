"""Rows that keep their order: from the old partitions to the new ones as sorted files, unshuffled.

RocksDB returns rows in key order, and a key that keeps its bytes keeps its place in that order. A
task reads some old partitions, merged, and writes a file for each new partition that has rows of
them. A task for each new partition makes a database of its files: RocksDB ingests them as they are.
Nothing is sorted, nor sent row by row. :class:`~.migration_plan.OperatorMigration` decides which
rows take this way.

The files are in the target, below the directory of attempts, because the two tasks may run on
different machines. They stay until the end, so that a task can be repeated.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flinkish.engine.migration.migration_plan import OperatorMigration, StoreMigration
from flinkish.engine.migration.row_blocks import RowsDigest, digest_rows, family_salt
from flinkish.engine.migration.store_tasks import (
    Attempt,
    ReadRows,
    WrittenStore,
    family_numbers,
    store_of,
    target_families,
    transformed,
)
from flinkish.engine.rows.binaries import Binaries
from flinkish.engine.rows.encodings import delimited
from flinkish.engine.stores.checkpoints import store_files
from flinkish.engine.stores.files import StateSource, StateTarget
from flinkish.engine.stores.rocksdb import make_scratch, remove_scratch
from flinkish.engine.stores.rocksdb_writer import (
    NO_FAMILIES,
    SortedRows,
    family_prefix,
    write_runs,
)
from flinkish.engine.stores.store_rows import open_merged


@dataclass(frozen=True)
class SortedRun:
    """Rows of one store for one new partition, in key order.

    ``move`` is the index of the operator among the migrations. ``files`` are relative to the
    target, and do not overlap. ``counts`` are the rows by family id.
    """

    move: int
    store: str
    partition: int
    files: tuple[str, ...]
    counts: dict[int | None, int]


def write_sorted(
    source: StateSource,
    target: StateTarget,
    attempts: str,
    index: int,
    move: OperatorMigration,
    store: StoreMigration,
    partitions: Sequence[int],
) -> Iterator[SortedRun | ReadRows]:
    """Read old partitions of a store, and write their rows as files for the new partitions.

    ``attempts`` is the directory for files that are not yet in their final place, ``index`` the
    operator's among the migrations. The last item reports what was read.
    """
    state = store_of(move.operator, store.source)
    stores = [store_files(source, move.operator, number, state) for number in partitions]
    total = RowsDigest()
    with open_merged(stores) as opened:
        for blocks in opened:
            with _Local(target, f"{attempts}/{uuid.uuid4()}") as local:
                writers: dict[int, SortedRows] = {}
                for place, keys, values, new in transformed(blocks, move, store, partitions[0]):
                    family = store.families[place].target
                    parts = _Parts(keys, values, new, partitions[0])
                    salt = family_salt(store.target, family)
                    total += digest_rows(parts.keys, parts.values, salt)
                    _put(local, writers, move, store.target, family, parts)
                for partition, writer in writers.items():
                    writer.finish()
                    files = tuple(local.placed(os.path.basename(path)) for path in writer.files)
                    yield SortedRun(index, store.target, partition, files, writer.counts)
    yield ReadRows(index, store.target, total)


class _Parts:
    """A block's rows in the order of their new partitions, and else as they were."""

    def __init__(self, keys: Binaries, values: Binaries, new: Any, old: int) -> None:
        if new is None or not len(keys):  # all rows keep their partition
            self.keys, self.values = keys.rows(), values.rows()
            self.partitions, self.starts = [old], [0]
            return
        # Radix sort, for numbers of 16 bits.
        narrow = np.uint16 if int(new.max()) < 1 << 16 else np.int32
        order = np.argsort(new.astype(narrow), kind="stable")
        present, starts = np.unique(new[order], return_index=True)
        places = order.tolist()
        self.keys, self.values = keys.take(places), values.take(places)
        self.partitions, self.starts = present.tolist(), starts.tolist()


def _put(
    local: _Local,
    writers: dict[int, SortedRows],
    move: OperatorMigration,
    store: str,
    family: str,
    parts: _Parts,
) -> None:
    """Give the rows of a block to the writers of their new partitions."""
    number = family_numbers(move, store)[target_families(move, store).index(family)]
    keys, values = parts.keys, parts.values
    if number is not None:
        prefix = family_prefix(number)
        keys = [prefix + key for key in keys]
    if move.delimiter:
        values = delimited(values, move.delimiter).rows()
    ends = [*parts.starts[1:], len(keys)]
    for partition, start, end in zip(parts.partitions, parts.starts, ends, strict=True):
        writer = writers.get(partition)
        if writer is None:
            writer = writers[partition] = SortedRows(local.path(str(partition)))
        writer.add(number, keys[start:end], values[start:end])


class _Local:
    """A local directory for files that are to be in a directory of the target."""

    def __init__(self, target: StateTarget, directory: str) -> None:
        self._target = target
        self._directory = directory
        self._scratch: str | None = None
        self._path = target.local_path(directory)

    def __enter__(self) -> _Local:
        if self._path is None:
            self._path = self._scratch = make_scratch()
        else:
            os.makedirs(self._path, exist_ok=True)
        return self

    def path(self, name: str) -> str:
        """Return the local path for a file."""
        assert self._path is not None
        return os.path.join(self._path, name)

    def placed(self, name: str) -> str:
        """Put a complete file into the target; return its path there."""
        path = f"{self._directory}/{name}"
        if self._scratch is not None:
            with open(self.path(name), "rb") as file, self._target.create(path) as copy:
                shutil.copyfileobj(file, copy, 1 << 20)
            os.unlink(self.path(name))
        return path

    def __exit__(self, *_: object) -> None:
        if self._scratch is not None:
            remove_scratch(self._scratch)


def gather_store(
    target: StateTarget,
    attempts: str,
    index: int,
    move: OperatorMigration,
    store: str,
    partition: int,
    runs: Sequence[SortedRun],
) -> WrittenStore:
    """Write a partition of a new store from its files, and read it back.

    Raises LostRows if a key is in two of the files.
    """

    def bring(file: str, path: str) -> None:
        local = target.local_path(file)
        if local is not None:
            try:
                os.link(local, path)
            except OSError:  # another file system, or one without links
                shutil.copyfile(local, path)
            return
        with target.open(file) as source, open(path, "xb") as copy:
            shutil.copyfileobj(source, copy, 1 << 20)

    attempt = Attempt(target, attempts, move)
    families = move.families.get(store, NO_FAMILIES)
    counts: Counter[int | None] = Counter()
    for run in runs:
        counts.update(run.counts)
    rows = write_runs(
        [run.files for run in runs],
        counts,
        bring,
        attempt.create,
        f"{attempt.name}.zip",
        families=families,
        with_families=bool(families.ids),
        version=move.archive,
        adopt=attempt.adopt,
    )
    return attempt.read_back(index, move, store, partition, rows)
