"""Which savepoints running jobs still need, and which are being written, by the registry.

A job that was restored from a savepoint has it to fall back on until its own queries have committed
a batch: before that its checkpoint holds nothing that the savepoint does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.jobs.liveness import reconcile
from flinkish.jobs.model import ACTIVE_STATES, Job, QueryStatus, RequestKind
from flinkish.jobs.registry import Registry


@dataclass(frozen=True)
class InUse:
    """What a prune must know.

    ``protected``: location of a savepoint -> why it stays. ``running``: ids of the jobs that are not
    in a final state. ``writing``: target directory and job id of every savepoint that a request
    has under way.
    """

    protected: Mapping[str, str]
    running: frozenset[str]
    writing: tuple[tuple[str, str], ...]


def savepoints_in_use(registry: Registry) -> InUse:
    """Ask the registry (dead jobs are found to be dead first). Raises RegistryError."""
    jobs = [
        job
        for job in reconcile(registry, registry.jobs(states=ACTIVE_STATES))
        if not job.state.is_final
    ]
    ids = [job.job_id for job in jobs]
    queries = registry.queries_of(ids)
    protected = {}
    for job in jobs:
        if job.launch.restore is not None and not outlived(job, queries.get(job.job_id, [])):
            protected[job.launch.restore.path] = (
                f"job {job.name} ({job.job_id[:6]}) was restored from it and has no commit of its "
                "own yet"
            )
    writing = [
        (str(request.arguments["target"]), request.job_id)
        for job_id in ids
        for request in registry.requests(job_id)
        if not request.state.is_final
        and request.kind in RequestKind
        and request.arguments.get("target")
    ]
    return InUse(protected, frozenset(ids), tuple(writing))


def outlived(job: Job, queries: Sequence[QueryStatus]) -> bool:
    """Whether every query that the job restored has committed a batch of its own. Pure.

    A query says in its plan what it took and at which batch it started. One that the program has
    yet to start cannot be seen: as long as none has started the savepoint is needed.
    """
    entries = [(query, entry) for query in queries for entry in _entries(query)]
    restored = [(query, entry) for query, entry in entries if entry.get("from_batch") is not None]
    if not restored:
        return False
    return all(_has_own_commit(query, entry) for query, entry in restored)


def _entries(query: QueryStatus) -> Iterable[Mapping[str, Any]]:
    """What the query's plan says of the query itself."""
    found = (query.plan or {}).get("queries") or ()
    return [entry for entry in found if entry.get("name") == query.name]


def _has_own_commit(query: QueryStatus, entry: Mapping[str, Any]) -> bool:
    started_at = entry.get("batch_id")
    if started_at is None:
        started_at = entry["from_batch"]
    return query.batch_id is not None and query.batch_id > started_at
