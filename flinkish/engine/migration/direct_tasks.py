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

import contextlib
import os
import shutil
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from flinkish.engine.migration.attempts import (
    Attempt,
    WrittenStore,
    native_functions,
    store_of,
    target_families,
)
from flinkish.engine.migration.migration_plan import OperatorMigration, StoreMigration
from flinkish.engine.migration.row_blocks import RowsDigest, digest_rows, family_salt
from flinkish.engine.migration.store_tasks import ReadRows, family_numbers, transformed
from flinkish.engine.rows.binaries import Binaries
from flinkish.engine.rows.encodings import delimited
from flinkish.engine.stores.checkpoints import store_files
from flinkish.engine.stores.files import StateSource, StateTarget
from flinkish.engine.stores.native import Files, NativeError, digest
from flinkish.engine.stores.rocksdb import make_scratch, remove_scratch
from flinkish.engine.stores.rocksdb_writer import NO_FAMILIES, write_runs
from flinkish.engine.stores.sst_files import MAX_RUN_BYTES, SortedRows, family_prefix
from flinkish.engine.stores.store_rows import open_merged
from flinkish.storage.deletion import remove_file


@dataclass(frozen=True)
class SortedRun:
    """Rows of one store for one new partition, in key order.

    ``move`` is the index of the operator among the migrations. ``files`` are relative to the
    target, and do not overlap. ``counts`` are the rows by family id. ``native`` files were written
    by :mod:`~flinkish.engine.stores.native`.
    """

    move: int
    store: str
    partition: int
    files: tuple[str, ...]
    counts: dict[int | None, int]
    native: bool


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
    rewrite = (source, target, attempts, index, move, store, partitions)
    functions = native_functions(move, store.target)
    if functions is not None:
        # The binding reads what the native functions cannot, and says what is damaged.
        with contextlib.suppress(NativeError):
            yield from list(_written(functions, *rewrite))
            return
    yield from _written(None, *rewrite)


def _written(
    functions: Any,
    source: StateSource,
    target: StateTarget,
    attempts: str,
    index: int,
    move: OperatorMigration,
    store: StoreMigration,
    partitions: Sequence[int],
) -> Iterator[SortedRun | ReadRows]:
    state = store_of(move.operator, store.source)
    stores = [store_files(source, move.operator, number, state) for number in partitions]
    numbers = dict(
        zip(target_families(move, store.target), family_numbers(move, store.target), strict=True)
    )
    total = RowsDigest()
    with open_merged(stores, functions) as opened:
        for blocks in opened:
            with contextlib.ExitStack() as stack:
                local = stack.enter_context(_Local(target, f"{attempts}/{uuid.uuid4()}"))
                sorter: _Sorter | _NativeSorter
                if functions is None:
                    sorter = _Sorter(local)
                else:
                    sorter = _NativeSorter(local, functions, move)
                stack.callback(sorter.close)
                for place, keys, values, new in transformed(blocks, move, store, partitions[0]):
                    family = store.families[place].target
                    if new is None:  # all rows keep their partition
                        new = np.full(len(keys), partitions[0], np.int32)
                    salt = family_salt(store.target, family)
                    block = _Block(numbers[family], keys, values, move.delimiter, new)
                    total += sorter.put(block, salt)
                for partition, run in sorter.finished():
                    files = tuple(local.placed(os.path.basename(path)) for path in run.files)
                    yield SortedRun(
                        index, store.target, partition, files, run.counts, functions is not None
                    )
    yield ReadRows(index, store.target, total)


@dataclass(frozen=True)
class _Block:
    """Rows of a family: its id, keys without it, values without delimiters in lists, partitions."""

    family: int | None
    keys: Binaries
    values: Binaries
    delimiter: bytes
    partitions: Any

    @property
    def prefix(self) -> bytes:
        return b"" if self.family is None else family_prefix(self.family)


