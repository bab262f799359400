"""Facts about other jobs, from the registry, that matter to the start of a job."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flinkish.checkpoint.cut import newest_committed_batch, newest_planned_batch
from flinkish.connectors.registry import sink_connector
from flinkish.errors import JobNotFound, StorageError, Superseded, WrongState
from flinkish.messages.calls import KnownRun, KnownWriter
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.plan import OperatorRow, SourceRow
from flinkish.messages.queries import QueryStatus
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord
from flinkish.registry.liveness import reconcile
from flinkish.registry.resumed_runs import newest_first, newest_run, was_held
from flinkish.storage import one_name, same_place


def known_writers(registry: Registry, own: str | None) -> tuple[KnownWriter, ...]:
    """Return the outputs of the queries of unfinished jobs, except those of the job ``own``."""
    here = os.uname().nodename
    claims = [claim for claim in registry.writers() if claim.job.job_id != own]
    jobs = {claim.job.job_id: claim.job for claim in claims}
    by_id = {job.job_id: job for job in reconcile(registry, jobs.values())}
    queries = {
        (job_id, query.name): query
        for job_id, each in registry.queries_of(list(jobs)).items()
        for query in each
    }
    return tuple(
        KnownWriter(
            job_id=job.job_id,
            name=job.name,
            state=job.state.value,
            query=claim.query,
            place=claim.place,
            is_table=claim.is_table,
            elsewhere=(ref := job.driver or job.supervisor) is not None and ref.host != here,
            last_batch=None if query is None else query.batch_id,
            last_batch_end=None if query is None else query.last_batch_end,
        )
        for claim in claims
        for query in (queries.get((claim.job.job_id, claim.query)),)
        if not (job := by_id[claim.job.job_id]).state.is_final
    )


@dataclass(frozen=True)
class Standing:
    """A run of a job's name, and how far its queries have come.

    ``committed`` is the newest committed batch of each query, by name; None for a query without
    one, or whose checkpoint is gone.
    """

    job: JobRecord
    queries: tuple[QueryStatus, ...]
    committed: Mapping[str, int | None]

    @property
    def batch(self) -> int | None:
        """The newest committed batch of any query, or None."""
        return max((n for n in self.committed.values() if n is not None), default=None)

    @property
    def has_committed(self) -> bool:
        """Whether a query has a committed batch, own or restored, or reported one that is gone."""
        return self.batch is not None or any(q.batch_id is not None for q in self.queries)

    @property
    def is_as_restored(self) -> bool:
        """Whether every query has only the batches that the restore put into its checkpoint."""
        return all(_is_as_restored(query, self.committed[query.name]) for query in self.queries)


def standing(registry: Registry, name: str, but: str | None = None) -> Standing | None:
    """Return the ended run from which a job of the name would resume, or None.

    That is the newest one with a committed batch, be it only a restored one. Runs that
    :func:`never_began` do not count, nor does the run ``but``.
    """
    seen: dict[str, Standing] = {}

    def has_committed(job: JobRecord) -> bool:
        run = seen[job.job_id] = standing_of(registry, job)
        return run.has_committed and not never_began(registry, run)

    runs = (job for job in registry.jobs(name=name) if job.job_id != but)
    job = newest_run(runs, has_committed)
    return None if job is None else seen[job.job_id]


def standing_of(registry: Registry, job: JobRecord) -> Standing:
    """Return a run with the newest committed batches in its checkpoints now."""
    queries = registry.queries(job.job_id)
    return Standing(job, tuple(queries), {query.name: _committed(query) for query in queries})


def never_began(registry: Registry, run: Standing) -> bool:
    """Return whether a restored run ended while its queries were held, before any did anything.

    Its checkpoints lack the saved state that none of its queries had taken.
    """
    return was_held(registry, run.job) and run.is_as_restored


def _is_as_restored(query: QueryStatus, committed: int | None) -> bool:
    """Return whether a checkpoint has only the batches that the restore put there."""
    restored = query.restored_batch
    # A batch that was planned in the savepoint is planned in the new checkpoint from the start.
    possible = (None,) if restored is None else (restored, restored + 1)
    if query.batch_id not in (None, restored):  # reported, and its checkpoint may be gone
        return False
    return committed == restored and _planned(query) in possible


def meant_to_begin(registry: Registry, name: str) -> JobRecord | None:
    """Return the newest run of a name that ended before it started from a savepoint, or None.

    Called for a name that has no :func:`standing`. Later runs without a batch, such as a plain
    ``run`` that was refused, do not count.
    """
    for job in newest_first(registry.jobs(name=name)):
        run = standing_of(registry, job)
        if never_began(registry, run):
            return job
        if run.has_committed:
            return None
    return None


def check_began(registry: Registry, job: JobRecord) -> None:
    """Raise WrongState if the checkpoints of an ended job may lack state that it was to restore.

    See :func:`never_began`.
    """
    spec = job.launch.restore
    if (
        spec is None
        or not job.state.is_final
        or not never_began(registry, standing_of(registry, job))
    ):
        return
    raise WrongState(
        f"job {job.name} ({job.job_id}), which is {job.state.value}, ended before it had started "
        f"from {spec.path}: its checkpoints may lack state that the savepoint has",
        hint=f"use {spec.path} instead; or start the job again with: flinkish restart {job.job_id}",
        job_id=job.job_id,
        state=job.state.value,
    )


def check_stands(registry: Registry, job: JobRecord) -> None:
    """Raise Superseded if the run from which a job resumes is no longer the newest of its name.

    The new driver calls this while its job holds the name: another run may have begun and ended
    between the choice of the run and the launch.
    """
    spec = job.launch.restore
    if spec is None or spec.job is None:
        return
    newest = standing(registry, job.name, but=job.job_id)
    if newest is not None and newest.job.job_id != spec.job:
        # The batch is unknown where its checkpoints are gone.
        at = "" if newest.batch is None else f" to batch {newest.batch}"
        raise Superseded(
            f"job {job.name} ({job.job_id}) was to resume from job {spec.job}, but by now job "
            f"{newest.job.job_id} has continued{at}",
            hint="run the command again; it then resumes from that job",
            job_id=newest.job.job_id,
            state=newest.job.state.value,
        )


def came_from(registry: Registry, job: JobRecord) -> list[str]:
    """Return the ids of the jobs that a job was resumed or restored from, the nearest first."""
    job_ids: list[str] = []
    while job.launch.restore is not None:
        spec = job.launch.restore
        origin = spec.job or _takers(registry).get(one_name(spec.path))
        if origin is None or origin in job_ids:
            break
        job_ids.append(origin)
        try:
            job = registry.job(origin)
        except JobNotFound:
            break
    return job_ids


def runs_under_other_ids(
    registry: Registry, query_id: str, but: str | None = None
) -> list[KnownRun]:
    """Return the runs that went back to an earlier batch of a query, under another query id.

    Runs that resumed from those runs under their query id are included. Forks are not, as they are
    meant to run alongside the query; nor is the job ``but``. Only runs whose sink writes a repeated
    batch again count: they read the same input, so a restore of the query may repeat their rows.
    """
    of_query = registry.find_query(query_id)
    names = {query.name for _, query in of_query}
    jobs = {job.job_id for job, _ in of_query}
    runs: dict[tuple[str, str], KnownRun] = {}
    for job, spec, origin in _restores(registry):
        for query in registry.queries(job.job_id) if origin in jobs else ():
            row = query.planned
            if row is None or row.from_batch is None or row.batch_id is None:
                continue
            if query.query_id == query_id:
                continue
            sink = sink_connector(row.writes.get("format"))
            if not sink.repeats_batches or names.isdisjoint(_origins(query)):
                continue
            own = row.origin in names
            batch = row.from_batch if own else _saved_batch(registry, spec, origin, query_id)
            # A merged query may keep the id of another one, which other jobs ran before.
            before = came_from(registry, job)
            for run, status in registry.find_query(query.query_id):
                if run.job_id != but and run.job_id not in before:
                    newest = max(status.batch_id or 0, _committed(status) or 0, row.batch_id)
                    last = batch + newest - row.batch_id
                    repeats = KnownRun(run.job_id, run.state.value, last, since=batch)
                    runs.setdefault((run.job_id, status.query_id), repeats)
    return list(runs.values())


def _restores(registry: Registry) -> Iterator[tuple[JobRecord, RestoreSpec, str]]:
    """Yield each restored job that is no fork, with the job that it continues, if that is known."""
    saved = _takers(registry)
    for job in registry.jobs():
        spec = job.launch.restore
        if spec is not None and not spec.options.fork:
            yield job, spec, spec.job or saved.get(one_name(spec.path), "")


def _origins(query: QueryStatus) -> set[str | None]:
    """Return the names of the saved queries that a restored query continues; empty for another."""
    plan, begun = query.plan, query.planned
    if plan is None or begun is None or begun.from_batch is None:
        return set()
    rows: list[OperatorRow | SourceRow] = [*plan.operators, *plan.sources]
    taken = [row.origin for row in rows if row.query == query.name and row.verdict != "dropped"]
    return {begun.origin} | {origin.query for origin in taken if origin is not None}


def _saved_batch(registry: Registry, spec: RestoreSpec, job_id: str, query_id: str) -> int:
    """Return the batch from which a restore continued a query of a job, as far as known."""
    numbers = [
        saved.batch_id
        for each in registry.savepoints(include_disposed=True)
        if spec.job is None and same_place(each.path, spec.path)
        for saved in each.queries
        if saved.query_id == query_id
    ]
    if not numbers:
        queries = [each for each in registry.queries(job_id) if each.query_id == query_id]
        numbers = [max(each.batch_id or 0, _committed(each) or 0) for each in queries]
    return max(numbers, default=0)


def read_elsewhere(
    registry: Registry, query_id: str, since: float, but: str | None = None, *, begun: bool = False
) -> int | None:
    """Return the newest batch of the runs that read a query's input under other ids; None if none.

    These are runs, but not of the job ``but``, of queries that restores other than forks connect
    with this one, directly or not, as when one went back to an earlier batch of the other. They
    count if they ran after ``since`` and committed, or with ``begun`` planned, an own batch.
    """
    batches = []
    ids, merged = _related(registry, query_id)
    for other in {*ids, *merged} - {query_id}:
        for job, query in registry.find_query(other):
            if job.job_id == but or (other not in ids and job.job_id not in merged[other]):
                continue
            numbers = query.batch_id, _planned(query) if begun else _committed(query)
            newest = max((n for n in numbers if n is not None), default=None)
            if newest is not None and newest != query.restored_batch:
                has_run_since = job.end_time is None or job.end_time > since
                held = begun and never_began(registry, standing_of(registry, job))
                batches += [newest] if has_run_since and not held else []
    return max(batches, default=None)


def saved_at(registry: Registry, path: str, job_id: str | None) -> float:
    """Return when the restored job ``job_id`` ended; if it is None, when ``path`` was taken.

    Returns 0 for an unknown savepoint, or a job that has not ended. Raises JobNotFound.
    """
    if job_id is not None:
        return registry.job(job_id).end_time or 0.0
    saved = registry.savepoints(include_disposed=True)
    return next((each.created for each in saved if same_place(each.path, path)), 0.0)


def _related(registry: Registry, query_id: str) -> tuple[set[str], dict[str, set[str]]]:
    """Return the queries that chains of restores, other than forks, connect with a query.

    These are the ids of queries that continue one another, and, by id, the jobs in which a query
    also continues one of them: the same id may have had another input before.
    """
    queries = registry.queries_of([job.job_id for job in registry.jobs()])
    near: dict[str, set[str]] = {}
    edges: list[tuple[tuple[str, str], tuple[str, str]]] = []
    for job, _, origin in _restores(registry):
        for query in queries.get(job.job_id, ()):
            names, row = _origins(query), query.planned
            for other in queries.get(origin, ()):
                if row is not None and other.name in names:
                    edges.append(((origin, other.query_id), (job.job_id, query.query_id)))
                    if row.origin == other.name:
                        near.setdefault(query.query_id, set()).add(other.query_id)
                        near.setdefault(other.query_id, set()).add(query.query_id)
    ids, left = {query_id}, [query_id]
    while left:
        added = near.get(left.pop(), set()) - ids
        ids |= added
        left += added
    merged: dict[str, set[str]] = {}
    takers = [taker for (_, other_id), taker in edges if other_id in ids]
    while takers:
        job_id, own_id = taker = takers.pop()
        if job_id not in merged.setdefault(own_id, set()):
            merged[own_id].add(job_id)
            takers += [later for giver, later in edges if giver == taker]
    return ids, merged


def _takers(registry: Registry) -> dict[str, str]:
    """Return the job of each recorded savepoint, by the savepoint's place."""
    savepoints = registry.savepoints(include_disposed=True)
    return {one_name(each.path): each.job_id for each in savepoints}


def _committed(query: QueryStatus) -> int | None:
    try:
        return newest_committed_batch(query.checkpoint_dir)
    except StorageError:
        return None


def _planned(query: QueryStatus) -> int | None:
    try:
        return newest_planned_batch(query.checkpoint_dir)
    except StorageError:
        return None
