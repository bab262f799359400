"""Move rows that keep their order to new partitions as sorted files, without a shuffle.

RocksDB returns rows in key order, and a key that keeps its bytes keeps its place in that order. A
task reads some old partitions, merged, and writes a file for each new partition that gets rows from
them. A task for each new partition builds a database from its files: RocksDB ingests them as they
are. Nothing is sorted, or sent row by row. :class:`~.migration_plan.OperatorMigration` decides
which rows take this way.

The files are in the target, below the directory of attempts, because the two tasks may run on
different machines. They stay until the end, so that a task can be repeated. Where one task does
both steps, the files may be on its own disk instead (:func:`directory_of_runs`).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
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
from flinkish.engine.migration.row_blocks import (
    RowsDigest,
    by_partition,
    digest_rows,
    family_salt,
)
from flinkish.engine.migration.store_tasks import ReadRows, family_numbers, transformed
from flinkish.engine.rows.binaries import Binaries
from flinkish.engine.rows.encodings import delimited
from flinkish.engine.stores.checkpoints import store_files
from flinkish.engine.stores.files import LocalDirectory, StateSource, StateTarget
from flinkish.engine.stores.native import Files, NativeError, digest, tell_unused
from flinkish.engine.stores.rocksdb import make_scratch, remove_scratch
from flinkish.engine.stores.rocksdb_writer import NO_FAMILIES, write_runs
from flinkish.engine.stores.sst_files import MAX_RUN_BYTES, SortedRows, family_prefix
from flinkish.engine.stores.store_rows import RowBlock, open_merged
from flinkish.storage.deletion import remove_file


@dataclass(frozen=True)
class SortedRun:
    """Rows of one store for one new partition, in key order.

    ``move`` is the index of the operator among the migrations. ``files`` are relative to the
    target, and share no keys. ``counts`` are the numbers of rows by family id. ``native`` files
    were written by :mod:`~flinkish.engine.stores.native`.
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
    operator's index among the migrations. The last item reports what was read.
    """
    written = functools.partial(_written, source, index, move, store, partitions)
    functions = native_functions(move, store.target)
    if functions is not None:
        # The binding reads what the native functions cannot read, and reports what is damaged.
        try:
            with _Local(target, attempts) as local:
                results = list(written(local, functions))
        except NativeError as error:
            tell_unused(error)
        else:
            yield from results
            return
    with _Local(target, attempts) as local:
        yield from written(local, None)


def _written(
    source: StateSource,
    index: int,
    move: OperatorMigration,
    store: StoreMigration,
    partitions: Sequence[int],
    local: _Local,
    functions: Any,
) -> Iterator[SortedRun | ReadRows]:
    state = store_of(move.operator, store.source)
    stores = [store_files(source, move.operator, number, state) for number in partitions]
    total = RowsDigest()
    with open_merged(stores, functions) as opened:
        for blocks in opened:
            native = functions is not None
            sorter = _NativeSorter(local, functions, move) if native else _Sorter(local)
            with contextlib.closing(sorter):
                total += _sorted(blocks, sorter, move, store, partitions)
                for partition, run in sorter.finished():
                    files = tuple(map(local.placed, run.files))
                    yield SortedRun(index, store.target, partition, files, run.counts, native)
    yield ReadRows(index, store.target, total)


def _sorted(
    blocks: Iterator[RowBlock],
    sorter: _Sorter | _NativeSorter,
    move: OperatorMigration,
    store: StoreMigration,
    partitions: Sequence[int],
) -> RowsDigest:
    """Put rows in their new form into the files of their partitions; return their digest."""
    names, ids = target_families(move, store.target), family_numbers(move, store.target)
    numbers = dict(zip(names, ids, strict=True))
    total = RowsDigest()
    for place, keys, values, new in transformed(blocks, move, store, partitions):
        family = store.families[place].target
        if new is None:  # all rows keep their partition
            new = np.full(len(keys), partitions[0], np.int32)
        block = _Block(numbers[family], keys, values, move.delimiter, new)
        total += sorter.put(block, family_salt(store.target, family))
    return total


@dataclass(frozen=True)
class _Block:
    """A family's rows: its id, keys without the id, values, delimiter for lists, new partitions."""

    family: int | None
    keys: Binaries
    values: Binaries
    delimiter: bytes
    partitions: Any

    @property
    def prefix(self) -> bytes:
        return b"" if self.family is None else family_prefix(self.family)


