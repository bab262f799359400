"""Unacknowledged failures of jobs: they are reported until someone acknowledges them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from flinkish.client.context import Context
from flinkish.errors import WrongState
from flinkish.registry.jobs import ACTIVE_STATES, JobRecord, JobState
from flinkish.registry.liveness import reconcile
from flinkish.registry.statements import name_matches


def unacknowledged(context: Context, pattern: str | None = None) -> list[JobRecord]:
    """Return the jobs that ran and failed, and were not acknowledged.

    A job whose process is found dead now is FAILED from now on, and among them.

    ``pattern``: only jobs whose name matches it; ``*`` and ``?`` are wildcards.
    """
    registry = context.registry
    reconcile(registry, registry.jobs(states=ACTIVE_STATES))
    return [
        job
        for job in registry.unacknowledged()
        if pattern is None or name_matches(job.name, pattern)
    ]


@dataclass(frozen=True)
class Troubles:
    """Jobs that do not run though they should.

    Attributes
    ----------
    failed
        Jobs that ran and have failed, which nobody has acknowledged.
    missing
        Names of jobs that were expected to run.
    """

    failed: tuple[JobRecord, ...] = ()
    missing: tuple[str, ...] = ()


def find_troubles(
    context: Context, jobs: Sequence[JobRecord], pattern: str | None, expected: Collection[str]
) -> Troubles:
    """Find the jobs that do not run though they should.

    ``jobs``: the jobs that run; those of them that have just been found dead are reported
    elsewhere. ``pattern``: only failed jobs whose name matches it. ``expected``: names of jobs that
    must run.
    """
    listed = {job.job_id for job in jobs}
    running = {job.name for job in jobs if not job.state.is_final}
    return Troubles(
        tuple(job for job in unacknowledged(context, pattern) if job.job_id not in listed),
        tuple(sorted(set(expected) - running)),
    )


def acknowledge(context: Context, references: Sequence[str]) -> list[JobRecord]:
    """Acknowledge that jobs have failed, so that they are reported no more; return them.

    ``references``: job ids, unique prefixes of ids, or names; none means all failed jobs.

    Raises JobNotFound or AmbiguousJob if no job, or several, match a reference; nothing was
    acknowledged; WrongState if a job has not failed; nothing was acknowledged.
    """
    failed = unacknowledged(context)
    jobs = [_failed(context, each, failed) for each in references] if references else failed
    news = set(context.registry.acknowledge(job.job_id for job in jobs))
    return [job for job in jobs if job.job_id in news]


def _failed(context: Context, reference: str, failed: Sequence[JobRecord]) -> JobRecord:
    # A name means the failed job of that name, also while its successor runs.
    named = [job for job in failed if job.name == reference]
    job = named[0] if len(named) == 1 else context.find_job(reference, include_final=True)
    if job.state is not JobState.FAILED:
        raise WrongState(
            f"job {job.name} ({job.job_id}) has not failed: it is {job.state.value}",
            hint="see the failed jobs with: flinkish list --failed",
            job_id=job.job_id,
            state=job.state.value,
        )
    return job
