"""What jobs still need of what they began with, and what is being written, by the registry alone.

A restored job needs its savepoint as a fallback until its own queries have committed a batch:
before that, its checkpoint holds nothing that the savepoint does not. It also needs it for queries
that its program has not started: a program of bounded queries starts one behind the other. So does
``run --resume`` after a job that was ended before its program was through (:func:`resumed_runs`).
An upgrade that is not finished goes back to its savepoints, whatever became of the new job.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.errors import JobNotFound
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import (
    ACTIVE_STATES,
    JobRecord,
    JobState,
    QueryStatus,
    RequestKind,
    RequestState,
    RestoreSpec,
    SavepointRecord,
)
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


@dataclass(frozen=True)
class ResumedRun:
    """A job that ``run --resume`` goes on from, and those of its queries that no later run took."""

    job: JobRecord
    queries: tuple[QueryStatus, ...]


@dataclass(frozen=True)
class ResumedRuns:
    """What ``run --resume`` goes on from: the newest run of a job, and what that had not taken up.

    Attributes
    ----------
    runs
        The newest run, and the ones before it, up to the last of which a query is still to be
        taken.
    taken
        The names of the saved queries that the runs have taken or dropped by consent. None is that
        of a plain checkpoint.
    began_with
        The restore from a savepoint that the first of the runs began with, if queries of it may be
        left.
    """

    runs: tuple[ResumedRun, ...]
    taken: frozenset[str | None]
    began_with: RestoreSpec | None = None


def resumed_runs(registry: Registry, job: JobRecord) -> ResumedRuns:
    """Return the runs that the next one goes on from, by their records alone.

    A run whose program has ended by itself has started all queries, or dropped them by consent: the
    runs before it are needed no more. A run whose record is gone was not needed when it was purged.
    """
    taken: set[str | None] = set()
    runs: list[ResumedRun] = []
    began_with: RestoreSpec | None = None
    following: JobRecord | None = job
    while following is not None:
        run, following = following, None
        queries = registry.queries(run.job_id)
        runs.append(ResumedRun(run, tuple(q for q in queries if q.name not in taken)))
        taken |= taken_by(queries)
        spec = run.launch.restore
        if spec is None or spec.is_awaited or _ended_by_itself(registry, run):
            break
        if spec.job is None:
            names = _recorded_names(registry.savepoints(include_disposed=True), spec.path)
            began_with = spec if names is None or not names <= taken else None
            break
        try:
            following = registry.job(spec.job)
        except JobNotFound:
            break
    while began_with is None and len(runs) > 1 and not runs[-1].queries:
        runs.pop()
    return ResumedRuns(tuple(runs), frozenset(taken), began_with)


def _ended_by_itself(registry: Registry, job: JobRecord) -> bool:
    """Return whether a job's program went on to its end: no ``stop`` has ended it."""
    return job.state is JobState.FINISHED and not any(
        each.kind is RequestKind.STOP and each.state is RequestState.COMPLETED
        for each in registry.requests(job.job_id)
    )


def taken_by(queries: Iterable[QueryStatus]) -> set[str | None]:
    """Return the names of the saved queries that a job's queries took or dropped by consent. Pure.

    The queries' own names are among them: whatever they began with, they have gone on. A query may
    take the positions of several saved ones. The state alone of another one does not count, as long
    as the plan knows positions: that one may go on without it.
    """
    found: set[str | None] = set()
    for query in queries:
        found.add(query.name)
        plan = query.plan or {}
        for row in plan.get("queries") or ():
            if row.get("from_batch") is not None:
                found.add(row.get("from"))
        operators, sources = plan.get("operators") or (), plan.get("sources") or ()
        rows = [row for row in operators if not sources or row.get("verdict") == "dropped"]
        found |= {row["from"].get("query") for row in (*rows, *sources) if row.get("from")}
    return found


def _recorded_names(
    savepoints: Iterable[SavepointRecord], path: str
) -> frozenset[str | None] | None:
    """Return the names of a savepoint's queries; None if the registry does not know it."""
    record = next((each for each in savepoints if each.path == path), None)
    if record is None:
        return None
    return frozenset(str(query["name"]) for query in record.queries if query.get("name"))


def offered_names(
    spec: RestoreSpec,
    runs: Mapping[str, Sequence[QueryStatus]],
    savepoints: Iterable[SavepointRecord],
) -> Collection[str | None]:
    """Return the names of the queries that a job began with, as far as they are known. Pure.

    Parameters
    ----------
    runs
        The queries of each job.
    savepoints
        All that were recorded.
    """
    if spec.job is None:
        return _recorded_names(savepoints, spec.path) or frozenset()
    return {
        query.name
        for query in runs.get(spec.job, ())
        if query.batch_id is not None or query.restored_batch is not None
    }


