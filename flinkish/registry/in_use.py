"""Which savepoints running jobs still need, and which are being written, according to the registry.

A restored job needs its savepoint as a fallback until its own queries have committed a batch:
before that, its checkpoint holds nothing that the savepoint does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import ACTIVE_STATES, QueryStatus
from flinkish.registry.liveness import reconcile


@dataclass(frozen=True)
class InUse:
    """What a prune must know.

    Attributes
    ----------
    protected
        Location of a savepoint -> the reason why it is kept.
    running
        Ids of the jobs that are not in a final state.
    writing
        Target directory and job id of every savepoint that an unfinished request is writing.
    jobs
        Ids of all jobs of the registry, and of purged ones whose savepoints it has recorded.
    taken
        Locations of the savepoints that its jobs have taken.
    recorded
        Locations of all savepoints that it has recorded, imported ones too.
    """

    protected: Mapping[str, str]
    running: frozenset[str]
    writing: tuple[tuple[str, str], ...]
    jobs: frozenset[str]
    taken: tuple[str, ...]
    recorded: tuple[str, ...]


def savepoints_in_use(registry: Registry) -> InUse:
    """Return what the registry knows; jobs whose driver is dead are ignored.

    Raises RegistryError.
    """
    found = reconcile(registry, registry.jobs(states=ACTIVE_STATES))
    jobs = [job for job in found if not job.state.is_final]
    queries = registry.queries_of([job.job_id for job in jobs])
    protected = {
        job.launch.restore.path: f"job {job.name} ({job.job_id[:6]}) was restored from it and has "
        "no commit of its own yet"
        for job in jobs
        if job.launch.restore is not None
        and not job.launch.restore.is_awaited
        and not outlived(queries.get(job.job_id, ()))
    }
    writing = tuple(
        (request.savepoint.target, job.job_id)
        for job in jobs
        for request in registry.requests(job.job_id)
        if not request.state.is_final and request.savepoint is not None
    )
    savepoints = registry.savepoints(include_disposed=True)
    # One without a request was imported, or taken of a foreign checkpoint: its job is another's.
    own = [savepoint for savepoint in savepoints if savepoint.request_id is not None]
    return InUse(
        protected,
        frozenset(job.job_id for job in jobs),
        writing,
        frozenset([job.job_id for job in registry.jobs()] + [each.job_id for each in own]),
        tuple(savepoint.path for savepoint in own if savepoint.disposed is None),
        tuple(savepoint.path for savepoint in savepoints if savepoint.disposed is None),
    )


def outlived(queries: Sequence[QueryStatus]) -> bool:
    """Return whether every restored query of a job has committed a batch of its own. Pure.

    The plan of a query records what it restored and at which batch it started. Queries that the
    program has not started yet can be ignored: no restored query commits before every query in the
    savepoint has an owner (``flinkish.driver.runtime.restore_gate``).
    """
    restored = [
        (query, entry)
        for query in queries
        for entry in _plans(query)
        if entry.get("from_batch") is not None
    ]
    return bool(restored) and all(_has_own_commit(query, entry) for query, entry in restored)


def _plans(query: QueryStatus) -> Sequence[Mapping[str, Any]]:
    """Return a query's own entries in its plan (see ``flinkish.restore.plan.document``)."""
    found = (query.plan or {}).get("queries") or ()
    return [entry for entry in found if entry.get("name") == query.name]


def _has_own_commit(query: QueryStatus, entry: Mapping[str, Any]) -> bool:
    started_at = entry.get("batch_id")
    if started_at is None:
        started_at = entry["from_batch"]
    return query.batch_id is not None and query.batch_id > started_at
