"""The complete restore check: the version gate, then the plan of a driver that starts no query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from flinkish.launch import spark_submit
from flinkish.launch.driver_call import ask_driver
from flinkish.launch.known_jobs import known_writers, runs_under_other_ids
from flinkish.launch.spark_submit import Installation
from flinkish.messages.calls import Described, DescribeTask, JobOrigin, KnownRun, RestoreQuestion
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.plan import Check, RestoreOutcome, RestorePlan
from flinkish.registry.job_registry import Registry
from flinkish.restore.check.version_check import version_gate
from flinkish.restore.plan.document import with_checks
from flinkish.restore.plan.query_id import newest_batch, newest_begun
from flinkish.restore.plan.repeated_batches import may_repeat, sink_format
from flinkish.restore.source.job_source import open_job
from flinkish.restore.source.mapped_paths import with_mapped_paths
from flinkish.restore.source.restore_source import RestoreSource, open_restore_source


def check_restore(
    launch: Launch,
    installation: Installation,
    spec: RestoreSpec,
    *,
    name: str,
    environ: Mapping[str, str],
    show_log: Callable[[str], object],
    registry: Registry,
    job: JobOrigin | None = None,
) -> RestorePlan:
    """Return the plan of restoring ``spec`` with the program of ``launch``.

    Parameters
    ----------
    name, environ, show_log
        See :func:`~flinkish.launch.driver_call.ask_driver`.
    registry
        Knows other runs of the savepoint's queries.
    job
        The job whose checkpoints are restored instead of the savepoint. Its own run does not count
        as another one: it would have ended.

    Raises
    ------
    SavepointNotFound, Corrupt, UnsupportedFormat, StorageError
        The savepoint cannot be read.
    FlinkishError
        The error with which the submission of the program would end.
    """
    offers = open_restore_source(spec.path, verify=spec.verify) if job is None else open_job(job)
    offers = with_mapped_paths(offers, spec.options.path_map)
    checks = []
    if offers.is_savepoint:
        files = sum(len(offer.origin.files) for offer in offers.by_key.values())
        text = f"all {files} files of the savepoint exist"
        checks.append(Check("savepoint-reachable", RestoreOutcome.OK, text))
    gate = version_gate(offers, spark_submit.spark_version(installation.spark_home))
    described = ask_driver(
        DescribeTask(restore_question(registry, spec, offers, job)),
        replace(launch, restore=spec),
        installation,
        answer=Described,
        name=name,
        environ=environ,
        show_log=show_log,
    )
    assert described.plan is not None  # it was requested
    plan = with_checks(described.plan, [*checks, gate.check])
    return replace(plan, savepoint=spec.path, version=gate.versions)


def restore_question(
    registry: Registry, spec: RestoreSpec, offers: RestoreSource, job: JobOrigin | None
) -> RestoreQuestion:
    """Return the question for the plan of a restore, with what the registry knows of it."""
    own = None if job is None else job.job_id
    sinks = {offer.query_id: sink_format(offer.query.sink) for offer in offers.by_key.values()}
    return RestoreQuestion(
        spec, known_runs(registry, sinks, own), job, known_writers(registry, own)
    )


def known_runs(
    registry: Registry, sinks: Mapping[str, str | None], own: str | None
) -> dict[str, tuple[KnownRun, ...]]:
    """Return what the registry knows of jobs that ran the savepoint's queries, without ``own``.

    Also of those that went back to an earlier batch of them, under another query id: only the rows
    of an at-least-once sink are counted by them, and all jobs are looked through for them.

    Parameters
    ----------
    sinks
        The formats of the sinks by query id; None if unknown.
    """
    return {
        query_id: (
            *(
                KnownRun(job.job_id, job.state.value, newest_batch(query), newest_begun(query))
                for job, query in registry.find_query(query_id)
                if job.job_id != own
            ),
            *(runs_under_other_ids(registry, query_id, own) if may_repeat(sink) else ()),
        )
        for query_id, sink in sinks.items()
    }
