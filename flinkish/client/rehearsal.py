"""Rehearse a program: a few batches on a copy of the state, with the job untouched."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from flinkish import storage
from flinkish.annotations import public_evolving
from flinkish.client.checking import launch_and_restore, require_agreed
from flinkish.client.context import Context
from flinkish.client.program import checkpoint_directory, find_spark
from flinkish.client.purge_files import new_rehearsal_directory
from flinkish.errors import ProgramFailed
from flinkish.launch import spark_submit as programs
from flinkish.launch.driver_call import ask_driver
from flinkish.launch.job_origin import job_origin
from flinkish.messages.calls import RehearsalTask, RestoreQuestion
from flinkish.messages.launch import Launch, Program, RestoreSpec
from flinkish.messages.rehearsals import RehearsalLimits, Rehearsed, RehearsedQuery
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry.jobs import JobRecord
from flinkish.restore.check.version_check import check_restorable
from flinkish.restore.origin.restore_origin import open_origin


@public_evolving
@dataclass(frozen=True)
class RehearsalResult:
    """The outcome of a rehearsal.

    Attributes
    ----------
    queries
        The program's queries, in the order of their starts.
    """

    queries: tuple[RehearsedQuery, ...]

    @property
    def ok(self) -> bool:
        """Whether no query failed."""
        return all(query.error is None for query in self.queries)

    @property
    def warnings(self) -> list[str]:
        """Sentences about queries that were not tried."""
        return [
            f"query '{query.name}' had no input, so none of its batches was run"
            for query in self.queries
            if query.error is None and not query.batches
        ]

    def error(self) -> ProgramFailed | None:
        """Return the error of a query that failed, or None."""
        for query in self.queries:
            if query.error is not None:
                return ProgramFailed(
                    f"the rehearsal failed: query '{query.name}', batch {query.failed_batch}: "
                    f"{query.error}",
                    hint="nothing was changed; fix the program, and rehearse it again",
                )
        return None


def rehearse(
    context: Context,
    program: Program,
    savepoint: str | None,
    options: RestoreOptions,
    *,
    job: JobRecord | None = None,
    limits: RehearsalLimits | None = None,
    drop_output: bool = False,
) -> RehearsalResult:
    """Run a few batches of a program on a copy of the state of a savepoint or a job.

    The program runs to its end, each query for a few batches, one query after the other. State and
    output go into a temporary directory next to the checkpoints of jobs; with ``drop_output``, the
    output is discarded. The sources are read from the saved positions. Neither the job, nor the
    savepoint, nor any sink is changed; what the program does outside its queries does happen.

    Parameters and errors are those of :meth:`.runner.ProgramRunner.rehearse`. The configuration
    must have been loaded with :func:`.restoring.settings`. ``job`` takes the place of a savepoint.
    """
    launch, spec = launch_and_restore(context, program, savepoint, options, job)
    return rehearse_launch(context, launch, spec, job=job, limits=limits, drop_output=drop_output)


def rehearse_launch(
    context: Context,
    launch: Launch,
    spec: RestoreSpec,
    *,
    job: JobRecord | None = None,
    limits: RehearsalLimits | None = None,
    drop_output: bool = False,
) -> RehearsalResult:
    """Rehearse a launch that is complete; see :func:`rehearse`."""
    installation = find_spark(launch)
    origin = None if job is None else job_origin(context.registry, job)
    offers = open_origin(spec, origin, verify=spec.verify)
    spark = programs.spark_version(installation.spark_home)
    context.report(check_restorable(offers, spark))
    directory = new_rehearsal_directory(checkpoint_directory(context.config))
    task = RehearsalTask(
        RestoreQuestion(spec, job=origin), directory, limits or RehearsalLimits(), drop_output
    )
    context.reporter.note("running the program on a copy of the state ...")
    try:
        rehearsed = ask_driver(
            task,
            replace(programs.pinned(launch, installation), restore=spec),
            installation,
            answer=Rehearsed,
            name=f"{launch.default_name} (rehearsal)",
            environ=os.environ,
            show_log=context.reporter.log,
        )
    finally:  # left by a driver that was killed
        if storage.is_directory(directory):
            storage.remove_tree(*storage.split(directory))
    if all(query.error is None for query in rehearsed.queries):
        require_agreed(rehearsed.plan, "the program")
    rates = {} if job is None else _rates(context, job)
    return RehearsalResult(
        tuple(
            replace(query, job_rows_per_second=rates.get(query.name)) for query in rehearsed.queries
        )
    )


def _rates(context: Context, job: JobRecord) -> dict[str, float]:
    return {
        query.name: query.processed_rows_per_second
        for query in context.registry.queries(job.job_id)
        if query.processed_rows_per_second
    }
