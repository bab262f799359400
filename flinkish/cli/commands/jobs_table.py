"""``flinkish list`` through the registry: the general case, in which dead jobs are marked first."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from flinkish.cli.output.jobs_text import failed_notice, notice, show
from flinkish.cli.session import Session
from flinkish.client.failures import unacknowledged
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import ACTIVE_STATES, SCHEDULED_STATES, JobRecord, JobState
from flinkish.registry.liveness import reconcile


def list_jobs(
    session: Session, *, running: bool, scheduled: bool, everything: bool, name: str | None
) -> int:
    """Print the jobs and return the exit status.

    Parameters
    ----------
    running, scheduled
        Only jobs in these states (Flink's ``-r`` and ``-s``); neither or both: both kinds.
    everything
        Include jobs in a final state (``-a``).
    name
        Only jobs with this name.
    """
    states = wanted_states(running=running, scheduled=scheduled, everything=everything)
    registry, out = session.registry, session.out
    # Select by state before checking the processes, and filter after: a dead job is not running.
    jobs = [
        job
        for job in reconcile(registry, registry.jobs(states=states, name=name))
        if states is None or job.state in states
    ]
    rows = _rows(registry, jobs)
    sys.stdout.write(show(rows, json=out.json, quiet=out.quiet))
    if not rows:
        for line in notice(running=running, scheduled=scheduled, everything=everything, name=name):
            out.note(line)
        if session.absent_registry is not None:
            out.note(f"There is no registry yet: flinkish run makes {session.absent_registry}")
    failed = registry.unacknowledged()
    for line in failed_notice([(job.name, job.job_id) for job in failed]):
        out.note(line)
    return 0


def list_failed(session: Session, *, name: str | None) -> int:
    """Print the jobs that ran and failed and were not acknowledged; return the exit status."""
    jobs = [job for job in unacknowledged(session) if name is None or job.name == name]
    out = session.out
    sys.stdout.write(show(_rows(session.registry, jobs), json=out.json, quiet=out.quiet))
    if not jobs:
        out.note("No failed job that was not acknowledged.")
    return 0


def _rows(registry: Registry, jobs: Sequence[JobRecord]) -> list[dict[str, Any]]:
    """Return the jobs as :func:`flinkish.cli.output.jobs_text.show` takes them."""
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
