"""The batch numbers of a job's history, by which a ``foreachBatch`` function can be idempotent.

Spark gives the function a batch id that belongs to one query id: when an older savepoint is
restored or a fork started, batch ids that another run has used are reused for other data. The
*history batch* (``flinkish.history_batch``) is the batch id plus a *shift*, which is decided once,
at the restore:

* A query that keeps its id continues with the savepoint's shift, less what ``--sink-ahead rebase``
  or a merge with a query of later batches adds to its batch ids, so that a batch that is replayed
  with the same input has the number that it had before.
* Every other query gets a shift above all earlier ones: the milliseconds from 2020 to the restore,
  times :data:`_ROOM`. So the numbers of two runs do not overlap, even if the runs do not know of
  each other, and grow with each restore. They reach :data:`_LIMIT` in 2054.
* A query that keeps its id also gets a new shift when a batch that was begun with this id now has
  other input, because its function may have run although the batch was never committed.
* So does one whose input another run has processed since under another query id, because that run
  had a shift of its own, above this one.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.messages.plan import Check, RestoreOutcome
from flinkish.restore.plan.query_id import OtherRun, QueryIdentity

#: The key of the shift in the descriptions of sinks, in savepoints and in the registry; left out if
#: the shift is 0.
KEY = "history_shift"
#: 2020-01-01 in milliseconds since 1970, and the history batches per millisecond.
_EPOCH_MS = 1_577_836_800_000
_ROOM = 1 << 22
#: The minimum distance of a new shift from the saved one, even if the clock is wrong.
_STEP = 1 << 32
#: The largest new shift: it leaves room for batch numbers in a signed long.
_LIMIT = 1 << 62


@dataclass(frozen=True)
class Replay:
    """How the new checkpoint treats the batch after the savepoint's.

    Attributes
    ----------
    planned
        Whether the savepoint has planned the batch, and not committed it.
    again
        Whether Spark runs the batch again with exactly the same input.
    rebase_to
        The committed batch of the new checkpoint; None for the savepoint's.
    """

    planned: bool = False
    again: bool = False
    rebase_to: int | None = None


@dataclass(frozen=True)
class HistoryPlan:
    """The shift of a query's history batches; ``reason`` says why the query got a new one."""

    shift: int
    kept: bool
    reason: str = ""


def saved_shift(sink: Mapping[str, Any]) -> int:
    """Return the shift in a sink's description; 0 if it has none, or an impossible one."""
    shift = sink.get(KEY, 0)
    return shift if type(shift) is int and abs(shift) < 2 * _LIMIT else 0


def counts_history(format: str | None) -> bool:
    """Return whether a sink's function may use history batches; True if the sink is unknown."""
    return format is None or format.lower() == "foreachbatch"


def decide_history(
    saved: int,
    saved_batch: int,
    identity: QueryIdentity,
    runs: Sequence[OtherRun],
    replay: Replay,
    elsewhere: int | None,
    now_ms: int,
) -> HistoryPlan:
    """Decide the shift of a restored query.

    ``saved`` is the savepoint's shift, ``saved_batch`` its committed batch of this query,
    ``identity`` whether the query keeps the savepoint's query id. ``runs`` are all other jobs that
    ever ran this query id. ``elsewhere`` is the newest batch that runs under other query ids have
    begun of its input since it was saved; None for none. ``now_ms`` is in milliseconds since the
    epoch.
    """
    reason = _why_fresh(saved_batch, identity, runs, replay, elsewhere)
    if not reason:
        moved = 0 if replay.rebase_to is None else replay.rebase_to - saved_batch
        return HistoryPlan(saved - moved, True)
    fresh = max((now_ms - _EPOCH_MS) * _ROOM, saved + _STEP)
    return HistoryPlan(min(fresh, _LIMIT), False, reason)


def _why_fresh(
    saved_batch: int,
    identity: QueryIdentity,
    runs: Sequence[OtherRun],
    replay: Replay,
    elsewhere: int | None,
) -> str:
    """Return why a query gets a new shift; empty if it keeps the saved one."""
    if not identity.keep:
        return identity.reason
    if replay.planned and not replay.again:
        return f"batch {saved_batch + 1} had been started, and now has different input"
    begun = max((_newest(run) for run in runs), default=-1)
    if begun > saved_batch + (1 if replay.again else 0):
        return f"another run had started batch {begun}"
    if elsewhere is not None:
        return f"another run had started batch {elsewhere} under another query id"
    return ""


def _newest(run: OtherRun) -> int:
    """Return the newest batch that a run has begun, as far as known; -1 for none."""
    return max((n for n in (run.last_batch, run.begun_batch) if n is not None), default=-1)


def check_foreach_batch(
    name: str,
    saved: int,
    saved_batch: int,
    identity: QueryIdentity,
    runs: Sequence[OtherRun],
    replay: Replay,
    elsewhere: int | None,
    *,
    merged: str = "",
) -> Check:
    """Return what a restore means for a ``foreachBatch`` function, which flinkish cannot inspect.

    Parameters are those of :func:`decide_history`, of the query ``name`` itself or of a query that
    is ``merged`` into it, as a text that names that one. The outcome is ``ok`` if no batch that the
    function has run is run again, and no other run is still active.
    """
    who = f"query '{name}' writes with foreachBatch"
    who += f", and {merged} is merged into it" if merged else ""
    number = saved_batch + saved
    newest = max((_newest(run) for run in runs), default=-1)
    open_run = next((run for run in runs if not run.state.is_final), None)
    again = max(newest - saved_batch, 1 if replay.planned else 0)
    if again <= 0 and open_run is None and elsewhere is None:
        return Check(
            "foreach-batch",
            RestoreOutcome.OK,
            f"{who}: no batch runs again; its function continues after history batch {number}",
        )
    parts = []
    same_number = not _why_fresh(saved_batch, identity, runs, replay, elsewhere)
    if replay.again:
        parts.append(
            f"batch {saved_batch + 1}, which had been started when the savepoint was "
            "taken, runs again with the same input"
            + (" and the same history batch" if same_number else "")
        )
    elif replay.planned and newest <= saved_batch:
        parts.append(
            f"batch {saved_batch + 1}, which had been started when the savepoint was taken, is "
            "not repeated as it was: its input may be processed again, in batches with new "
            "history numbers"
        )
    if newest > saved_batch + (1 if replay.again else 0) or open_run is not None:
        count = newest - saved_batch
        many = (
            f"the input of up to {count} batch{'es' if count > 1 else ''}"
            if newest > saved_batch
            else "the input of batches"
        )
        more = "" if open_run is None else ", and of those that an active run still processes,"
        parts.append(
            f"{many} after batch {saved_batch} that another run has processed{more} is "
            "processed again, in batches with new history numbers"
        )
    if elsewhere is not None:
        parts.append(
            f"input after batch {saved_batch} that another run has processed under another query "
            f"id, up to its batch {elsewhere}, is processed again, in batches with new history "
            "numbers"
        )
    return Check(
        "foreach-batch",
        RestoreOutcome.NOTE,
        f"{who}: {'; '.join(parts)}",
        f"{_ADVICE}; what the function wrote after the savepoint has history batches "
        f"above {number}: remove it first, or it will be there twice",
    )


_ADVICE = (
    "make the function idempotent with flinkish.history_batch(batch_id): for Delta, set "
    "option('txnAppId', a name that never changes) and option('txnVersion', "
    "history_batch(batch_id)); for databases, replace the rows of that history batch"
)
