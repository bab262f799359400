"""The Spark jobs of a rewrite: which tasks there are, and what each one calls.

Where rows keep their partition, a task reads and writes. Where they do not, but keep their order,
tasks write sorted files, and one task for each new partition gathers the files for that partition
(:mod:`.direct_tasks`). Otherwise tasks read, Spark shuffles batches of rows, and one task for each
new partition writes.

Tasks collect garbage less often: Python's collector searches for cycles, and rows are in none. It
runs after every few hundred new objects and scans the existing ones, which takes longer than
reading the tens of thousands of rows of a block.
"""

from __future__ import annotations

import contextlib
import enum
import gc
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from flinkish.engine.errors import PERMANENT, EngineError
from flinkish.engine.migration.attempts import WrittenStore, target_families
from flinkish.engine.migration.direct_tasks import (
    SortedRun,
    directory_of_runs,
    gather_store,
    write_sorted,
)
from flinkish.engine.migration.migration_plan import OperatorMigration, StoreMigration
from flinkish.engine.migration.row_blocks import (
    Rows,
    RowsDigest,
    digest_rows,
    family_salt,
    sum_digests,
)
from flinkish.engine.migration.store_tasks import (
    ReadRows,
    moved_rows,
    read_pieces,
    write_pieces,
    write_store,
)
from flinkish.engine.stores.files import StateSource, StateTarget


@dataclass(frozen=True)
class _Read:
    """A task that reads partitions of one store of the source; several only if it merges them."""

    move: int
    store: StoreMigration
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class _Gather:
    """A task that makes a partition of a new store from the files with its rows."""

    move: int
    store: str
    partition: int
    runs: tuple[SortedRun, ...]


@dataclass(frozen=True)
class Job:
    """The data that tasks need, sent to each worker once."""

    source: StateSource
    target: StateTarget
    attempts: str
    moves: tuple[OperatorMigration, ...]
    #: Number of the first new partition, by (migration's index, new store).
    firsts: Mapping[tuple[int, str], int] = field(default_factory=dict)
    #: Number of all new partitions that get their rows by a shuffle.
    count: int = 0

    def target_of(self, number: int) -> tuple[int, str, int]:
        """Return the migration's index, the store and the partition of a target number."""
        for (move, store), first in self.firsts.items():
            if first <= number < first + self.moves[move].partitions:
                return move, store, number - first
        raise EngineError(f"there is no new partition {number}")


@dataclass(frozen=True)
class Counters:
    """Accumulators of the rows and bytes written so far."""

    rows: Any
    size: Any

    def add(self, written: WrittenStore) -> None:
        """Count a store."""
        self.rows.add(written.digest.rows)
        self.size.add(written.size)


def numbers_of(moves: Sequence[OperatorMigration]) -> tuple[dict[tuple[int, str], int], int]:
    """Return ``firsts`` and ``count`` of a :class:`Job`."""
    firsts: dict[tuple[int, str], int] = {}
    count = 0
    for index, move in enumerate(moves):
        for store in move.targets if _way(move) is _Way.SHUFFLE else ():
            firsts[index, store] = count
            count += move.partitions
    return firsts, count


class _Way(enum.Enum):
    """How the rows of an operator get into their new partitions; see the module."""

    IN_PLACE = enum.auto()
    SORTED = enum.auto()
    SHUFFLE = enum.auto()


def _way(move: OperatorMigration) -> _Way:
    if not move.moved:
        return _Way.IN_PLACE
    return _Way.SORTED if move.shuffle is None else _Way.SHUFFLE


def run_job(
    context: Any, job: Job, counters: Counters
) -> tuple[list[ReadRows], list[WrittenStore]]:
    """Run the tasks of a job; return what they read and wrote, or raise a permanent error."""
    results: list[Any] = []
    context.setJobDescription("flinkish: rewrite state")
    try:
        if tasks := _reads(job, _Way.IN_PLACE):
            results += _collected(context, tasks, _InPlace(job, counters))
        if tasks := _reads(job, _Way.SORTED, 2 * context.defaultParallelism):
            runs = _collected(context, tasks, _Sorting(job))
            results += runs
            results += _collected(context, _gathers(job, runs), _Gathering(job, counters))
        if tasks := _reads(job, _Way.SHUFFLE):
            reading = context.parallelize(tasks, len(tasks)).mapPartitions(_Reading(job))
            arranged = reading.partitionBy(job.count + 1, _itself)
            results += _checked(arranged.mapPartitionsWithIndex(_Writing(job, counters)).collect())
    finally:
        context.setJobDescription(None)
    read = [result for result in results if isinstance(result, ReadRows)]
    return read, [result for result in results if isinstance(result, WrittenStore)]


def _collected(context: Any, tasks: Sequence[Any], run: Any) -> list[Any]:
    return _checked(context.parallelize(tasks, len(tasks)).mapPartitions(run).collect())


def _checked(results: list[Any]) -> list[Any]:
    for result in results:
        if isinstance(result, PERMANENT):
            raise result
    return results


def _reads(job: Job, way: _Way, tasks: int = 0) -> list[_Read]:
    return [
        _Read(index, store, partitions)
        for index, move in enumerate(job.moves)
        if _way(move) is way
        for partitions in (move.groups(tasks) if way is _Way.SORTED else _single(move))
        for store in move.stores
    ]


