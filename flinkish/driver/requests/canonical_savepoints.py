"""Canonical savepoints of the job that runs here: its cut, rewritten by its own application.

The cut is taken as for a native savepoint, into a scratch directory beside the target, so that the
queries may go on (and Spark may trim) while the engine reads it. The engine's Spark jobs run in the
calling thread's group and in a scheduler pool of their own, which counts where the application
schedules fairly (``spark.scheduler.mode=FAIR``).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic
from typing import Any, Protocol

from flinkish import storage
from flinkish.driver.migration.checkpoint_migration import engine_is_here
from flinkish.driver.migration.savepoint_migration import write_rewritten
from flinkish.errors import FlinkishError, NotSavepointable
from flinkish.savepoint.format.contents import (
    FORMAT_CANONICAL,
    QuerySource,
    SavepointInfo,
    SavepointJob,
)
from flinkish.savepoint.format.reader import open_savepoint
from flinkish.savepoint.reporter import SavepointReporter
from flinkish.savepoint.state.scratch import scratch_directory
from flinkish.savepoint.write.transfer import FileTransferer
from flinkish.savepoint.write.writer import write_savepoint
from flinkish.spec.migration import Migration

#: The scheduler pool of the engine's jobs.
POOL = "flinkish"
#: Properties of a thread's Spark jobs that ``SparkContext.setJobGroup`` and the engine set.
_PROPERTIES = (
    "spark.scheduler.pool",
    "spark.jobGroup.id",
    "spark.job.description",
    "spark.job.interruptOnCancel",
)


class RowsReporter(SavepointReporter, Protocol):
    """A reporter that is told of rewritten state, too."""

    def rows(self, done: int, size: int) -> None:
        """``done`` rows are written, ``size`` bytes; called from another thread."""


def check_engine() -> None:
    """Find out that this driver cannot rewrite state before anything is done for it.

    Raises NotSavepointable.
    """
    if not engine_is_here():
        raise NotSavepointable(
            "the driver's Python lacks what a canonical savepoint needs",
            hint="install flinkish there with its extra: pip install 'flinkish[engine]'; or take a "
            "native savepoint, and make it canonical elsewhere: flinkish migrate --type canonical",
        )


def save_canonical(
    context: Any,
    target: str,
    job: SavepointJob,
    queries: Sequence[QuerySource],
    *,
    trigger: str,
    reporter: RowsReporter,
    deadline: float,
    transferer: FileTransferer,
    give_up: Callable[[], None],
) -> SavepointInfo:
    """Take a canonical savepoint of ``job`` below the directory ``target``.

    Parameters
    ----------
    context: the job's ``SparkContext``.
    give_up: asked now and then, from another thread; raises a FlinkishError when the work is to
        end, which is raised here then.

    The others are those of :func:`~flinkish.savepoint.write.writer.write_savepoint`, as are the
    errors, with those of :func:`~flinkish.driver.migration.savepoint_migration.write_rewritten`.
    Nothing is left then.
    """
    started = monotonic()
    with scratch_directory(target, job.job_id, job.owner) as scratch:
        native = write_savepoint(
            storage.join(scratch, "native"),
            job,
            queries,
            trigger=trigger,
            reporter=reporter,
            deadline=deadline,
            full=True,
            transferer=transferer,
        )
        with background(context) as group:
            watch = _Watch(context, group, reporter, give_up)
            try:
                info, _ = write_rewritten(
                    context,
                    open_savepoint(native.path),
                    Migration(native.path, target, type=FORMAT_CANONICAL),
                    scratch=scratch,
                    job=job,
                    trigger=trigger,
                    reporter=reporter,
                    progress=watch,
                    transferer=transferer,
                )
            except Exception as error:
                if watch.stopped is not None:  # this is how a job of a cancelled group ends
                    raise watch.stopped from error
                raise
    return replace(info, duration=monotonic() - started)


@contextmanager
def background(context: Any) -> Iterator[str]:
    """Inside, this thread's Spark jobs are of a group, which is yielded, and in the pool.

    Queries that this thread starts later inherit its properties: so they are put back.
    """
    before = {name: context.getLocalProperty(name) for name in _PROPERTIES}
    group = f"flinkish-{uuid.uuid4()}"
    try:
        context.setJobGroup(group, "flinkish: canonical savepoint", interruptOnCancel=False)
        context.setLocalProperty("spark.scheduler.pool", POOL)
        yield group
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)


class _Watch:
    """Tells of progress, and ends the group's jobs when they are no longer wanted."""

    def __init__(
        self, context: Any, group: str, reporter: RowsReporter, give_up: Callable[[], None]
    ) -> None:
        self._context = context
        self._group = group
        self._reporter = reporter
        self._give_up = give_up
        self.stopped: FlinkishError | None = None

    def __call__(self, rows: int, size: int) -> None:
        try:
            self._reporter.rows(rows, size)
            self._give_up()
        except FlinkishError as error:
            self.stopped = error
            self._context.cancelJobGroup(self._group)
