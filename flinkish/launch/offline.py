"""Savepoints without a driver: of what they may be taken, and under whose name.

A job that is dead has left the checkpoints of its queries, and in the registry what only its
driver knew (:class:`~flinkish.spec.queries.QueryFacts`). A checkpoint that flinkish never saw has
itself only.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence

from flinkish.errors import NoCommittedBatch, WrongState, from_record
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, QueryFacts, QueryStatus
from flinkish.registry.liveness import reconcile

#: The trigger that savepoints without a driver have in their metadata and in the registry.
TRIGGER = "offline"
#: Seconds after the last write to a checkpoint's logs in which its query may well be running.
RECENT = 300.0


def check_savable(
    job: JobRecord,
    queries: Sequence[QueryStatus],
    facts: Mapping[str, QueryFacts],
    committed: Mapping[str, int | None],
) -> list[str]:
    """Refuse a dead job that a savepoint cannot be taken of.

    Returns the names of the queries that it is without: they committed nothing, as far as their
    driver has reported.

    Parameters
    ----------
    facts, committed: by query name what its driver left to know, and the newest committed batch of
        its checkpoint as it is now.

    Raises WrongState: it never had a query, or is not dead; NoCommittedBatch: no query has
    committed anything, or the checkpoint of one that had is gone; NotSavepointable, as the driver
    would have.
    """
    who = f"job {job.name} ({job.job_id})"
    if not job.state.is_final:
        raise WrongState(f"{who} is {job.state.value}: its driver takes its savepoints")
    if not queries:
        raise WrongState(
            f"{who} is {job.state.value} and never started a streaming query",
            hint="a savepoint is of streaming queries; see what it did with: "
            f"flinkish logs {job.job_id}",
            job_id=job.job_id,
            state=job.state.value,
        )
    empty = [q.name for q in queries if committed.get(q.name) is None and q.batch_id is None]
    for query in queries:
        if query.name in empty and len(empty) < len(queries):
            continue
        known = facts.get(query.name)
        if known is not None and known.problem is not None:
            reason = from_record(known.problem)
            reason.message = f"query '{query.name}': {reason.message}"
            raise reason
        if committed.get(query.name) is None:
            raise NoCommittedBatch(
                f"{who} is {job.state.value}, and the checkpoint {query.checkpoint_dir} of its "
                f"query '{query.name}' has no committed batch, or is gone",
                hint="nothing is left of it; see its savepoints with: "
                f"flinkish status {job.job_id}",
                job_id=job.job_id,
                state=job.state.value,
            )
    return empty


def check_owner(registry: Registry, query_id: str, checkpoint: str) -> None:
    """Refuse a checkpoint that a job which is not dead writes to: WrongState names the job.

    A job is the owner when its query has the same id and the same checkpoint; restored jobs may
    have the id of a query whose old checkpoint is still there.
    """
    for job, query in registry.find_query(query_id):
        if _place(query.checkpoint_dir) != _place(checkpoint):
            continue
        (found,) = reconcile(registry, [job])
        if not found.state.is_final:
            raise WrongState(
                f"the checkpoint {checkpoint} is that of query '{query.name}' of job {found.name} "
                f"({found.job_id}), which is {found.state.value}",
                hint=f"take its savepoint with: flinkish savepoint {found.job_id} TARGET",
                job_id=found.job_id,
                state=found.state.value,
            )


def _place(location: str) -> str:
    """One name for one local directory, whatever links lead there."""
    return os.path.realpath(location) if location.startswith("/") else location


def job_id_of(query_ids: Iterable[str]) -> str:
    """A job id for checkpoints that no job of flinkish has: the same for the same queries."""
    text = "\n".join(sorted(query_ids))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def may_be_running(last_written: float, now: float) -> bool:
    """Whether somebody may be writing to a checkpoint; both in seconds since the epoch.

    A time in the future is a clock that goes wrong, and no reason to be sure.
    """
    return last_written > now - RECENT
