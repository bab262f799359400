"""Find the savepoints that jobs still need or are writing, according to the registry alone.

Until the queries of a restored job have committed a batch, the job has no progress beyond its
savepoint, and needs the savepoint as the state to fall back to. It also needs the savepoint for
queries that its program has not started: a program of bounded queries starts them one after the
other. If a restored job was ended before its program had finished, ``run --resume`` needs the
savepoint that the job was restored from (:mod:`.resumed_runs`). If the job was ended before it had
started from that savepoint, ``restart`` needs it. An unfinished upgrade may roll back to its
savepoints, even if the new job has failed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from flinkish.messages.plan import QueryRow
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import SavepointSummary
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import ACTIVE_STATES, JobRecord
from flinkish.registry.liveness import reconcile
from flinkish.registry.resumed_runs import newest_first, resumed_runs, taken_by, was_held
from flinkish.registry.rows import one_place


@dataclass(frozen=True)
class InUse:
    """The savepoints that a prune must keep, and the jobs that it must know of.

    ``protected`` maps the location of a savepoint to the reason why it is kept. ``running`` are the
    ids of the jobs that are not in a final state. ``writing`` has the target directory and job id
    of every savepoint that an unfinished request asks for. ``jobs`` are the ids of all jobs of the
    registry, and of purged jobs whose savepoints it has recorded. ``taken`` are the locations
    of the savepoints that these jobs have taken, ``recorded`` those of all recorded savepoints,
    including imported ones; disposed savepoints are in neither.
    """

    protected: Mapping[str, str]
    running: frozenset[str]
    writing: tuple[tuple[str, str], ...]
    jobs: frozenset[str]
    taken: tuple[str, ...]
    recorded: tuple[str, ...]


def savepoints_in_use(registry: Registry, *, but_for: str | None = None) -> InUse:
    """Return the savepoints in use, after recording the end of jobs that count as lost.

    ``but_for`` is the id of a running job whose own needs do not count. Raises RegistryError.
    """
    active = reconcile(registry, registry.jobs(states=ACTIVE_STATES))
    jobs = [job for job in active if not job.state.is_final]
    savepoints = registry.savepoints(include_disposed=True)
    writing = tuple(
        (request.savepoint.target, job.job_id)
        for job in jobs
        for request in registry.requests(job.job_id)
        if not request.state.is_final and request.savepoint is not None
    )
    all_jobs = registry.jobs()
    # A savepoint without a request was imported, or taken from a plain checkpoint, so its job may
    # not be in this registry.
    own = [savepoint for savepoint in savepoints if savepoint.request_id is not None]
    return InUse(
        dict(_protected(registry, jobs, all_jobs, savepoints, but_for)),
        frozenset(job.job_id for job in jobs),
        writing,
        frozenset([job.job_id for job in all_jobs] + [each.job_id for each in own]),
        tuple(savepoint.path for savepoint in own if savepoint.disposed is None),
        tuple(savepoint.path for savepoint in savepoints if savepoint.disposed is None),
    )


def _protected(
    registry: Registry,
    active: Sequence[JobRecord],
    all_jobs: Sequence[JobRecord],
    savepoints: Sequence[SavepointSummary],
    but_for: str | None,
) -> Iterator[tuple[str, str]]:
    """Yield the savepoints that must stay, with the reasons."""
    for upgrade in registry.unfinished_upgrades():
        for path in (upgrade.savepoint, upgrade.old_savepoint, upgrade.restore.path):
            if path:
                yield path, f"upgrade {upgrade.upgrade_id[:6]} is not finished"
    recorded = {one_place(savepoint.path) for savepoint in savepoints}
    queries = registry.queries_of([job.job_id for job in all_jobs])
    resumable, held = _next_runs(registry, all_jobs, active, queries)
    for job in held:
        spec = job.launch.restore
        if spec is not None and spec.job is None:
            yield (
                spec.path,
                f"job {job.name} ({job.job_id[:6]}) ended before it had started from it",
            )
    needing = [job for job in active if job.job_id != but_for]
    for job in (*resumable, *held, *needing):
        began_with = resumed_runs(registry, job).began_with
        if began_with is not None and one_place(began_with.path) in recorded:
            yield (
                began_with.path,
                f"job {job.name} ({job.job_id[:6]}) resumes from it and has not started all of its "
                "queries yet",
            )
    for job in needing:
        spec = job.launch.restore
        if spec is not None and not spec.is_awaited and not outlived(queries.get(job.job_id, ())):
            yield (
                spec.path,
                f"job {job.name} ({job.job_id[:6]}) was restored from it and has no commit of its "
                "own yet",
            )


def _next_runs(
    registry: Registry,
    all_jobs: Sequence[JobRecord],
    active: Sequence[JobRecord],
    queries: Mapping[str, Sequence[QueryStatus]],
) -> tuple[list[JobRecord], list[JobRecord]]:
    """Return the runs that decide what the next run of a name restores.

    Only records are read, and the names of active jobs are left out. The first list has the
    restored runs that ``run --resume`` may resume from. The second list has, for each name, the
    newest run that may have ended before it started from its savepoint, if no later run has a
    batch. ``restart`` starts such a run from that savepoint, which the error of ``run --resume``
    names.
    """
    active_names = {job.name for job in active}
    runs: dict[str, list[JobRecord]] = {}
    for job in all_jobs:
        if job.name not in active_names:
            runs.setdefault(job.name, []).append(job)
    resumable, held = [], []
    for each in runs.values():
        newest_held = None
        for job in newest_first(each):
            of_job = queries.get(job.job_id, ())
            as_restored = all(q.batch_id in (None, q.restored_batch) for q in of_job)
            if as_restored and was_held(registry, job):
                newest_held = newest_held or job
            elif any(query.batch_id is not None for query in of_job):
                resumable += [job] if job.launch.restore is not None else []
                break
        held += [newest_held] if newest_held is not None else []
    return resumable, held


def outlived(queries: Sequence[QueryStatus], offered: Collection[str | None] = ()) -> bool:
    """Return whether a job no longer needs the savepoint it was restored from. Pure.

    That is so when at least one query was restored, every restored query has committed a batch of
    its own, and no saved query is left for a query that the program has not started yet (it may
    start its next query only after a bounded one has ended; see
    ``flinkish.driver.runtime.restore_gate``). The plan of a query records what the query restored
    and at which batch it started.

    ``offered`` are the names of the saved queries that the job began with
    (:func:`.resumed_runs.offered_names`).
    """
    restored = [
        (query, row)
        for query in queries
        if (row := query.planned) is not None and row.from_batch is not None
    ]
    return (
        bool(restored)
        and all(_has_own_commit(query, row) for query, row in restored)
        and set(offered) <= taken_by(queries)
    )


def _has_own_commit(query: QueryStatus, row: QueryRow) -> bool:
    started_at = row.from_batch if row.batch_id is None else row.batch_id
    if query.batch_id is None or started_at is None:
        return False
    return query.batch_id > started_at
