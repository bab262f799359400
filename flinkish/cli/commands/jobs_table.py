"""``flinkish list`` through the registry: the general case, in which dead jobs are marked first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.cli.base import Session
from flinkish.cli.output.jobs_text import absent_notice, failed_notice, notice
from flinkish.client.listing import JobFilter, find_jobs
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import ACTIVE_STATES, SCHEDULED_STATES, JobRecord, JobState


@dataclass(frozen=True)
class ListOptions:
    """The options of ``list`` that choose jobs.

    Jobs in a final state are left out without ``everything`` or ``states``. ``running`` and
    ``scheduled`` are Flink's ``-r`` and ``-s``; neither means both. ``name`` is a pattern;
    ``since`` is in seconds since the epoch.
    """

    running: bool = False
    scheduled: bool = False
    everything: bool = False
    failed: bool = False
    states: frozenset[JobState] = frozenset()
    name: str | None = None
    since: float | None = None

    def wanted(self) -> JobFilter:
        """Return the jobs that the options ask for. Pure."""
        if self.failed:
            return JobFilter(None, self.name, self.since, failed=True)
        states = self.states or wanted_states(
            running=self.running, scheduled=self.scheduled, everything=self.everything
        )
        return JobFilter(states, self.name, self.since)


def read_jobs(session: Session, options: ListOptions) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the jobs as :func:`flinkish.cli.output.jobs_text.show` takes them, and the notices."""
    jobs = find_jobs(session, options.wanted())
    rows = _rows(session.registry, jobs)
    if options.failed:
        return rows, [] if rows else ["No unacknowledged failed jobs."]
    notices = []
    if not rows:
        notices += notice(
            running=options.running,
            scheduled=options.scheduled,
            everything=options.everything,
            name=options.name,
            filtered=bool(options.states) or options.since is not None,
        )
        if session.absent_registry is not None:
            notices.append(absent_notice(session.absent_registry))
    failed = session.registry.unacknowledged()
    return rows, [*notices, *failed_notice([(job.name, job.job_id) for job in failed])]


def _rows(registry: Registry, jobs: Sequence[JobRecord]) -> list[dict[str, Any]]:
    ids = [job.job_id for job in jobs]
    queries = registry.queries_of(ids)
    savepoints = registry.last_savepoints(ids)
    return [
        {
            "job_id": job.job_id,
            "name": job.name,
            "state": job.state.value,
            "start_time": job.start_time,
            "end_time": job.end_time,
            "queries": {query.name: query.batch_id for query in queries.get(job.job_id, ())},
            "last_savepoint": savepoints[job.job_id].path if job.job_id in savepoints else None,
        }
        for job in jobs
    ]


def wanted_states(
    *, running: bool, scheduled: bool, everything: bool
) -> frozenset[JobState] | None:
    """Return the states to list; None for all. Pure."""
    if everything:
        return None
    if running == scheduled:
        return ACTIVE_STATES
    return SCHEDULED_STATES if scheduled else ACTIVE_STATES - SCHEDULED_STATES
