"""Decisions of a restore, as pure functions: which state a query takes, and under which id."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum

from flinkish.errors import NonRestoredState
from flinkish.jobs.model import JobState


class Take(Enum):
    """What a starting query does with the offered state."""

    RESTORE = "restore"
    START_EMPTY = "start empty"


@dataclass(frozen=True)
class Match:
    """The verdict for one starting query; ``offered`` is the key of the state it takes."""

    take: Take
    offered: str | None = None
    note: str = ""


def match_query(
    name: str,
    offered: Collection[str | None],
    taken: Collection[str | None],
    *,
    allow_non_restored: bool,
) -> Match:
    """Decide which offered state the query ``name`` takes.

    Parameters
    ----------
    name: the starting query's name.
    offered: names of the queries in the savepoint; a single None is the one query of a plain
        Spark checkpoint, which has no name and goes to the first query that starts.
    taken: those already taken by queries that started before.
    allow_non_restored: ``-n``.

    Raises
    ------
    NonRestoredState: the query is not in the savepoint while some of its state waits for an
        owner: going on would silently start a renamed query from nothing.
    """
    if name in offered:
        if name in taken:
            return Match(Take.START_EMPTY, note=f"query '{name}' already took its state")
        return Match(Take.RESTORE, offered=name)
    if None in offered and None not in taken:
        return Match(Take.RESTORE, offered=None)
    waiting = sorted(str(q) for q in offered if q not in taken)
    if waiting and not allow_non_restored:
        names = ", ".join(f"'{q}'" for q in waiting)
        raise NonRestoredState(
            f"query '{name}' is not in the savepoint, and no query has taken the state of "
            f"{names} yet",
            hint=f"name the query with .queryName(...) as in the savepoint ({names}), start the "
            "restored queries first, or give -n (--allowNonRestoredState) to start it empty",
            query=name,
            waiting=waiting,
        )
    return Match(Take.START_EMPTY, note=f"query '{name}' is not in the savepoint: starts empty")


def unmatched(offered: Collection[str | None], taken: Collection[str | None]) -> list[str]:
    """Names of the savepoint's queries that no query of the program took."""
    return sorted(str(q) for q in offered if q not in taken)


@dataclass(frozen=True)
class OtherRun:
    """A job that ran the same Spark query id, as the registry knows it."""

    job_id: str
    state: JobState
    last_batch: int | None


@dataclass(frozen=True)
class QueryIdentity:
    """Whether the restored query keeps the savepoint's query id, and why."""

    keep: bool
    reason: str


def decide_query_id(batch_id: int, runs: Sequence[OtherRun], *, fork: bool) -> QueryIdentity:
    """Same query id or a new one.

    Sinks remember (query id, batch id): Delta's transaction ids, user code in ``foreachBatch``.
    A job that simply goes on keeps the id and goes on counting. When the original goes on too,
    or has gone past this savepoint, the same pair would stand for other data, and such a sink
    would take the new job's batches for repetitions: it must get a new id.

    Parameters
    ----------
    batch_id: the savepoint's committed batch of this query.
    runs: all other jobs that ever ran this query id.
    fork: ``--fork``.
    """
    if fork:
        return QueryIdentity(False, "asked for by --fork")
    for run in runs:
        if not run.state.is_final:
            return QueryIdentity(False, f"job {run.job_id} is still {run.state.value} with it")
    for run in runs:
        if run.last_batch is not None and run.last_batch > batch_id:
            return QueryIdentity(
                False,
                f"job {run.job_id} went on to batch {run.last_batch} after batch {batch_id}",
            )
    return QueryIdentity(True, "the job it comes from ended with this batch")
