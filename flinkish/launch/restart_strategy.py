"""Flink's restart strategies: whether, and after which delay, a failed job is started again. Pure.

They follow ``FixedDelayRestartBackoffTimeStrategy``, ``ExponentialDelayRestartBackoffTimeStrategy``
and ``FailureRateRestartBackoffTimeStrategy`` of Flink, with Flink's keys and the defaults of Flink
2. The default is ``none``: unlike a failed task in Flink, a failed driver ends the whole job, and
a program that was not written for restarts should not be run again unasked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from flinkish.config import Config, parse_duration
from flinkish.errors import InvalidConfiguration
from flinkish.messages.launch import Launch
from flinkish.registry.jobs import JobRecord, JobState, JobStateChange

KEY = "restart-strategy.type"
_FIXED = "restart-strategy.fixed-delay."
_EXPONENTIAL = "restart-strategy.exponential-delay."
_RATE = "restart-strategy.failure-rate."
#: Other spellings of the strategies that Flink accepts.
_SPELLINGS = {
    "off": "none",
    "disable": "none",
    "fixeddelay": "fixed-delay",
    "exponentialdelay": "exponential-delay",
    "failurerate": "failure-rate",
}
INFINITE = "infinite"


@dataclass(frozen=True)
class FixedDelay:
    """At most ``attempts`` restarts, each after ``delay`` seconds."""

    attempts: int
    delay: float

    def next_delay(self, failures: Sequence[float], _random: Callable[[], float]) -> float | None:
        """Return the seconds before the next restart, or None when no attempt is left."""
        return self.delay if len(failures) <= self.attempts else None


@dataclass(frozen=True)
class ExponentialDelay:
    """Restarts after delays that grow until the job runs for ``reset`` seconds without a failure.

    ``initial`` and ``most`` are the first and the longest delay in seconds. ``jitter`` is the part
    of the delay, 0 to 1, that is added or subtracted at random. The job is given up if it fails
    after ``attempts`` restarts since the delay was last reset; None means that there is no limit.
    """

    initial: float
    most: float
    multiplier: float
    reset: float
    jitter: float
    attempts: int | None = None

    def next_delay(self, failures: Sequence[float], random: Callable[[], float]) -> float | None:
        """Return the seconds before the next restart, or None when no attempt is left."""
        delay, count = self.initial, 0
        last: float | None = None
        for failure in failures:
            if last is None or failure - last >= self.reset + delay:
                delay, count = self.initial, 1
            else:
                delay, count = min(delay * self.multiplier, self.most), count + 1
            last = failure
        if self.attempts is not None and count > self.attempts:
            return None
        return min(delay * (1 + self.jitter * (2 * random() - 1)), self.most)


@dataclass(frozen=True)
class FailureRate:
    """Restarts after ``delay`` seconds, if ``interval`` seconds have at most ``most`` failures."""

    most: int
    interval: float
    delay: float

    def next_delay(self, failures: Sequence[float], _random: Callable[[], float]) -> float | None:
        """Return the seconds before the next restart, or None when failures are too frequent."""
        if len(failures) <= self.most:
            return self.delay
        earliest = failures[-self.most - 1]
        return self.delay if failures[-1] - earliest > self.interval else None


Strategy = FixedDelay | ExponentialDelay | FailureRate


def strategy_of(options: Mapping[str, str]) -> Strategy | None:
    """Return the restart strategy of a job; None if the job is not restarted.

    ``options`` is the job's configuration by key; a missing key has its default. Raises
    InvalidConfiguration if a value is not valid or out of range, or the strategy is unknown.
    """
    defaults = Config.load(environ={})

    def text(key: str) -> str:
        return options.get(key) or str(defaults.get(key))

    def seconds(key: str) -> float:
        return parse_duration(text(key))

    def number(key: str, least: float, most: float | None = None) -> float:
        try:
            value = float(text(key))
        except ValueError:
            value = float("nan")
        if not least <= value <= (sys.float_info.max if most is None else most):
            upper = "" if most is None else f" and at most {most:g}"
            raise InvalidConfiguration(
                f"{key} is {text(key)!r}: a number of at least {least:g}{upper} is expected"
            )
        return value

    def count(key: str, least: int) -> int:
        try:
            value = int(text(key))
        except ValueError:
            value = least - 1
        if value < least:
            raise InvalidConfiguration(
                f"{key} is {text(key)!r}: a whole number of at least {least} is expected"
            )
        return value

    kind = name_in(options)
    if kind == "fixed-delay":
        return FixedDelay(count(_FIXED + "attempts", 0), seconds(_FIXED + "delay"))
    if kind == "failure-rate":
        return FailureRate(
            count(_RATE + "max-failures-per-interval", 1),
            seconds(_RATE + "failure-rate-interval"),
            seconds(_RATE + "delay"),
        )
    if kind == "exponential-delay":
        attempts = _EXPONENTIAL + "attempts-before-reset-backoff"
        initial = seconds(_EXPONENTIAL + "initial-backoff")
        return ExponentialDelay(
            initial=initial,
            most=max(seconds(_EXPONENTIAL + "max-backoff"), initial),
            multiplier=number(_EXPONENTIAL + "backoff-multiplier", 1),
            reset=seconds(_EXPONENTIAL + "reset-backoff-threshold"),
            jitter=number(_EXPONENTIAL + "jitter-factor", 0, 1),
            attempts=None if text(attempts) == INFINITE else count(attempts, 1),
        )
    if kind == "none":
        return None
    raise InvalidConfiguration(
        f"{KEY} is {kind!r}", hint=f"it takes {', '.join(sorted({'none', *_SPELLINGS.values()}))}"
    )


def name_of(launch: Launch) -> str:
    """Return the name of a job's strategy: none, fixed-delay, exponential-delay or failure-rate.

    An unknown name is returned in lower case. A job of another launcher has none, whatever its
    configuration says, because it has no supervisor.
    """
    return "none" if launch.external is not None else name_in(launch.options)


def name_in(options: Mapping[str, str]) -> str:
    """Return the name of the strategy that a configuration has, for whatever job."""
    name = (options.get(KEY) or "none").lower()
    return _SPELLINGS.get(name, name)


def failed_state(launch: Launch) -> JobState:
    """Return the state in which a driver leaves its failed job.

    With a restart strategy it is FAILING: the job's supervisor decides what follows.
    """
    return JobState.FAILED if name_of(launch) == "none" else JobState.FAILING


def is_undecided(job: JobRecord, history: Sequence[JobStateChange]) -> bool:
    """Return whether a reader has failed a job that its driver left to its supervisor."""
    states = [change.state for change in history]
    return job.exit_status is None and states[-2:] == [JobState.FAILING, JobState.FAILED]


#: Exit codes of failures that the next attempt would repeat: wrong arguments, a refused restore.
_LASTING = frozenset({2, 4, 5})


def may_restart(failure: Mapping[str, object] | None, *, has_run: bool) -> bool:
    """Return whether restarting a failed job can help.

    ``failure`` is a record of ``FlinkishError.to_record``. If the job was never RUNNING (not
    ``has_run``), its program is considered faulty.
    """
    return has_run and (failure or {}).get("code") not in _LASTING
