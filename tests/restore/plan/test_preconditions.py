"""What has to hold for a restore besides operators, sources and sinks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flinkish.checkpoint.format.logs import MAX_WATERMARK_MS
from flinkish.messages.plan import RestoreOutcome
from flinkish.restore.origin.restore_inputs import NewSink
from flinkish.restore.plan.preconditions import SETTING_SCHEMA_CHECK, preconditions
from tests.support.restore.query_builders import AGG, DEDUP, new, old, saved_query, starting

REFUSED, WARNING, NOTE = RestoreOutcome.REFUSED, RestoreOutcome.WARNING, RestoreOutcome.NOTE


def found(
    before: dict[str, Any] | None = None,
    now: NewSink | None = None,
    *,
    kind: str = AGG,
    watermark: int | None = None,
    settings: dict[str, str] | None = None,
    saved: bool = True,
) -> dict[str, RestoreOutcome]:
    program = replace(starting(new("x", kind=kind)), sink=now or NewSink(), settings=settings or {})
    query = replace(saved_query(old("x", kind=kind)), sink=before or {}, watermark_ms=watermark)
    return {c.id: c.outcome for c in preconditions(program, query if saved else None)}


def test_nothing_to_say() -> None:
    assert found() == {}
    assert found({"format": "parquet", "output_mode": "append"}, NewSink("parquet")) == {}


@pytest.mark.parametrize(
    "sink",
    [
        {"trigger": {"continuous": "1 second"}},
        {"trigger": {"realTime": "5 seconds"}},
        {"async_progress": True},
        {"format": "memory"},
        {"format": "memory", "output_mode": "update"},
    ],
)
def test_state_of_a_mode_that_cuts_nothing_is_refused(sink: dict[str, Any]) -> None:
    assert found(sink, NewSink(output_mode=sink.get("output_mode")))["state-mode"] is REFUSED


def test_the_memory_sink_in_complete_mode_can_be_restarted() -> None:
    for mode in ("complete", "Complete"):
        sink = {"format": "memory", "output_mode": mode}
        assert "state-mode" not in found(sink, NewSink("memory", output_mode=mode))


def test_a_savepoint_of_the_memory_sink_is_refused_for_that_reason() -> None:
    query = replace(saved_query(old("x")), sink={"format": "memory"})
    (check,) = preconditions(starting(new("x")), query)
    assert "which Spark restarts from a checkpoint only in complete mode" in check.text
    assert "offsets" not in check.text
    assert check.advice.startswith("use another sink")


def test_a_query_that_cannot_be_saved_again_is_said_to_be_one() -> None:
    """The memory sink cannot even be restored; the others can, and that is the last savepoint."""
    problem = ("it does something", "do not")
    assert found(now=NewSink("memory", problem=problem)) == {"query-mode": REFUSED}
    assert found(now=NewSink("memory", problem=problem), saved=False) == {"query-mode": WARNING}
    assert found(now=NewSink("kafka", problem=problem)) == {"query-mode": WARNING}


@pytest.mark.parametrize(
    ("before", "now", "kind", "watermark", "expected"),
    [
        ("update", "update", AGG, 1000, None),
        ("update", "complete", AGG, 1000, REFUSED),  # groups that are closed are no more
        ("append", "complete", AGG, 1000, REFUSED),
        ("update", "complete", AGG, None, NOTE),
        ("complete", "append", AGG, 1000, NOTE),
        ("append", "update", AGG, 1000, NOTE),
        ("append", "update", DEDUP, 1000, None),
    ],
)
def test_output_modes(
    before: str, now: str, kind: str, watermark: int | None, expected: RestoreOutcome | None
) -> None:
    checks = found(
        {"output_mode": before}, NewSink(output_mode=now), kind=kind, watermark=watermark
    )
    assert checks.get("output-mode") is expected


def test_a_drained_savepoint_is_warned_about() -> None:
    assert found(watermark=MAX_WATERMARK_MS) == {"drained": WARNING}
    assert found(watermark=MAX_WATERMARK_MS - 1) == {}


def test_the_switch_of_sparks_own_check_is_warned_about() -> None:
    assert found(settings={SETTING_SCHEMA_CHECK: "false"}) == {"state-schema-check": WARNING}
    assert found(settings={SETTING_SCHEMA_CHECK: "true"}) == {}
