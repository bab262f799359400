"""One job in full, as the registry has recorded it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import SavepointSummary
from flinkish.messages.upgrades import Upgrade
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, JobStateChange, Request


@dataclass(frozen=True)
class JobDescription:
    """A job and all that belongs to it, each in the order of its time.

    Attributes
    ----------
    history
        Its states; the last one is its state now, even if a read-only registry could not record it.
    restarts
        The recorded restarts, with their reasons.
    queries
        What its driver last reported of each query.
    requests
        What was asked of it.
    upgrades
        The upgrades that it was part of.
    """

    job: JobRecord
    history: tuple[JobStateChange, ...]
    restarts: tuple[JobStateChange, ...]
    queries: tuple[QueryStatus, ...]
    savepoints: tuple[SavepointSummary, ...]
    requests: tuple[Request, ...]
    upgrades: tuple[Upgrade, ...]


def describe_job(registry: Registry, job: JobRecord) -> JobDescription:
    """Return everything that a registry has recorded about a job.

    ``job``: the job as it is now; see :meth:`flinkish.client.context.Context.find_job`.
    """
    recorded = registry.state_history(job.job_id)
    return JobDescription(
        job,
        history=full_history(job, recorded),
        restarts=tuple(change for change in recorded if change.state is JobState.RESTARTING),
        queries=tuple(registry.queries(job.job_id)),
        savepoints=tuple(registry.savepoints(job.job_id)),
        requests=tuple(registry.requests(job.job_id)),
        upgrades=tuple(registry.upgrades_of(job.job_id)),
    )


def full_history(job: JobRecord, recorded: Sequence[JobStateChange]) -> tuple[JobStateChange, ...]:
    """Return the recorded states, and the one that a read-only registry could not record. Pure."""
    if not recorded or recorded[-1].state is job.state:
        return tuple(recorded)
    reason = str((job.failure or {}).get("message") or "")
    last = JobStateChange(job.state, job.end_time or job.start_time, reason or None)
    return (*recorded, last)
