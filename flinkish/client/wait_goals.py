"""The goals of ``flinkish wait``, and what a job lacks to reach one. Pure.

A job is judged by its driver's reports: its state, and for each query the newest committed batch
and whether it waits for input. A query is *idle* if it has processed all available input: over a
quiet period, every report says that it waits for input, and it has committed no batch. The period
is longer than the query's trigger interval, so that the query has looked for input during it. A
query that has ended without an error counts as idle, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from flinkish.errors import UsageError
from flinkish.messages.queries import QueryStatus
from flinkish.registry.jobs import JobRecord, JobState

#: The default of ``Goal.quiet``.
QUIET = 2.0
#: Largest number of digits of a batch id, which is a 64-bit number in Spark.
_MAX_DIGITS = 19
#: States of a job in which its queries are compared with a goal.
_STARTED = frozenset({JobState.RUNNING, JobState.CANCELLING, JobState.FINISHED})


class GoalKind(Enum):
    """The kinds of goals; the values are the words of ``flinkish wait --for``."""

    RUNNING = "running"
    BATCH = "batch"
    IDLE = "idle"
    ENDED = "ended"


@dataclass(frozen=True)
class Goal:
    """What is waited for.

    ``kind``: ``RUNNING``: the job runs. ``BATCH``: every query has committed ``batch`` or a later
    batch; with ``more``, ``batch`` more batches than when the wait began. ``IDLE``: every query has
    processed all available input. ``ENDED``: the job has ended. ``query``: only this query counts,
    for ``BATCH`` and ``IDLE``; None means every query. ``quiet``: the least number of seconds
    without a batch, for ``IDLE``; see :func:`quiet_time`.
    """

    kind: GoalKind
    batch: int | None = None
    query: str | None = None
    quiet: float = QUIET
    more: bool = False


def parse_goal(text: str, query: str | None = None) -> Goal:
    """Return the goal of ``running``, ``batch=N``, ``batch=+N``, ``idle`` or ``ended``.

    Raises UsageError if ``text`` is none of these, or a query is named for a goal of the whole job.
    """
    word, equals, number = text.strip().lower().partition("=")
    more = number.startswith("+")
    number = number.removeprefix("+")
    is_number = number.isascii() and number.isdigit() and len(number) <= _MAX_DIGITS
    if word == GoalKind.BATCH.value and is_number:
        return Goal(GoalKind.BATCH, int(number), query, more=more)
    try:
        kind = GoalKind(word)
    except ValueError:
        kind = GoalKind.BATCH
    if kind is GoalKind.BATCH or equals:
        raise UsageError(
            f"invalid --for {text!r}",
            hint="use --for running, batch=N, batch=+N, idle or ended",
        )
    if query is not None and kind is not GoalKind.IDLE:
        raise UsageError(
            f"--query cannot be combined with --for {word}",
            hint="omit --query; it is for batch=N, batch=+N and idle",
        )
    return Goal(kind, query=query)


class Watch:
    """Compares the reports of a job's driver with a goal, one after the other.

    ``began``: when the wait began, in seconds since the epoch by the registry's clock. A report
    from before ``began`` may not know of input that had arrived when the wait began.
    """

    def __init__(self, goal: Goal, began: float) -> None:
        self._goal = goal
        self._began = began
        #: The heartbeat at which the current quiet time began, and the batches at that time.
        self._since: float | None = None
        self._batches: dict[str, int | None] = {}
        #: The batch of each query when it was first seen, for ``more``.
        self._first: dict[str, int] = {}

    def lacking(self, job: JobRecord, queries: Sequence[QueryStatus]) -> str | None:
        """Return what the job lacks, as a clause; None when it has reached the goal."""
        kind = self._goal.kind
        if kind is GoalKind.ENDED:
            return None if job.state.is_final else f"it is {job.state.value}"
        if kind is GoalKind.RUNNING:
            return None if job.state is JobState.RUNNING else f"it is {job.state.value}"
        if job.state not in _STARTED:
            return f"it is {job.state.value}"
        chosen = [query for query in queries if self._goal.query in (None, query.name)]
        if not chosen:
            return _no_query(self._goal.query, queries)
        if kind is GoalKind.BATCH:
            return _joined(_behind(query, self._batch_of(query)) for query in chosen)
        return self._busy(job, chosen)

    def _batch_of(self, query: QueryStatus) -> int:
        """Return the batch that a query has to commit."""
        assert self._goal.batch is not None
        if not self._goal.more:
            return self._goal.batch
        begun = query.restored_batch if query.batch_id is None else query.batch_id
        first = self._first.setdefault(query.name, -1 if begun is None else begun)
        return first + self._goal.batch

    def _busy(self, job: JobRecord, queries: Sequence[QueryStatus]) -> str | None:
        if job.state is not JobState.RUNNING:
            return f"it is {job.state.value}"
        heartbeat = job.heartbeat or 0.0
        if heartbeat <= self._began:
            return "its driver has not reported since the wait began"
        busy = _joined(_works(query) for query in queries)
        batches = {query.name: query.batch_id for query in queries}
        if busy is not None or batches != self._batches or self._since is None:
            self._batches = batches
            self._since = None if busy is not None else heartbeat
        if busy is not None:
            return busy
        quiet = quiet_time(queries, self._goal)
        since = heartbeat if self._since is None else self._since
        if heartbeat - since > quiet:
            return None
        return f"it has been idle for {heartbeat - since:.1f} s; more than {quiet:g} s are needed"


def quiet_time(queries: Iterable[QueryStatus], goal: Goal) -> float:
    """Return the seconds without a batch after which queries are idle."""
    chosen = (query for query in queries if query.active and goal.query in (None, query.name))
    return max([goal.quiet, *(query.trigger_interval or 0.0 for query in chosen)])


def _no_query(name: str | None, queries: Sequence[QueryStatus]) -> str:
    if name is None:
        return "it has no streaming query"
    names = ", ".join(f"'{query.name}'" for query in queries)
    return f"it has no query '{name}' (it has: {names or 'none'})"


def _behind(query: QueryStatus, batch: int) -> str | None:
    """Return a clause if a query has not committed a batch, else None."""
    if query.batch_id is not None and query.batch_id >= batch:
        return None
    at = "has committed no batch" if query.batch_id is None else f"is at batch {query.batch_id}"
    return f"query '{query.name}' {_ended(query)}{at}, not {batch}"


def _works(query: QueryStatus) -> str | None:
    """Return why a query is not waiting for input; None if it waits, or has ended without error."""
    if query.error is not None:
        return f"query '{query.name}' has failed"
    if not query.active or query.waits_for_input:
        return None
    if query.waits_for_input is None:
        return (
            f"query '{query.name}' does not report whether it waits for input: its trigger is "
            "irregular"
        )
    at = "its first batch" if query.batch_id is None else f"batch {query.batch_id + 1}"
    return f"query '{query.name}' is processing {at}"


def _ended(query: QueryStatus) -> str:
    if query.active:
        return ""
    return "has failed and " if query.error is not None else "has ended and "


def _joined(clauses: Iterable[str | None]) -> str | None:
    texts = [text for text in clauses if text is not None]
    return "; ".join(texts) or None