def _single(move: OperatorMigration) -> list[tuple[int, ...]]:
    return [(partition,) for partition in range(move.operator.partitions)]


def _gathers(job: Job, results: Iterable[Any]) -> list[_Gather]:
    runs: dict[tuple[int, str, int], list[SortedRun]] = {}
    for run in results:
        if isinstance(run, SortedRun):
            runs.setdefault((run.move, run.store, run.partition), []).append(run)
    return [
        _Gather(index, store, partition, tuple(runs.get((index, store, partition), ())))
        for index, move in enumerate(job.moves)
        if _way(move) is _Way.SORTED
        for partition in range(move.partitions)
        for store in move.targets
    ]


def _itself(number: int) -> int:
    return number


def _each(tasks: Iterable[Any], run: Callable[[Any], Iterable[Any]]) -> Iterator[Any]:
    """Yield what each task returns, or its error if a retry would fail again."""
    with seldom_collecting():
        for task in tasks:
            try:
                yield from run(task)
            except PERMANENT as error:
                yield error


@dataclass(frozen=True)
class _InPlace:
    """A task that reads and writes, where rows keep their partition."""

    job: Job
    counters: Counters

    def __call__(self, tasks: Iterable[_Read]) -> Iterator[Any]:
        return _each(tasks, self._run)

    def _run(self, task: _Read) -> Iterator[Any]:
        job = self.job
        move = job.moves[task.move]
        (partition,) = task.partitions
        if move.reordered is None:
            with directory_of_runs(job.target, job.attempts) as place:
                items = list(_Sorting(replace(job, target=place))._run(task))
                runs = tuple(item for item in items if isinstance(item, SortedRun))
                gather = _Gather(task.move, task.store.target, partition, runs)
                yield from _Gathering(job, self.counters)._run(gather, place)
            yield from (item for item in items if isinstance(item, ReadRows))
            return
        names = target_families(move, task.store.target)
        digests: list[RowsDigest] = []

        def rows() -> Iterator[Rows]:
            for place, keys, values, _ in moved_rows(job.source, move, task.store, partition):
                family = task.store.families[place].target
                salt = family_salt(task.store.target, family)
                digests.append(digest_rows(keys, values, salt))
                yield names.index(family), keys, values

        written = write_store(
            job.target, job.attempts, task.move, move, task.store.target, partition, rows()
        )
        self.counters.add(written)
        yield written
        yield ReadRows(task.move, task.store.target, sum_digests(digests))


@dataclass(frozen=True)
class _Sorting:
    """A task that reads, and writes sorted files for the new partitions."""

    job: Job

    def __call__(self, tasks: Iterable[_Read]) -> Iterator[Any]:
        return _each(tasks, self._run)

    def _run(self, task: _Read) -> Iterator[Any]:
        job = self.job
        move = job.moves[task.move]
        return write_sorted(
            job.source, job.target, job.attempts, task.move, move, task.store, task.partitions
        )


@dataclass(frozen=True)
class _Gathering:
    """A task that makes a new store from sorted files."""

    job: Job
    counters: Counters

    def __call__(self, tasks: Iterable[_Gather]) -> Iterator[Any]:
        return _each(tasks, self._run)

    def _run(self, task: _Gather, place: StateSource | None = None) -> Iterator[Any]:
        job = self.job
        written = gather_store(
            job.target,
            job.attempts,
            task.move,
            job.moves[task.move],
            task.store,
            task.partition,
            task.runs,
            place or job.target,
        )
        self.counters.add(written)
        yield written


@dataclass(frozen=True)
class _Reading:
    """A task that reads; its report or error goes to the number after the last partition."""

    job: Job

    def __call__(self, tasks: Iterable[_Read]) -> Iterator[tuple[int, bytes]]:
        with seldom_collecting():
            for task in tasks:
                try:
                    yield from self._run(task)
                except PERMANENT as error:
                    yield self.job.count, pickle.dumps(error)

    def _run(self, task: _Read) -> Iterator[tuple[int, bytes]]:
        job = self.job
        first = job.firsts[task.move, task.store.target]
        (partition,) = task.partitions
        move = job.moves[task.move]
        for item in read_pieces(job.source, task.move, move, task.store, partition, first):
            if isinstance(item, ReadRows):
                yield job.count, pickle.dumps(item)
            else:
                yield item


@dataclass(frozen=True)
class _Writing:
    """A task that writes the partition with a target number; the last number yields the reports."""

    job: Job
    counters: Counters

    def __call__(self, number: int, pieces: Iterable[tuple[int, bytes]]) -> Iterator[Any]:
        job = self.job
        if number == job.count:
            for _, report in pieces:
                yield pickle.loads(report)
            return
        move, store, partition = job.target_of(number)
        try:
            with seldom_collecting():
                written = write_pieces(
                    job.target,
                    job.attempts,
                    move,
                    job.moves[move],
                    store,
                    partition,
                    (piece for _, piece in pieces),
                )
        except PERMANENT as error:
            yield error
        else:
            self.counters.add(written)
            yield written


#: The number of new objects before a garbage collection; a few blocks of rows have fewer.
_OBJECTS: Final = 200_000


@contextlib.contextmanager
def seldom_collecting() -> Iterator[None]:
    """Raise the collector's threshold until the end of the block."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _OBJECTS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