class _Sorter:
    """Writes the rows of blocks into files of their partitions, with RocksDB's binding."""

    def __init__(self, local: _Local) -> None:
        self._local = local
        self._writers: dict[int, SortedRows] = {}

    def put(self, block: _Block, salt: int) -> RowsDigest:
        """Write a block, and return the digest of its rows."""
        order, parts = by_partition(block.partitions)
        keys, values = block.keys.rows(), block.values.rows()
        if order is not None:
            places = order.tolist()
            keys, values = block.keys.take(places), block.values.take(places)
        digest = digest_rows(keys, values, salt)
        prefix = block.prefix
        if prefix:
            keys = [prefix + key for key in keys]
        if block.delimiter:
            values = delimited(values, block.delimiter).rows()
        for partition, start, end in parts:
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
        """Leave incomplete files, which are removed with their directory."""


class _NativeSorter:
    """Like :class:`_Sorter`, with native functions, which know no delimiters."""

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
        self._files.put(block.keys.prefixed(prefix), block.values, block.partitions)
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
    """A partition's files, the number of rows by family id, and the prefix of the last family."""

    files: list[str] = field(default_factory=list)
    counts: dict[int | None, int] = field(default_factory=dict)
    prefix: bytes = b""


class _Local:
    """A local directory for files that go into a directory of the target.

    An error inside the ``with`` block removes that directory of the target. A scratch directory is
    always removed.
    """

    def __init__(self, target: StateTarget, attempts: str) -> None:
        self._target = target
        self._directory = f"{attempts}/{uuid.uuid4()}"
        self._scratch: str | None = None
        self._path = target.local_path(self._directory)
        self._numbers = itertools.count()

    def __enter__(self) -> _Local:
        if self._path is None:
            self._path = self._scratch = make_scratch()
        else:
            os.makedirs(self._path, exist_ok=True)
        return self

    def path(self, name: str) -> str:
        """Return a new local path for a file; its name ends with ``name``."""
        assert self._path is not None
        return os.path.join(self._path, f"{next(self._numbers)}-{name}")

    def placed(self, local: str) -> str:
        """Put the complete file at a local path into the target; return its path in the target."""
        name = os.path.basename(local)
        path = f"{self._directory}/{name}"
        if self._scratch is not None:
            with open(local, "rb") as file, self._target.create(path) as copy:
                shutil.copyfileobj(file, copy, 1 << 20)
            remove_file(self._scratch, name)
        return path

    def __exit__(self, error: object, *_: object) -> None:
        if self._scratch is not None:
            remove_scratch(self._scratch)
        if error is not None:
            self._target.remove(self._directory)


@contextlib.contextmanager
def directory_of_runs(target: StateTarget, attempts: str) -> Iterator[StateTarget]:
    """Yield a directory on this machine's disk for sorted files between two steps of one task.

    It is the target itself if that is local. ``attempts`` is as for :func:`write_sorted`.
    """
    if target.local_path(attempts) is not None:
        yield target
        return
    directory = make_scratch("runs-")
    try:
        yield LocalDirectory(directory)
    finally:
        remove_scratch(directory)


def gather_store(
    target: StateTarget,
    attempts: str,
    index: int,
    move: OperatorMigration,
    store: str,
    partition: int,
    runs: Sequence[SortedRun],
    place: StateSource,
) -> WrittenStore:
    """Write a partition of a new store from its files, and read it back.

    ``place`` has the files of ``runs``. Raises LostRows if a key is in two of the files.
    """

    def bring(file: str, path: str) -> None:
        local = place.local_path(file)
        if local is not None:
            try:
                os.link(local, path)
            except OSError:  # another file system, or one without links
                shutil.copyfile(local, path)
            return
        with place.open(file) as source, open(path, "xb") as copy:
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
