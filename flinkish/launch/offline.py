"""Savepoints without a driver: from which jobs they may be taken, and under which job id.

A dead job leaves the checkpoints of its queries and, in the registry, the facts that only its
driver knew (:class:`~flinkish.messages.queries.QueryFacts`). For a checkpoint not written by
flinkish there is only the checkpoint itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress

from flinkish import storage
from flinkish.errors import NoCommittedBatch, StorageError, UnsafePath, WrongState, from_record
from flinkish.messages.queries import QueryFacts, QueryStatus
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord
from flinkish.registry.liveness import reconcile
from flinkish.registry.purging import why_purged
from flinkish.savepoint.directory.leases import Kind, Lease

#: Seconds after the last write to a checkpoint's logs during which its query may be running.
RECENT = 300.0


def check_savable(
    job: JobRecord,
    queries: Sequence[QueryStatus],
    facts: Mapping[str, QueryFacts],
    committed: Mapping[str, int | None],
) -> list[str]:
    """Return what :func:`left_without_batch` does; raise WrongState for a job that is not dead."""
    if not job.state.is_final:
        raise WrongState(
            f"job {job.name} ({job.job_id}) is {job.state.value}: its driver takes its savepoints"
        )
    return left_without_batch(job, queries, facts, committed)


def left_without_batch(
    job: JobRecord,
    queries: Sequence[QueryStatus],
    facts: Mapping[str, QueryFacts],
    committed: Mapping[str, int | None],
) -> list[str]:
    """Return the names of the queries that a savepoint omits because they have no batch.

    The savepoint is taken from a job's checkpoints. ``facts`` (which the driver recorded) and
    ``committed`` (the newest committed batch in the checkpoint now) are by query name. Raises
    WrongState if the job never had a query or was purged, NoCommittedBatch if no query has
    committed a batch or a checkpoint is gone, and NotSavepointable as the driver would.
    """
    who = f"job {job.name} ({job.job_id})"
    purged = why_purged(job)
    if purged is not None:
        raise purged
    if not queries:
        raise WrongState(
            f"{who} is {job.state.value} and never started a streaming query",
            hint="only streaming queries can be saved; see what the job did with: "
            f"flinkish logs {job.job_id}",
            job_id=job.job_id,
            state=job.state.value,
        )
    empty = [q.name for q in queries if committed.get(q.name) is None and q.batch_id is None]
    for query in queries:
        if query.name in empty and len(empty) < len(queries):
            continue
        fact = facts.get(query.name)
        if fact is not None and fact.problem is not None:
            reason = from_record(fact.problem)
            reason.message = f"query '{query.name}': {reason.message}"
            raise reason
        if committed.get(query.name) is None:
            raise NoCommittedBatch(
                f"{who} is {job.state.value}, and the checkpoint {query.checkpoint_dir} of its "
                f"query '{query.name}' has no committed batch, or is gone",
                hint="nothing is left of that query; see the job's savepoints with: "
                f"flinkish status {job.job_id}",
                job_id=job.job_id,
                state=job.state.value,
            )
    return empty


def parent_of_checkpoints(job: JobRecord | None) -> str | None:
    """Return where flinkish has placed a job's own directory of checkpoints, if it has."""
    if job is None or not job.checkpoint_dir:
        return None
    own = job.checkpoint_dir.rstrip("/")
    return storage.parent(own) if storage.base_name(own) == job.job_id else None


@contextmanager
def kept_from_purge(job: JobRecord | None, owner: str) -> Iterator[None]:
    """Hold a lease beside an ended job's checkpoints while they are read: a purge keeps them.

    If nothing can be written there, they are read without a lease. ``owner`` is ``user@host``.
    """
    directory = parent_of_checkpoints(job)
    with ExitStack() as held:
        with suppress(StorageError, UnsafePath):
            if job is not None and directory is not None and storage.exists(directory):
                lease = Lease.take(directory, Kind.REWRITE, owner=owner, job_id=job.job_id)
                held.enter_context(lease)
        yield


def check_owner(registry: Registry, query_id: str, checkpoint: str) -> None:
    """Refuse a checkpoint to which a job that is not dead writes; WrongState names the job.

    A job is the owner when its query has the same id and the same checkpoint. Restored jobs may
    share the id with a query whose old checkpoint still exists.
    """
    for job, query in registry.find_query(query_id):
        if not storage.same_place(query.checkpoint_dir, checkpoint):
            continue
        (owner,) = reconcile(registry, [job])
        if not owner.state.is_final:
            raise WrongState(
                f"the checkpoint {checkpoint} is that of query '{query.name}' of job {owner.name} "
                f"({owner.job_id}), which is {owner.state.value}",
                hint=f"take its savepoint with: flinkish savepoint {owner.job_id} TARGET",
                job_id=owner.job_id,
                state=owner.state.value,
            )


def job_id_of(query_ids: Iterable[str]) -> str:
    """Return a job id for checkpoints without a job; the same queries give the same id."""
    text = "\n".join(sorted(query_ids))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def may_be_running(last_written: float, now: float) -> bool:
    """Return whether a process may be writing to a checkpoint; both are seconds since the epoch.

    A time in the future comes from a wrong clock and counts as running.
    """
    return last_written > now - RECENT
