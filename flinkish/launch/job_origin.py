"""A job as the origin of a restore: what a savepoint of it would have if it were stopped now."""

from __future__ import annotations

from dataclasses import replace

from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.errors import NoCommittedBatch, WrongState
from flinkish.launch.offline import ever_ran, left_without_batch
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord
from flinkish.spec.calls import JobOrigin
from flinkish.spec.requests import LeftOut


def job_origin(registry: Registry, job: JobRecord) -> JobOrigin:
    """Return what a savepoint of a job would have if it were stopped now.

    Raises
    ------
    WrongState
        The job has no streaming query.
    NoCommittedBatch
        A query has not committed a batch, or its checkpoint is gone.
    NotSavepointable
        No savepoint can be taken of a query.
    """
    queries = registry.queries(job.job_id)
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
    return JobOrigin(
        job.job_id,
        not job.state.is_final,
        tuple(replace(q, plan=None, notes=()) for q in queries if q.name not in empty),
        facts,
        job.spark_version,
        job.launch.working_directory,
        tuple(LeftOut(name, "it had committed no batch") for name in empty),
        ever_ran(registry, job),
    )


def resumed_origin(registry: Registry, job: JobRecord) -> JobOrigin:
    """Return what ``run --resume`` goes on from: a job, and what that had not taken up yet.

    A job that was resumed itself may have ended before its program had started every query. Those
    go on from the job that it was resumed from. Raises as :func:`job_origin`.
    """
    origin = job_origin(registry, job)
    spec = job.launch.restore
    if spec is None or spec.job is None or spec.allow_non_restored:
        return origin
    earlier = resumed_origin(registry, registry.job(spec.job))
    taken: set[str | None] = set()
    for query in registry.queries(job.job_id):
        rows = (query.plan or {}).get("queries", ())
        taken |= {query.name, *(row.get("from") for row in rows)}
    rest = tuple(query for query in earlier.queries if query.name not in taken)
    return replace(
        origin, queries=(*origin.queries, *rest), facts={**earlier.facts, **origin.facts}
    )
