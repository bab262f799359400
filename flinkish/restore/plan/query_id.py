"""The decision whether a restored query keeps the query id of the savepoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from flinkish.checkpoint.cut import newest_committed_batch, newest_planned_batch
from flinkish.checkpoint.discovery import query_id_of
from flinkish.errors import Corrupt, StorageError
from flinkish.messages.calls import KnownRun


class RunState(Protocol):
    """The state of a job (``flinkish.registry.jobs.JobState``)."""

    @property
    def value(self) -> str:
        """Its name."""

    @property
    def is_final(self) -> bool:
        """Whether the job has ended."""


class CommittingQuery(Protocol):
    """A job's query as the registry knows it (``flinkish.messages.queries.QueryStatus``)."""

    @property
    def checkpoint_dir(self) -> str:
        """The location of its Spark checkpoint."""

    @property
    def batch_id(self) -> int | None:
        """The newest batch that it has reported."""


@dataclass(frozen=True)
class OtherRun:
    """A job that ran the same Spark query id, or went on from it, as the registry knows the job.

    ``begun_batch`` is the newest batch that its log has planned, committed or not; None if unknown.
    If the job went on under another query id, ``since`` is the batch after which it did, and the
    numbers up to ``last_batch`` continue from ``since``.
    """

    job_id: str
    state: RunState
    last_batch: int | None
    begun_batch: int | None = None
    since: int | None = None

    @staticmethod
    def of(run: KnownRun, state: RunState) -> OtherRun:
        """Return a run that a client reports to a driver; ``state`` is the one named by ``run``."""
        return OtherRun(run.job_id, state, run.last_batch, run.begun_batch, run.since)


@dataclass(frozen=True)
class QueryIdentity:
    """The decision whether the restored query keeps the savepoint's query id, and its reason.

    Attributes
    ----------
    goes_back
        Whether the query gets a new id because its job went on after the savepoint, or because it
        continues a query of another name.
    in_use
        Whether a job still runs with the savepoint's query id.
    may_keep
        Whether ``--sink-ahead accept`` may keep the savepoint's query id: no other query may.
    """

    keep: bool
    reason: str
    goes_back: bool = False
    in_use: bool = False
    may_keep: bool = True


def decide_query_id(batch_id: int, runs: Sequence[OtherRun], *, fork: bool) -> QueryIdentity:
    """Decide between the savepoint's query id and a new one.

    Some sinks remember pairs of a query id and a batch id, such as Delta in its transaction ids, or
    user code in ``foreachBatch``. A job that simply continues keeps the id and the batch numbers.
    If the original also continues, or has continued beyond this savepoint, the same pair would
    stand for other data, and these sinks would regard the new job's batches as repetitions. The
    query then needs a new id.

    ``batch_id`` is the savepoint's committed batch of this query; ``runs`` are all other jobs that
    ever ran this query id.
    """
    running = next((run for run in runs if not run.state.is_final), None)
    if fork:
        return QueryIdentity(False, "requested by --fork", in_use=running is not None)
    if running is not None:
        why = f"job {running.job_id} is still {running.state.value} with it"
        return QueryIdentity(False, why, in_use=True)
    for run in runs:
        if run.last_batch is not None and run.last_batch > batch_id:
            return QueryIdentity(
                False,
                f"job {run.job_id} went on to batch {run.last_batch} after batch {batch_id}",
                goes_back=True,
            )
    return QueryIdentity(True, "the job it comes from ended with this batch")


def newest_begun(query: CommittingQuery, query_id: str) -> int | None:
    """Return the newest batch that another job has planned, by its offset log; None if unknown.

    ``query_id`` is the Spark query id that the job ran.
    """
    try:
        is_its_own = query_id_of(query.checkpoint_dir) == query_id
        return newest_planned_batch(query.checkpoint_dir) if is_its_own else None
    except (Corrupt, StorageError):
        return None  # not a local checkpoint, or not its own any more


def newest_batch(query: CommittingQuery, query_id: str | None = None) -> int | None:
    """Return the newest batch that another job committed; None if unknown.

    The registry's number is only as recent as the last heartbeat, so the job's commit log counts
    too, if it still exists. A log of another Spark query id than ``query_id``, if that is given,
    does not count, because the directory was deleted, and another query has begun there.
    """
    try:
        is_its_own = query_id is None or query_id_of(query.checkpoint_dir) == query_id
        batch = newest_committed_batch(query.checkpoint_dir) if is_its_own else None
    except (Corrupt, StorageError):
        batch = None  # not a local checkpoint
    numbers = [number for number in (batch, query.batch_id) if number is not None]
    return max(numbers, default=None)
