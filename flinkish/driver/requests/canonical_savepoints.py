"""Canonical savepoints of a running job, whose own application rewrites the cut.

The cut is copied as for a native savepoint, into a scratch directory next to the target. So the
queries can continue (and Spark can trim files) while the engine reads the copy. The engine's Spark
jobs run in the job group of the calling thread and in their own scheduler pool, which takes effect
if the application schedules fairly (``spark.scheduler.mode=FAIR``).
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
from flinkish.messages.migration import Migration
from flinkish.messages.requests import SavepointSummary
from flinkish.savepoint.format.contents import FORMAT_CANONICAL, QuerySource, SavepointJob
from flinkish.savepoint.format.reader import open_savepoint
from flinkish.savepoint.reporter import SavepointReporter
from flinkish.savepoint.state.state_directories import scratch_directory
from flinkish.savepoint.write.transfer import FileTransferer
from flinkish.savepoint.write.writer import write_savepoint

#: The scheduler pool of the engine's jobs.
POOL = "flinkish"
#: Local properties of a thread's Spark jobs that :func:`background` sets.
_PROPERTIES = (
    "spark.scheduler.pool",
    "spark.jobGroup.id",
    "spark.job.description",
    "spark.job.interruptOnCancel",
)


class RowsReporter(SavepointReporter, Protocol):
    """A reporter that also receives the progress of rewritten state."""

    def rows(self, done: int, size: int) -> None:
        """Report that ``done`` rows, ``size`` bytes, are written; called from another thread."""


def check_engine() -> None:
    """Check that this driver can rewrite state, before any work starts.

    Raises NotSavepointable if it cannot.
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
) -> SavepointSummary:
    """Take a canonical savepoint of ``job`` below the directory ``target``.

    Other parameters are those of :func:`~flinkish.savepoint.write.writer.write_savepoint`.
    ``give_up`` is called regularly, from another thread; to end the work it raises a FlinkishError,
    which this function then raises. Other errors are those of ``write_savepoint`` and of
    :func:`~.savepoint_migration.write_rewritten`; on an error nothing is left over.
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
                if watch.stopped is not None:  # the error is only that of the cancelled jobs
                    raise watch.stopped from error
                raise
    return replace(info, duration=round(monotonic() - started, 3))


@contextmanager
def background(context: Any) -> Iterator[str]:
    """Run this thread's Spark jobs in the flinkish pool and in a new job group, which is yielded.

    Queries that this thread starts later inherit its local properties, so these are set back.
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
    """Reports progress, and cancels the group's jobs when the work must end."""

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
