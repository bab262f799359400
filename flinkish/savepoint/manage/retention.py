"""Retention: a policy, and pure decisions with reasons on which savepoints to keep.

Nothing is read or removed here. The rules are restic's (``restic forget``): the newest savepoint of
each of the last N hours, days or weeks that have one, in UTC. Savepoints are counted per job, so
that several jobs in one directory do not displace each other's savepoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from flinkish.errors import UsageError

_HOUR, _DAY = 3600, 86400


@dataclass(frozen=True)
class Policy:
    """Which savepoints of each job to keep; None and 0 keep nothing.

    Attributes
    ----------
    keep_last
        Keep this number of newest savepoints.
    keep_within
        Keep all savepoints taken within this number of seconds before now.
    keep_hourly, keep_daily, keep_weekly
        Keep the newest savepoint of each of the last so many hours, days or weeks (from Monday)
        that have any.
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
class Candidate:
    """A complete savepoint to decide on.

    Attributes
    ----------
    job
        Key by which the policy counts (see :func:`flinkish.savepoint.manage.prune.candidates`).
    created
        Time from its metadata, in seconds since the epoch.
    needed
        Reasons to keep it regardless of the policy.
    """

    path: str
    job: str
    created: float
    needed: tuple[str, ...] = ()


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
    """Decide on every savepoint and return the decisions, newest first. Pure.

    The newest savepoint of each job is always kept. ``now`` is in seconds since the epoch. Raises
    UsageError for an empty policy.
    """
    policy.check()
    jobs: dict[str, list[Candidate]] = {}
    for candidate in sorted(savepoints, key=_newest_first):
        jobs.setdefault(candidate.job, []).append(candidate)
    decisions = [found for group in jobs.values() for found in _plan_job(group, policy, now)]
    return tuple(sorted(decisions, key=lambda decision: _newest_first(decision.candidate)))


def _newest_first(candidate: Candidate) -> tuple[float, str]:
    return -candidate.created, candidate.path


def _plan_job(group: Sequence[Candidate], policy: Policy, now: float) -> Iterator[Decision]:
    """Yield the decisions on one job's savepoints, which are sorted newest first."""
    within = policy.keep_within or 0
    periods = [
        (rule, _newest_of_each(group, rule, count or 0))
        for rule, count in (
            (_HOURLY, policy.keep_hourly),
            (_DAILY, policy.keep_daily),
            (_WEEKLY, policy.keep_weekly),
        )
    ]
    for index, candidate in enumerate(group):
        reasons = ["newest"] if index == 0 else []
        reasons += candidate.needed
        if index < (policy.keep_last or 0):
            reasons.append(f"last {policy.keep_last}")
        if within and candidate.created >= now - within:
            reasons.append(f"within {_span(within)}")
        reasons += [rule.text(candidate.created) for rule, kept in periods if index in kept]
        yield Decision(candidate, tuple(reasons))


@dataclass(frozen=True)
class _Rule:
    """A kind of period: ``number`` identifies the period of a time, ``text`` describes it."""

    number: Callable[[float], int]
    text: Callable[[float], str]


def _newest_of_each(group: Sequence[Candidate], rule: _Rule, count: int) -> frozenset[int]:
    """Return the indexes of the newest savepoints of the last ``count`` periods that have one."""
    found: dict[int, int] = {}
    for index, candidate in enumerate(group):
        if len(found) == count:
            break
        found.setdefault(rule.number(candidate.created), index)
    return frozenset(found.values())


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=timezone.utc)


_HOURLY = _Rule(lambda seconds: int(seconds // _HOUR), lambda s: f"hourly {_utc(s):%Y-%m-%d %H}:00")
_DAILY = _Rule(lambda seconds: int(seconds // _DAY), lambda s: f"daily {_utc(s):%Y-%m-%d}")
# The epoch was a Thursday, three days after Monday.
_WEEKLY = _Rule(
    lambda seconds: int((seconds // _DAY + 3) // 7), lambda s: f"weekly {_utc(s):%G-W%V}"
)


def _span(seconds: float) -> str:
    """Format a duration: ``7 d``, ``36 h``, ``90 s``."""
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:g} s"
