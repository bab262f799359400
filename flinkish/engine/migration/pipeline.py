"""Rewrite state with Spark: new state is complete and verified before it is moved into place.

Tasks (:mod:`.spark_jobs`) write new state into a directory of attempts. When all of it is complete,
and its digests equal those of the rows read, the driver moves it into its final place. The source
is never changed.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.checkpoint.format.names import STATE
from flinkish.engine.errors import LostRows
from flinkish.engine.migration.attempts import WrittenStore
from flinkish.engine.migration.migration_plan import OperatorMigration, store_directory
from flinkish.engine.migration.row_blocks import RowsDigest, sum_digests
from flinkish.engine.migration.spark_jobs import Counters, Job, numbers_of, run_job
from flinkish.engine.migration.store_tasks import ReadRows
from flinkish.engine.stores.files import StateSource, StateTarget

#: Called with the rows and bytes written so far.
Progress = Callable[[int, int], None]
_POLL_SECONDS = 0.5


@dataclass(frozen=True)
class WrittenOperator:
    """An operator's new state, in its final place.

    ``digests`` are by store, and equal to those of the rows read. ``unique_ids`` are the stores'
    ids by partition; None in checkpoint format 1. ``size`` is in bytes. ``shuffle`` is why the rows
    went through a shuffle of Spark; None if they did not. ``native`` is whether all tasks
    used the optional package ``flinkish_rocksdb``.
    """

    ordinal: int
    digests: Mapping[str, RowsDigest]
    unique_ids: tuple[tuple[str, ...], ...] | None
    size: int
    shuffle: str | None = None
    native: bool = False

    @property
    def digest(self) -> RowsDigest:
        """The digest of all stores."""
        return sum_digests(self.digests.values())


def run_moves(
    context: Any,
    source: StateSource,
    target: StateTarget,
    moves: Sequence[OperatorMigration],
    progress: Progress | None = None,
) -> tuple[WrittenOperator, ...]:
    """Write the new state of operators. If a task fails or rows are lost, none of it is left.

    The workers of ``context`` (a ``SparkContext``) must be able to import the engine. Only
    ``state/<ordinal>/<partition>/`` is written, not schemas and metadata. ``progress`` is called
    with the rows and bytes written so far.

    Raises StateFormatError if a file of the source is damaged, missing or unknown, LostRows if the
    rows written differ from those read, EngineError or CannotWrite if a task refuses something
    else, and Spark's own error if a task fails for another reason.
    """
    attempts = f"_attempts-{uuid.uuid4()}"
    job = Job(source, target, attempts, tuple(moves), *numbers_of(moves))
    try:
        with _watched(context, progress) as counters:
            read, written = run_job(context, job, counters)
        _compare(job, read, written)
        stores = [[w for w in written if w.move == index] for index in range(len(moves))]
        for move, mine in zip(moves, stores, strict=True):
            place(target, move, mine)
    finally:
        target.remove(attempts)
    return tuple(
        written_operator(move, mine, move.shuffle) for move, mine in zip(moves, stores, strict=True)
    )


class _watched:
    """A context manager that returns a job's counters and reports them while the job runs."""

    def __init__(self, context: Any, progress: Progress | None) -> None:
        self._counters = Counters(context.accumulator(0), context.accumulator(0))
        self._progress = progress
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="engine-progress", daemon=True)

    def __enter__(self) -> Counters:
        if self._progress is not None:
            self._thread.start()
        return self._counters

    def _tell(self) -> None:
        while not self._done.wait(_POLL_SECONDS):
            self._report()

    def _report(self) -> None:
        if self._progress is not None:
            self._progress(self._counters.rows.value, self._counters.size.value)

    def __exit__(self, *_: object) -> None:
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()
        self._report()


def _compare(job: Job, read: Sequence[ReadRows], written: Sequence[WrittenStore]) -> None:
    for index, move in enumerate(job.moves):
        for store in move.targets:
            before = sum_digests(r.digest for r in read if (r.move, r.store) == (index, store))
            mine = [w for w in written if (w.move, w.store) == (index, store)]
            after = sum_digests(w.digest for w in mine)
            there = sorted(w.partition for w in mine)
            if before != after or there != list(range(move.partitions)):
                raise LostRows(
                    f"the rewritten state of the operator {move.ordinal} ({store}) is not what was "
                    f"read: {after.rows:,} rows of {before.rows:,} in {len(there)} partitions of "
                    f"{move.partitions}, digests {after.content:016x} and {before.content:016x}"
                )


def place(target: StateTarget, move: OperatorMigration, written: Sequence[WrittenStore]) -> None:
    """Move the files of stores into their directories, which may already have other entries."""
    for store in written:
        directory = f"{STATE}/{move.ordinal}/{store.partition}/{store_directory(store.store)}"
        for name in target.names(store.attempt):
            target.move(f"{store.attempt}/{name}", f"{directory.rstrip('/')}/{name}")


def written_operator(
    move: OperatorMigration, written: Sequence[WrittenStore], shuffle: str | None
) -> WrittenOperator:
    """Return the new state of an operator from the files of all its stores."""
    digests = {s: sum_digests(w.digest for w in written if w.store == s) for s in move.targets}
    ids = None
    if move.unique_ids:
        by_place = {(w.partition, w.store): w.unique_id or "" for w in written}
        ids = tuple(
            tuple(by_place[partition, store] for store in move.targets)
            for partition in range(move.partitions)
        )
    return WrittenOperator(
        move.ordinal,
        digests,
        ids,
        sum(w.size for w in written),
        shuffle,
        all(w.native for w in written),
    )
