"""What ``run --resume`` restores, according to the registry alone: earlier runs of a job's name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from flinkish.errors import JobNotFound
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.plan import OperatorRow, RestorePlan, SourceRow
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import SavepointSummary
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, RequestKind, RequestState
from flinkish.registry.rows import one_place


@dataclass(frozen=True)
class ResumedRun:
    """A job that ``run --resume`` resumes from, and its queries that no later run has restored."""

    job: JobRecord
    queries: tuple[QueryStatus, ...]


@dataclass(frozen=True)
class ResumedRuns:
    """What ``run --resume`` restores: a job's newest run, and what that run had not restored yet.

    ``runs`` are the newest run and the runs before it, back to the oldest that still has a query to
    restore, or back to the one that started from the savepoint of ``began_with``. ``taken`` are the
    names of the saved queries that the runs have restored, or dropped with consent; None stands for
    a plain checkpoint's query. ``began_with`` is the restore from a savepoint that the earliest run
    began with, if queries of that savepoint may not have been restored yet.
    """

    runs: tuple[ResumedRun, ...]
    taken: frozenset[str | None]
    began_with: RestoreSpec | None = None


def newest_first(runs: Iterable[JobRecord]) -> list[JobRecord]:
    """Return the runs that have ended, the last to end first. Pure.

    A run comes after those that have resumed from it, even if the clock was set back and their end
    times are in the wrong order.
    """
    ended = [job for job in runs if job.state.is_final]
    ended.sort(key=lambda job: (job.end_time or 0.0, job.start_time), reverse=True)
    resumed: dict[str, list[JobRecord]] = {}
    for job in ended:
        if job.launch.restore is not None and job.launch.restore.job is not None:
            resumed.setdefault(job.launch.restore.job, []).append(job)
    ordered: dict[str, JobRecord] = {}
    for job in ended:
        pending = [job]
        while pending:
            later = [e for e in resumed.pop(pending[-1].job_id, ()) if e.job_id not in ordered]
            if later:
                pending += reversed(later)
            else:
                ordered.setdefault(pending[-1].job_id, pending.pop())
    return list(ordered.values())


def newest_run(
    runs: Iterable[JobRecord], has_committed: Callable[[JobRecord], bool]
) -> JobRecord | None:
    """Return the run from which a job would resume: the newest that has ended and committed.

    ``runs`` are the runs to choose from, all of one name. ``has_committed`` returns whether any
    query of a run has committed a batch.
    """
    return next((job for job in newest_first(runs) if has_committed(job)), None)


def ever_ran(registry: Registry, job: JobRecord) -> bool:
    """Return whether a job ever was RUNNING: its program started its queries, as far as known."""
    return any(each.state is JobState.RUNNING for each in registry.state_history(job.job_id))


def was_held(registry: Registry, job: JobRecord) -> bool:
    """Return whether the queries of a restored job may never have been released to run.

    A job whose queries were not released was refused, killed or canceled before it was known
    whether all state has an owner, however its end was recorded. Only its checkpoints show whether
    a query has run (``flinkish.launch.known_jobs``).
    """
    spec = job.launch.restore
    if spec is None or spec.is_awaited or ever_ran(registry, job):
        return False
    return not _ended_by_itself(registry, job)


def resumed_runs(registry: Registry, job: JobRecord) -> ResumedRuns:
    """Return the runs that the next one resumes from, according to their records alone.

    A run whose program finished by itself has started all queries, or dropped them with consent, so
    the runs before it are no longer needed. A run without a record was purged, because nothing
    needed it.
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
    """Return whether a job's program ran to its end, and was not ended by ``stop``."""
    return job.state is JobState.FINISHED and not any(
        each.kind is RequestKind.STOP and each.state is RequestState.COMPLETED
        for each in registry.requests(job.job_id)
    )


def taken_by(queries: Iterable[QueryStatus]) -> set[str | None]:
    """Return the names of the saved queries that a job restored, or dropped with consent. Pure.

    The queries' own names are among them. A query may take the positions of several saved queries.
    If the plan records positions, a saved query whose state alone was taken does not count as
    restored: it may still be resumed without that state.
    """
    names: set[str | None] = set()
    for query in queries:
        names.add(query.name)
        plan = query.plan or RestorePlan()
        names |= {row.origin for row in plan.queries if row.from_batch is not None}
        rows: list[OperatorRow | SourceRow] = [*plan.sources]
        rows += [row for row in plan.operators if not plan.sources or row.verdict == "dropped"]
        names |= {row.origin.query for row in rows if row.origin is not None}
    return names


def _recorded_names(
    savepoints: Iterable[SavepointSummary], path: str
) -> frozenset[str | None] | None:
    """Return the names of a savepoint's queries; None if the registry does not know it."""
    place = one_place(path)
    record = next((each for each in savepoints if one_place(each.path) == place), None)
    if record is None:
        return None
    return frozenset(query.name for query in record.queries)


def may_be_settled(registry: Registry, began_with: RestoreSpec) -> bool:
    """Return whether the claim of a run may have deleted the savepoint of ``began_with``.

    If the registry knows the queries of the savepoint, one of them has no owner, and what deleted
    the savepoint was not the claim.
    """
    saved = registry.savepoints(include_disposed=True)
    return began_with.options.claim_mode == "claim" and not offered_names(began_with, {}, saved)


def offered_names(
    spec: RestoreSpec,
    runs: Mapping[str, Sequence[QueryStatus]],
    savepoints: Iterable[SavepointSummary],
) -> Collection[str | None]:
    """Return the names of the saved queries that a restore offered, as far as known.

    ``runs`` are the queries of each job; ``savepoints`` are all that were recorded.
    """
    if spec.job is not None:
        return {query.name for query in runs.get(spec.job, ()) if _has_batch(query)}
    names = _recorded_names(savepoints, spec.path)
    return _names_below(spec.path, runs) if names is None else names


def _names_below(directory: str, runs: Mapping[str, Sequence[QueryStatus]]) -> set[str]:
    """Return the names of the known checkpoints in a directory: those of their own directories."""
    place = one_place(directory)
    checkpoints = (
        query.checkpoint_dir.rstrip("/").rpartition("/")
        for queries in runs.values()
        for query in queries
        if _has_batch(query)
    )
    return {name for parent, _, name in checkpoints if one_place(parent) == place}


def _has_batch(query: QueryStatus) -> bool:
    return query.batch_id is not None or query.restored_batch is not None
