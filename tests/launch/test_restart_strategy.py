"""Flink's restart strategies: the delays of each, failure by failure.

The expected values are worked out from Flink's ``RestartBackoffTimeStrategy`` classes.
"""

from __future__ import annotations

import pytest

from flinkish.errors import InvalidConfiguration
from flinkish.launch.restart_strategy import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    Strategy,
    failed_state,
    may_restart,
    name_of,
    strategy_of,
)
from flinkish.messages.launch import ExternalLauncher, Launch
from flinkish.registry.jobs import JobState

TYPE = "restart-strategy.type"
EXPONENTIAL = "restart-strategy.exponential-delay."


def delays(strategy: Strategy, failures: list[float], random: float = 0.5) -> list[float | None]:
    """The delay after each failure; with 0.5 no jitter."""
    return [strategy.next_delay(failures[: n + 1], lambda: random) for n in range(len(failures))]


def test_fixed_delay() -> None:
    assert delays(FixedDelay(2, 3.0), [0, 10, 20, 30]) == [3.0, 3.0, None, None]
    assert delays(FixedDelay(0, 3.0), [0]) == [None]


def test_failure_rate() -> None:
    """As many failures as allowed in the interval, not one more; old ones do not count."""
    strategy = FailureRate(most=2, interval=60.0, delay=1.0)
    assert delays(strategy, [0, 10, 20]) == [1.0, 1.0, None]
    assert delays(strategy, [0, 10, 61]) == [1.0, 1.0, 1.0]
    assert delays(strategy, [0, 10, 60]) == [1.0, 1.0, None]


def test_exponential_delay_grows_to_its_limit() -> None:
    strategy = ExponentialDelay(1.0, 10.0, 2.0, 3600.0, 0.0)
    assert delays(strategy, [0, 2, 5, 10, 20, 40]) == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_a_long_run_resets_the_delay() -> None:
    """The time without a failure is counted from the end of the delay (threshold + delay)."""
    strategy = ExponentialDelay(1.0, 10.0, 2.0, 100.0, 0.0)
    assert delays(strategy, [0, 2, 103.9]) == [1.0, 2.0, 4.0]
    assert delays(strategy, [0, 2, 104.0]) == [1.0, 2.0, 1.0]


def test_jitter_is_a_part_of_the_delay_on_both_sides() -> None:
    strategy = ExponentialDelay(8.0, 9.0, 2.0, 100.0, 0.25)
    assert delays(strategy, [0], random=0.0) == [6.0]
    assert delays(strategy, [0], random=0.5) == [8.0]
    assert delays(strategy, [0], random=1.0) == [9.0], "never more than the longest"


def test_attempts_before_reset() -> None:
    strategy = ExponentialDelay(1.0, 10.0, 2.0, 100.0, 0.0, attempts=2)
    assert delays(strategy, [0, 2, 5]) == [1.0, 2.0, None]
    assert delays(strategy, [0, 2, 200]) == [1.0, 2.0, 1.0]


def test_defaults_are_those_of_flink_2() -> None:
    assert strategy_of({}) is None
    assert strategy_of({TYPE: "fixed-delay"}) == FixedDelay(1, 1.0)
    assert strategy_of({TYPE: "failure-rate"}) == FailureRate(1, 60.0, 1.0)
    assert strategy_of({TYPE: "exponential-delay"}) == ExponentialDelay(
        1.0, 60.0, 1.5, 3600.0, 0.1, None
    )


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("off", None),
        ("disable", None),
        ("NONE", None),
        ("fixeddelay", FixedDelay),
        ("exponentialdelay", ExponentialDelay),
        ("failurerate", FailureRate),
    ],
)
def test_flinks_other_spellings(name: str, kind: type | None) -> None:
    found = strategy_of({TYPE: name})
    assert found is None if kind is None else isinstance(found, kind)


@pytest.mark.parametrize(
    "options",
    [
        {TYPE: "always"},
        {TYPE: "fixed-delay", "restart-strategy.fixed-delay.attempts": "-1"},
        {TYPE: "fixed-delay", "restart-strategy.fixed-delay.attempts": "inf"},
        {TYPE: "fixed-delay", "restart-strategy.fixed-delay.attempts": "2.5"},
        {TYPE: "fixed-delay", "restart-strategy.fixed-delay.delay": "soon"},
        {TYPE: "exponential-delay", f"{EXPONENTIAL}jitter-factor": "1.5"},
        {TYPE: "exponential-delay", f"{EXPONENTIAL}backoff-multiplier": "0.5"},
        {TYPE: "exponential-delay", f"{EXPONENTIAL}backoff-multiplier": "nan"},
        {TYPE: "exponential-delay", f"{EXPONENTIAL}backoff-multiplier": "inf"},
        {TYPE: "exponential-delay", f"{EXPONENTIAL}attempts-before-reset-backoff": "0"},
        {TYPE: "failure-rate", "restart-strategy.failure-rate.max-failures-per-interval": "0"},
    ],
)
def test_wrong_settings_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(InvalidConfiguration):
        strategy_of(options)


@pytest.mark.parametrize(
    ("failure", "has_run", "expected"),
    [
        ({"code": 1, "id": "driver-lost"}, True, True),
        (None, True, True),
        ({"code": 1, "id": "program-failed"}, False, False),
        ({"code": 4, "id": "incompatible"}, True, False),
        ({"code": 5, "id": "non-restored-state"}, True, False),
    ],
)
def test_what_another_attempt_can_help(
    failure: dict[str, object] | None, has_run: bool, expected: bool
) -> None:
    assert may_restart(failure, has_run=has_run) is expected


@pytest.mark.parametrize(
    ("options", "external", "name", "state"),
    [
        ({}, None, "none", JobState.FAILED),
        ({TYPE: "off"}, None, "none", JobState.FAILED),
        ({TYPE: "fixeddelay"}, None, "fixed-delay", JobState.FAILING),
        ({TYPE: "fixed-delay"}, ExternalLauncher("python", "0.1.0"), "none", JobState.FAILED),
    ],
)
def test_a_failed_job_waits_for_a_supervisor_only_if_it_has_one(
    options: dict[str, str], external: ExternalLauncher | None, name: str, state: JobState
) -> None:
    launch = Launch("/app.py", options=options, external=external)
    assert (name_of(launch), failed_state(launch)) == (name, state)
