"""Retention: a policy, and pure decisions with reasons on which savepoints to keep.

Nothing is read or removed here. The rules are restic's (``restic forget``): the newest savepoint of
each of the last N hours, days or weeks that have one. Hours, days and weeks are those of UTC, so
that hosts in different time zones agree. Savepoints are counted per job, so that several jobs in
one directory do not displace each other's savepoints, and ordered by batches and by times
(:mod:`flinkish.savepoint.manage.generations`). The newest savepoint of a job always stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from flinkish.errors import FlinkishError, UsageError
from flinkish.savepoint.manage.generations import (
    Candidate,
    Timed,
    by_clock,
    is_among_last,
    is_newest,
    time_bounds,
)

_HOUR, _DAY = 3600, 86400


@dataclass(frozen=True)
class Policy:
    """Which savepoints of each job to keep; None and 0 keep nothing.

    ``keep_last`` keeps this number of newest savepoints, ``keep_within`` all that were taken within
    this number of seconds before now. ``keep_hourly``, ``keep_daily`` and ``keep_weekly`` keep the
    newest savepoint of each of the last n hours, days or weeks (from Monday, in UTC) that have any.
    """

    keep_last: int | None = None
    keep_within: float | None = None
    keep_hourly: int | None = None
    keep_daily: int | None = None
    keep_weekly: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it keeps nothing, so that it is refused."""
        return not any(self._values())

    def check(self) -> None:
        """Raise UsageError if the policy is empty or has a negative number."""
        if any(value is not None and value < 0 for value in self._values()):
            raise UsageError(
                "a retention policy has no numbers below zero",
                hint="give each --keep-... a number above zero, or leave it out",
            )
        if self.is_empty:
            raise UsageError(
                "the retention policy is empty: it would keep nothing",
                hint="give at least one of --keep-last, --keep-within, --keep-hourly, "
                "--keep-daily and --keep-weekly",
            )

    def _values(self) -> tuple[float | None, ...]:
        return (
            self.keep_last,
            self.keep_within,
            self.keep_hourly,
            self.keep_daily,
            self.keep_weekly,
        )


@dataclass(frozen=True)
class Decision:
    """Whether a savepoint is kept, and why; one without a reason is removed."""

    candidate: Candidate
    reasons: tuple[str, ...]

    @property
    def keep(self) -> bool:
        """Whether it is kept."""
        return bool(self.reasons)


def plan(savepoints: Sequence[Candidate], policy: Policy, now: float) -> tuple[Decision, ...]:
    """Decide on every savepoint and return the decisions, newest first by the clock. Pure.

    The newest savepoint of each job is always kept. ``now`` is in seconds since the epoch. Raises
    UsageError for an invalid policy.
    """
    policy.check()
    timed = by_clock(savepoints, now)
    jobs: dict[str, list[Timed]] = {}
    for each in timed:
        jobs.setdefault(each.candidate.job, []).append(each)
    reasons = {
        each.candidate.path: why
        for job in jobs.values()
        for each, why in zip(job, _reasons(job, policy, now), strict=True)
    }
    return tuple(Decision(each.candidate, reasons[each.candidate.path]) for each in timed)


def plan_whole(
    savepoints: Sequence[Candidate],
    policy: Policy,
    now: float,
    damage: Callable[[str], FlinkishError | None],
) -> tuple[tuple[Decision, ...], Mapping[str, FlinkishError]]:
    """Decide as :func:`plan` does, but do not count damaged savepoints.

    Only what would be kept is examined; what is removed may be damaged. ``damage`` returns the
    fault of the savepoint at a path; it is called at most once for each. Pure but for ``damage``.
    Raises UsageError for an invalid policy.

    Returns the decisions on the savepoints that are not damaged, and the errors of the damaged ones
    by path. A damaged savepoint is neither kept in place of another nor removed.
    """
    bad: dict[str, FlinkishError] = {}
    looked: set[str] = set()
    while True:
        decisions = plan([each for each in savepoints if each.path not in bad], policy, now)
        fresh = [d.candidate.path for d in decisions if d.keep and d.candidate.path not in looked]
        if not fresh:
            return decisions, bad
        looked.update(fresh)
        bad.update({path: error for path in fresh if (error := damage(path)) is not None})


