"""When a program has started its queries; the clock is the test's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.driver.runtime.flow_starts import FlowStarts
from flinkish.driver.runtime.program_gate import ProgramGate
from flinkish.driver.runtime.start_phase import (
    ASKED,
    COMPLETE,
    QUIET,
    QUIET_ANNOUNCED,
    StartPhase,
)
from flinkish.errors import RegistryError


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def started(phase: StartPhase, *names: str) -> None:
    for name in names:
        with phase.starting(name):
            phase.started(name)


def test_it_ends_when_the_program_waits() -> None:
    phase = StartPhase()
    phase.waited()
    assert not phase.is_over, "it waits for something else: it has no query"
    started(phase, "a")
    assert not phase.is_over
    phase.waited()
    assert phase.is_over
    assert phase.is_complete


def test_the_flows_of_a_pipeline_are_those_that_were_announced() -> None:
    phase = StartPhase(announced=2)
    flows: list[Any] = [SimpleNamespace(name=name, query_id=None) for name in ("a", "b")]
    nothing: Any = None
    starts = FlowStarts(
        preparer=nothing,
        restorer=None,
        gate=nothing,
        start_phase=phase,
        not_served=[],
        on_start=lambda: None,
        record=lambda _: None,
        paths=nothing,
        is_guest=False,
    )
    starts.flows_prepared(flows[:1])
    assert (phase.is_over, phase.is_complete, phase.missing) == (True, False, 1)
    starts.flows_prepared(flows)
    assert (phase.is_complete, phase.missing) == (True, 0)


@pytest.mark.parametrize("is_guest", [False, True])
def test_a_flow_that_cannot_be_recorded_runs_no_batch(is_guest: bool) -> None:
    gate = ProgramGate()
    nothing: Any = None

    def refuse(_: object) -> None:
        raise RegistryError("the server restarts")

    starts = FlowStarts(
        preparer=nothing,
        restorer=None,
        gate=gate,
        start_phase=StartPhase(),
        not_served=[],
        on_start=lambda: None,
        record=refuse,
        paths=nothing,
        is_guest=is_guest,
    )
    query: Any = SimpleNamespace(name="a", run_id="r")
    assert starts.flow_started(query, restored=False) is is_guest
    assert (gate.fatal is None) is is_guest


def test_a_query_that_is_being_started_is_named() -> None:
    phase = StartPhase()
    with phase.starting("a"), phase.starting("b"):
        assert list(phase.in_flight) == ["a", "b"]
    assert list(phase.in_flight) == []


def test_a_start_that_fails_is_no_start() -> None:
    phase = StartPhase()
    with pytest.raises(ValueError, match="refused"), phase.starting("a"):
        raise ValueError("refused")
    assert phase.in_flight == ()
    phase.waited()
    assert not phase.is_over


def test_asking_once_is_not_waiting() -> None:
    clock = Clock()
    phase = StartPhase(clock=clock)
    started(phase, "a")
    phase.asked()
    assert not phase.is_over
    clock.now += ASKED
    phase.asked()
    assert phase.is_over
    assert phase.is_complete


def test_a_quiet_program_counts_as_started_and_later_as_complete() -> None:
    clock = Clock()
    phase = StartPhase(clock=clock)
    clock.now += COMPLETE
    phase.look()
    assert not phase.is_over, "it has no query"
    started(phase, "a")
    clock.now += QUIET - 0.1
    phase.look()
    assert not phase.is_over
    with phase.starting("b"):
        clock.now += COMPLETE
        phase.look()
        assert not phase.is_over, "a long start is not quiet"
    clock.now += QUIET
    phase.look()
    assert phase.is_over
    assert not phase.is_complete
    clock.now += COMPLETE
    assert phase.is_complete


def test_an_announced_number_alone_ends_it() -> None:
    clock = Clock()
    phase = StartPhase(3, clock)
    started(phase, "a", "b", "b")
    phase.waited()
    clock.now += QUIET
    phase.asked()
    phase.look()
    assert not phase.is_over
    assert phase.missing == 1
    started(phase, "c")
    assert phase.is_over
    assert phase.is_complete


def test_an_announced_query_that_does_not_come() -> None:
    clock = Clock()
    phase = StartPhase(2, clock)
    started(phase, "a")
    clock.now += QUIET_ANNOUNCED
    phase.look()
    assert phase.is_over
    assert not phase.is_complete
    clock.now += COMPLETE
    assert not phase.is_complete, "one was announced and never came"


def test_the_end_of_the_program_ends_it() -> None:
    phase = StartPhase(2)
    started(phase, "a")
    phase.ended()
    assert phase.is_over
    assert phase.missing == 1
