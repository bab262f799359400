"""The registry's jobs: the filtered list, those that failed, and one in full."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from flinkish.client.context import Context
from flinkish.errors import WrongState
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import SavepointSummary
from flinkish.messages.upgrades import Upgrade
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import ACTIVE_STATES, JobRecord, JobState, JobStateChange, Request
from flinkish.registry.liveness import reconcile
from flinkish.registry.statements import ambiguous, name_matches


@dataclass(frozen=True)
class JobFilter:
    """Which jobs are wanted; all conditions must hold.

    ``states``: only jobs in these states; None means all. ``name``: only jobs whose name matches;
    ``*`` and ``?`` are wildcards. ``since``: only jobs that were started at this time or later, in
    seconds since the epoch. ``failed``: only jobs that ran and failed, and whose failure nobody has
    acknowledged.
    """

    states: Collection[JobState] | None = None
    name: str | None = None
    since: float | None = None
    failed: bool = False

    def takes(self, job: JobRecord) -> bool:
        """Return whether a job meets all conditions but ``failed``. Pure."""
        return (
            (self.states is None or job.state in self.states)
            and (self.name is None or name_matches(job.name, self.name))
            and (self.since is None or job.start_time >= self.since)
        )


def find_jobs(context: Context, wanted: JobFilter) -> list[JobRecord]:
    """Return the wanted jobs by start time; one whose process is gone is FAILED or FAILING."""
    if wanted.failed:
        jobs = unacknowledged(context)
    else:
        # Select by state before checking the processes, and filter after: a job found dead is no
        # longer RUNNING but FAILED, or FAILING if its supervisor restarts it.
        registry, states = context.registry, wanted.states
        if states is not None and (JobState.FAILED in states or JobState.FAILING in states):
            states = ACTIVE_STATES.union(states)
        jobs = reconcile(registry, registry.jobs(states=states))
    return [job for job in jobs if wanted.takes(job)]


def unacknowledged(context: Context, pattern: str | None = None) -> list[JobRecord]:
    """Return the jobs that ran and failed, and whose failure nobody has acknowledged.

    A job whose process is found dead now becomes FAILED, and is returned as well, unless its
    supervisor restarts it.

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

    ``failed``: jobs that ran and failed, and whose failure nobody has acknowledged. ``missing``:
    names of jobs that were expected to run.
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
    """Acknowledge that jobs have failed, so that they are no longer reported; return the jobs.

    ``references``: job ids, unique prefixes of ids, or names; without any, all failed jobs. A job
    whose failure was acknowledged before is not returned.

    Raises JobNotFound or AmbiguousJob if no job, or several, match a reference, UsageError if a
    reference cannot be one, or WrongState if a job has not failed; no job is then acknowledged.
    """
    failed = unacknowledged(context)
    jobs = [_failed(context, each, failed) for each in references] if references else failed
    by_id = {job.job_id: job for job in jobs}
    news = set(context.registry.acknowledge(by_id))
    return [job for job_id, job in by_id.items() if job_id in news]


def _failed(context: Context, reference: str, failed: Sequence[JobRecord]) -> JobRecord:
    # A name means the failed job of that name, even while another job of that name runs.
    named = [job for job in failed if job.name == reference]
    if len(named) > 1:
        raise ambiguous(reference, named)
    job = named[0] if named else context.find_job(reference, include_final=True)
    if job.state is not JobState.FAILED:
        raise WrongState(
            f"job {job.name} ({job.job_id}) has not failed: it is {job.state.value}",
            hint="see the failed jobs with: flinkish list --failed",
            job_id=job.job_id,
            state=job.state.value,
        )
    return job


@dataclass(frozen=True)
class JobDescription:
    """A job and all that belongs to it, oldest first.

    ``history``: its states; the last one is its state now, even if a read-only registry could not
    record it. ``restarts``: the recorded restarts, with their reasons. ``queries``: what its driver
    last reported of each query. ``requests``: what was asked of it. ``upgrades``: the upgrades that
    it was part of.
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
    """Return the recorded states, and a state that a read-only registry could not record. Pure."""
    if not recorded or recorded[-1].state is job.state:
        return tuple(recorded)
    reason = str((job.failure or {}).get("message") or "")
    last = JobStateChange(job.state, job.end_time or job.start_time, reason or None)
    return (*recorded, last)
