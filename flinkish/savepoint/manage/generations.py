"""Which of two savepoints is later, and which makes another dispensable. Pure.

No single clock decides. The time in a savepoint's metadata is that of the host which took it; the
next savepoint may be another host's, whose clock is wrong, and a copy keeps the time. Therefore:

* **Batch numbers** come first. A query keeps its id and its batch count over restarts and restores,
  on any host, and both are in the metadata. Of two savepoints with a query in common, the one with
  the higher numbers is the later state.
* **Times** decide where the numbers do not: no new batch, or no query in common. A time in the
  future is ignored, and the file's time, by the storage's clock, replaces it
  (:func:`flinkish.savepoint.directory.places.credible_time`).
* If **numbers and times disagree**, the order is unknown: numbers start again if a checkpoint is
  rolled back, and clocks can be wrong. The order is also unknown if one query is ahead and another
  behind, as after a rollback of one of them. In both cases neither savepoint makes the other
  dispensable, and a rule that counts keeps the savepoints that are among the latest by numbers or
  by times.

The parents of a savepoint (what its job was restored from) show only which jobs belong together
(:mod:`flinkish.savepoint.manage.candidates`): a parent is often gone, and it says nothing about the
order of the other savepoints.

A savepoint that was taken while queries of its job were missing says nothing about them: it never
makes a savepoint with such a query dispensable. A savepoint that has all queries of its job can do
so; otherwise a query that a program has dropped would keep a savepoint forever.

A relation between two savepoints that does not depend on a third has an advantage: a savepoint that
is kept now is kept the next time too, regardless of removals in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from flinkish.savepoint.directory.places import credible_time


@dataclass(frozen=True)
class Candidate:
    """A savepoint to decide on.

    The policy counts by ``job`` (see :mod:`flinkish.savepoint.manage.candidates`). Times
    are in seconds since the epoch: ``created`` is from its metadata; ``written`` is when, by the
    storage's clock, its ``_metadata`` was written, and is needed only if ``created`` is in the
    future.
    ``needed`` are reasons to keep it regardless of the policy. ``run`` is the id of the job that
    took it. ``batches`` maps query ids to saved batches. ``taken_here`` is set if this registry
    knows that one of its jobs took it; any other savepoint may be a forgery, and makes no savepoint
    taken here dispensable. ``has_all`` is set if it is known to have all queries that its job
    had when it was taken.
    """

    path: str
    job: str
    created: float
    needed: tuple[str, ...] = ()
    written: float | None = None
    run: str = ""
    batches: Mapping[str, int] = field(default_factory=dict)
    taken_here: bool = False
    has_all: bool = True


@dataclass(frozen=True)
class Timed:
    """A candidate with its credible time, if it has one."""

    candidate: Candidate
    time: float | None

    @property
    def sort_key(self) -> tuple[bool, float, str]:
        """Sorts by the clock, newest first; candidates without a credible time are last."""
        time = self.candidate.created if self.time is None else self.time
        return self.time is None, -time, self.candidate.path


def by_clock(candidates: Sequence[Candidate], now: float) -> list[Timed]:
    """Return the candidates newest first by their credible times."""
    timed = [Timed(each, credible_time(each.created, each.written, now)) for each in candidates]
    return sorted(timed, key=lambda each: each.sort_key)


def is_ahead(one: Candidate, other: Candidate) -> bool:
    """Return whether ``one`` has a higher batch of a query that both have."""
    return any(
        one.batches[query] > other.batches[query]
        for query in min(one.batches, other.batches, key=len)
        if query in one.batches and query in other.batches
    )


def progress(one: Candidate, other: Candidate) -> int:
    """Compare two savepoints by their batches: 1 if ``one`` is later, -1 if ``other`` is.

    The result is 0 if they have no query in common, the same batches, or batches that disagree.
    """
    return is_ahead(one, other) - is_ahead(other, one)


def replaces(one: Candidate, other: Candidate) -> bool:
    """Return whether ``one``, which is later by the clock, makes ``other`` dispensable.

    It does if they are of one job or have a query in common, and ``other`` has no higher batch of a
    common query. ``one`` must also have every query of ``other``, or all queries of its job (the
    program has dropped those that only ``other`` has). Only a savepoint that is ``taken_here``
    makes another one that is ``taken_here`` dispensable.
    """
    related = one.run == other.run or not one.batches.keys().isdisjoint(other.batches)
    trusted = one.taken_here or not other.taken_here
    covers = one.has_all or other.batches.keys() <= one.batches.keys()
    return related and trusted and covers and not is_ahead(other, one)


def is_newest(job: Sequence[Timed], index: int) -> bool:
    """Return whether no other savepoint makes the one at ``index`` dispensable.

    ``job`` has the savepoints of a job by the clock, newest first. Several can be newest in this
    sense, for instance the last one of a query that was never resumed.
    """
    mine = job[index].candidate
    return not any(replaces(each.candidate, mine) for each in islice(job, index))


def is_among_last(job: Sequence[Timed], index: int, count: int) -> bool:
    """Return whether a savepoint is among the last ``count`` by the clock alone, or by the batches.

    By the batches means: of two savepoints with equal batches, or without a common query, the clock
    decides which is later. If their batches disagree, neither is later.

    ``job`` has the savepoints of a job by the clock, newest first.
    """
    if index < count:
        return True
    mine = job[index].candidate
    later = 0
    for place, each in enumerate(job):
        is_later = place < index or is_ahead(each.candidate, mine)
        later += is_later and not is_ahead(mine, each.candidate)
        if later >= count:
            return False
    return True


def time_bounds(job: Sequence[Timed], index: int) -> tuple[float | None, float | None]:
    """Return the times between which a savepoint was taken, as its batches show.

    These are the latest time of a savepoint with lower batches, and the earliest time of one with
    higher batches; None if there is no such savepoint.
    """
    mine = job[index].candidate
    before: list[float] = []
    after: list[float] = []
    for each in job:
        order = 0 if each.time is None else progress(each.candidate, mine)
        if each.time is not None and order:
            (after if order > 0 else before).append(each.time)
    return max(before, default=None), min(after, default=None)