class _Sorter:
    """Writes the rows of blocks into files of their partitions, by RocksDB's binding."""

    def __init__(self, local: _Local) -> None:
        self._local = local
        self._writers: dict[int, SortedRows] = {}

    def put(self, block: _Block, salt: int) -> RowsDigest:
        """Write a block, and return the digest of its rows."""
        present, starts, keys, values = _by_partition(block)
        digest = digest_rows(keys, values, salt)
        prefix = block.prefix
        if prefix:
            keys = [prefix + key for key in keys]
        if block.delimiter:
            values = delimited(values, block.delimiter).rows()
        ends = [*starts[1:], len(keys)]
        for partition, start, end in zip(present, starts, ends, strict=True):
            writer = self._writers.get(partition)
            if writer is None:
                writer = self._writers[partition] = SortedRows(self._local.path(str(partition)))
            writer.add(block.family, keys[start:end], values[start:end])
        return digest

    def finished(self) -> Iterator[tuple[int, SortedRows]]:
        """Complete the files, and yield those of each partition."""
        for partition, writer in self._writers.items():
            writer.finish()
            yield partition, writer

    def close(self) -> None:
        """Leave incomplete files: they are removed with their directory."""


def _by_partition(block: _Block) -> tuple[list[int], list[int], list[bytes], list[bytes]]:
    """Return the partitions, where the rows of each begin, and the rows in that order."""
    new = block.partitions
    if not len(new):
        return [], [], [], []
    # NumPy has a radix sort for numbers of 16 bits.
    narrow = np.uint16 if int(new.max()) < 1 << 16 else np.int32
    order = np.argsort(new.astype(narrow), kind="stable")
    present, starts = np.unique(new[order], return_index=True)
    if len(present) == 1:
        return present.tolist(), [0], block.keys.rows(), block.values.rows()
    places = order.tolist()
    return present.tolist(), starts.tolist(), block.keys.take(places), block.values.take(places)


class _NativeSorter:
    """As :class:`_Sorter`, by native functions."""

    def __init__(self, local: _Local, functions: Any, move: OperatorMigration) -> None:
        self._local = local
        self._functions = functions
        self._files = Files(functions, move.partitions)
        self._runs: dict[int, _NativeRun] = {}

    def put(self, block: _Block, salt: int) -> RowsDigest:
        """Write a block, and return the digest of its rows."""
        sums = digest(self._functions, block.keys, block.values, salt)
        counts = np.bincount(block.partitions)
        prefix = block.prefix
        for partition in np.flatnonzero(counts).tolist():
            run = self._runs.setdefault(partition, _NativeRun())
            full = self._files.size(partition) >= MAX_RUN_BYTES
            if not run.files or prefix < run.prefix or full:
                path = self._local.path(f"{partition}-{len(run.files)}.sst")
                self._files.open(partition, path)
                run.files.append(path)
            run.prefix = prefix
            run.counts[block.family] = run.counts.get(block.family, 0) + int(counts[partition])
        values = delimited(block.values, block.delimiter) if block.delimiter else block.values
        self._files.put(block.keys.prefixed(prefix), values, block.partitions)
        return RowsDigest(len(block.keys), *sums)

    def finished(self) -> Iterator[tuple[int, _NativeRun]]:
        """Complete the files, and yield those of each partition."""
        for partition, run in self._runs.items():
            self._files.finish(partition)
            yield partition, run

    def close(self) -> None:
        """Abandon incomplete files."""
        self._files.close()


@dataclass
class _NativeRun:
    """The files of a partition, the rows in them by family id, and the newest family's prefix."""

    files: list[str] = field(default_factory=list)
    counts: dict[int | None, int] = field(default_factory=dict)
    prefix: bytes = b""


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
            remove_file(self._scratch, name)
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
    written = attempt.read_back(index, move, store, partition, rows)
    return replace(written, native=written.native and all(run.native for run in runs))