def savepoints_in_use(registry: Registry) -> InUse:
    """Return what the registry knows; jobs whose driver is dead are ignored.

    Raises RegistryError.
    """
    found = reconcile(registry, registry.jobs(states=ACTIVE_STATES))
    jobs = [job for job in found if not job.state.is_final]
    savepoints = registry.savepoints(include_disposed=True)
    writing = tuple(
        (request.savepoint.target, job.job_id)
        for job in jobs
        for request in registry.requests(job.job_id)
        if not request.state.is_final and request.savepoint is not None
    )
    everyone = registry.jobs()
    # One without a request was imported, or taken of a foreign checkpoint: its job is another's.
    own = [savepoint for savepoint in savepoints if savepoint.request_id is not None]
    return InUse(
        dict(_protected(registry, jobs, everyone, savepoints)),
        frozenset(job.job_id for job in jobs),
        writing,
        frozenset([job.job_id for job in everyone] + [each.job_id for each in own]),
        tuple(savepoint.path for savepoint in own if savepoint.disposed is None),
        tuple(savepoint.path for savepoint in savepoints if savepoint.disposed is None),
    )


def _protected(
    registry: Registry,
    active: Sequence[JobRecord],
    everyone: Sequence[JobRecord],
    savepoints: Sequence[SavepointRecord],
) -> Iterator[tuple[str, str]]:
    """Yield the savepoints that must stay, with the reasons."""
    for upgrade in registry.unfinished_upgrades():
        for path in (upgrade.savepoint, upgrade.old_savepoint, upgrade.restore.path):
            if path:
                yield path, f"upgrade {upgrade.upgrade_id[:6]} is not finished"
    recorded = {savepoint.path for savepoint in savepoints}
    queries = registry.queries_of([job.job_id for job in everyone])
    for job in (*_standing(everyone, active, queries), *active):
        began_with = resumed_runs(registry, job).began_with
        if began_with is not None and began_with.path in recorded:
            yield (
                began_with.path,
                f"job {job.name} ({job.job_id[:6]}) goes on from it and has not started all of its "
                "queries yet",
            )
    for job in active:
        spec = job.launch.restore
        if spec is not None and not spec.is_awaited and not outlived(queries.get(job.job_id, ())):
            yield (
                spec.path,
                f"job {job.name} ({job.job_id[:6]}) was restored from it and has no commit of its "
                "own yet",
            )


def _standing(
    everyone: Sequence[JobRecord],
    active: Sequence[JobRecord],
    queries: Mapping[str, Sequence[QueryStatus]],
) -> Iterator[JobRecord]:
    """Yield the newest run of each name that ``run --resume`` may go on from, if it restored."""
    seen = {job.name for job in active}
    ended = [job for job in everyone if job.state.is_final]
    for job in sorted(ended, key=lambda job: (job.end_time or 0.0, job.start_time), reverse=True):
        if job.name in seen or not (job.launch.resumes or job.has_given_name):
            continue
        if any(query.batch_id is not None for query in queries.get(job.job_id, ())):
            seen.add(job.name)
            if job.launch.restore is not None:
                yield job


def outlived(queries: Sequence[QueryStatus], offered: Collection[str | None] = ()) -> bool:
    """Return whether a job needs what it began with no more. Pure.

    Every restored query has committed a batch of its own, and none is left for a query that the
    program has not started yet: a program that waits for a bounded query may start the next only
    after it (``flinkish.driver.runtime.restore_gate``). The plan of a query records what it
    restored and at which batch it started.

    Parameters
    ----------
    offered
        The names of the queries that it began with (:func:`offered_names`).
    """
    restored = [
        (query, entry)
        for query in queries
        for entry in _plans(query)
        if entry.get("from_batch") is not None
    ]
    return (
        bool(restored)
        and all(_has_own_commit(query, entry) for query, entry in restored)
        and set(offered) <= taken_by(queries)
    )


def _plans(query: QueryStatus) -> Sequence[Mapping[str, Any]]:
    """Return a query's own entries in its plan (see ``flinkish.restore.plan.document``)."""
    found = (query.plan or {}).get("queries") or ()
    return [entry for entry in found if entry.get("name") == query.name]


def _has_own_commit(query: QueryStatus, entry: Mapping[str, Any]) -> bool:
    started_at = entry.get("batch_id")
    if started_at is None:
        started_at = entry["from_batch"]
    return query.batch_id is not None and query.batch_id > started_at
