"""A job as the origin of a restore: what a savepoint of it would contain if it were stopped now.

Also the records of savepoints that the registry does not know yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.errors import NoCommittedBatch, WrongState
from flinkish.launch.known_jobs import check_began
from flinkish.launch.offline import left_without_batch
from flinkish.messages.calls import JobOrigin
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.requests import LeftOut, SavedQuery, SavepointSummary
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord
from flinkish.registry.resumed_runs import (
    ever_ran,
    may_be_settled,
    offered_names,
    resumed_runs,
)
from flinkish.savepoint.directory.places import place_keys

if TYPE_CHECKING:
    from flinkish.savepoint.directory.catalog import CatalogEntry


def job_origin(
    registry: Registry, job: JobRecord, only: Collection[str] | None = None
) -> JobOrigin:
    """Return what a savepoint of a job would contain if it were stopped now.

    ``only`` are the names of the requested queries; None for all.

    Raises WrongState if the job has no streaming query, was purged, or ended before it started from
    its savepoint; NoCommittedBatch if no query, or not every active query, has committed a batch,
    or if a checkpoint is gone; StorageError if one cannot be read; and NotSavepointable.
    """
    queries = [q for q in registry.queries(job.job_id) if only is None or q.name in only]
    facts = registry.facts(job.job_id)
    committed = {each.name: newest_committed_batch(each.checkpoint_dir) for each in queries}
    who = f"job {job.name} ({job.job_id})"
    if not job.state.is_final:
        if not queries:
            raise WrongState(
                f"{who} is {job.state.value} and has started no streaming query yet",
                hint=f"wait until it runs; see: flinkish status {job.job_id}",
                job_id=job.job_id,
                state=job.state.value,
            )
        for query in queries:
            if query.active and query.batch_id is None and committed[query.name] is None:
                raise NoCommittedBatch(
                    f"query '{query.name}' of {who} has not committed its first batch yet"
                )
    empty = left_without_batch(job, queries, facts, committed)
    check_began(registry, job)
    return JobOrigin(
        job.job_id,
        not job.state.is_final,
        tuple(replace(q, plan=None, notes=()) for q in queries if q.name not in empty),
        facts,
        job.spark_version,
        job.launch.working_directory,
        (
            *(LeftOut(name, "it had committed no batch") for name in empty),
            *(left_queries(registry, job) if only is None else ()),
        ),
        ever_ran(registry, job),
    )


def left_queries(registry: Registry, job: JobRecord) -> tuple[LeftOut, ...]:
    """Return the queries that a savepoint of a job lacks because the job has not started them.

    Their state is in what the job began with: in a savepoint, or in the checkpoints of earlier runs
    (``run --resume``).
    """
    resumed = resumed_runs(registry, job)
    places = {
        query.name: run.job.checkpoint_dir or run.job.job_id
        for run in reversed(resumed.runs[1:])
        for query in run.queries
        if query.batch_id is not None or query.restored_batch is not None
    }
    if resumed.began_with is not None:
        saved = registry.savepoints(include_disposed=True)
        offered = set(offered_names(resumed.began_with, {}, saved)) - resumed.taken
        places.update({str(name): resumed.began_with.path for name in offered})
    return tuple(not_started(name, place) for name, place in sorted(places.items()))


def not_started(name: str, place: str) -> LeftOut:
    """Return a query of a restored job that its program has not started; ``place`` has its state.

    The query is pending: if a later restore left it out, it would start from the beginning.
    """
    return LeftOut(name, f"the job has not started it; its state is in {place}", pending=True)


def resumed_origin(registry: Registry, job: JobRecord) -> JobOrigin:
    """Return what ``run --resume`` restores: a job, and what the job had not restored yet.

    A job may have ended before its program had started every query. The other queries resume from
    the job or savepoint that the ended job was restored from. Errors are those of
    :func:`job_origin`; only the needed checkpoints of earlier jobs are read.
    """
    origin = job_origin(registry, job)
    resumed = resumed_runs(registry, job)
    queries, facts = list(origin.queries), dict(origin.facts)
    for run in resumed.runs[1:]:
        names = {
            each.name
            for each in run.queries
            if each.batch_id is not None or newest_committed_batch(each.checkpoint_dir) is not None
        }
        if names:
            earlier = job_origin(registry, run.job, names)
            queries += earlier.queries
            facts = {**earlier.facts, **facts}
    return replace(
        origin,
        queries=tuple(queries),
        facts=facts,
        left_out=tuple(each for each in origin.left_out if not each.pending),
        began_with="" if resumed.began_with is None else resumed.began_with.path,
        claimed=resumed.began_with is not None and may_be_settled(registry, resumed.began_with),
        taken=tuple(sorted(resumed.taken, key=str)),
    )


def record_origin(registry: Registry, spec: RestoreSpec | None) -> None:
    """Record the savepoint that a job starts from, so that the registry knows whose state it is."""
    if spec is not None and not spec.is_awaited and spec.job is None:
        record_savepoint(registry, spec.path)


def record_savepoint(registry: Registry, path: str) -> None:
    """Add the savepoint at a location to the registry if it is not recorded, and is readable."""
    from flinkish.savepoint.directory.catalog import read_paths

    add_unknown(registry, read_paths([path]).savepoints)


def add_unknown(registry: Registry, entries: Iterable[CatalogEntry]) -> tuple[str, ...]:
    """Add the savepoints that the registry does not know, or has recorded as disposed.

    Returns the locations of those that were added.
    """
    recorded = {key for record in registry.savepoints() for key in place_keys(record.path)}
    new = []
    for entry in entries:
        keys = place_keys(entry.path)
        if recorded.isdisjoint(keys):
            registry.add_savepoint(_record(entry))
            recorded |= keys
            new.append(entry.path)
    return tuple(new)


def _record(entry: CatalogEntry) -> SavepointSummary:
    header = entry.header
    return SavepointSummary(
        path=entry.path,
        job_id=header.job.job_id,
        created=header.created,
        format=header.format,
        bytes=entry.bytes,
        files=entry.files,
        duration=0.0,  # the savepoint does not record it
        queries=tuple(SavedQuery(q.name, q.batch_id, q.query_id) for q in entry.queries),
        trigger=header.trigger,
    )