def _reasons(job: Sequence[Timed], policy: Policy, now: float) -> Iterator[tuple[str, ...]]:
    """Yield the reasons to keep each of one job's savepoints, which are sorted by the clock."""
    within, last = policy.keep_within or 0, policy.keep_last or 0
    border = now - within
    periods = [
        (rule, _newest_of_each(job, rule, count))
        for rule, count in (
            (_HOURLY, policy.keep_hourly or 0),
            (_DAILY, policy.keep_daily or 0),
            (_WEEKLY, policy.keep_weekly or 0),
        )
        if count
    ]
    lowest = _lowest_batches(job, border) if within else {}
    for index, each in enumerate(job):
        reasons = ["newest"] if is_newest(job, index) else []
        reasons += each.candidate.needed
        if last and is_among_last(job, index, last):
            reasons.append(f"last {last}")
        if each.time is None and (within or periods):
            _, taken_before = time_bounds(job, index)
            if taken_before is None or (within and taken_before >= border):
                reasons.append("its time is in the future, so its age is unknown")
        elif within and _is_within(job, index, border, lowest):
            reasons.append(f"within {_span(within)}")
        if each.time is not None:
            reasons += [rule.text(each.time) for rule, kept in periods if index in kept]
        yield tuple(reasons)


def _lowest_batches(job: Sequence[Timed], border: float) -> Mapping[str, int]:
    """Return the lowest batch of each query in the savepoints taken since ``border``."""
    lowest: dict[str, int] = {}
    for each in job:
        if each.time is not None and each.time >= border:
            for query, batch in each.candidate.batches.items():
                lowest[query] = min(batch, lowest.get(query, batch))
    return lowest


def _is_within(job: Sequence[Timed], index: int, border: float, lowest: Mapping[str, int]) -> bool:
    """Return whether a savepoint was taken since ``border``, by its own time or by its batches.

    A host whose clock is slow takes new savepoints with old times. Their batches are then higher
    than those of other savepoints that were taken since ``border``.
    """
    time, batches = job[index].time, job[index].candidate.batches
    if time is not None and time >= border:
        return True
    if all(batch <= lowest.get(query, batch) for query, batch in batches.items()):
        return False
    taken_after, _ = time_bounds(job, index)
    return taken_after is not None and taken_after >= border


@dataclass(frozen=True)
class _Rule:
    """A kind of period: ``number`` identifies the period of a time, ``text`` describes it."""

    number: Callable[[float], int]
    text: Callable[[float], str]


def _newest_of_each(job: Sequence[Timed], rule: _Rule, count: int) -> frozenset[int]:
    """Return the indexes of the newest savepoints of the last ``count`` periods that have one."""
    newest: dict[int, int] = {}
    for index, each in enumerate(job):
        if each.time is None or len(newest) == count:
            break  # those without a credible time are the last
        newest.setdefault(rule.number(each.time), index)
    return frozenset(newest.values())


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=timezone.utc)


_HOURLY = _Rule(
    lambda seconds: int(seconds // _HOUR), lambda s: f"hourly {_utc(s):%Y-%m-%d %H}:00 UTC"
)
_DAILY = _Rule(lambda seconds: int(seconds // _DAY), lambda s: f"daily {_utc(s):%Y-%m-%d} UTC")
# The epoch was a Thursday, three days after Monday.
_WEEKLY = _Rule(
    lambda seconds: int((seconds // _DAY + 3) // 7), lambda s: f"weekly {_utc(s):%G-W%V} UTC"
)


def _span(seconds: float) -> str:
    """Format a duration: ``7 d``, ``36 h``, ``90 s``."""
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:g} s"
