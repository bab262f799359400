"""``dropDuplicates`` takes the state of ``dropDuplicatesWithinWatermark``, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flinkish.checkpoint.format.schema_files import StoreInfo
from flinkish.messages.plan import StateVerdict
from flinkish.operators.state_semantics import ONLY, WATERMARK_DELAY, StateSemantics
from flinkish.restore.origin.restore_inputs import NewOperator, SavedOperator
from flinkish.restore.plan.decisions import plan_query
from flinkish.restore.plan.judging import (
    FOR_THE_ENGINE,
    OperatorJudgement,
    ask,
    judge_operator,
    refuse,
)
from tests.restore.plan.test_schema_compatibility import columns, struct
from tests.support.restore.query_builders import changed, new, old, saved_query
from tests.support.restore.query_builders import starting as program

FOR_EVER, WITHIN = "dedupe", "dedupeWithinWatermark"
VALUES = {FOR_EVER: struct("__dummy__ void"), WITHIN: struct("expiresAtMicros long!")}
HOUR_MS = 3_600_000
#: 2024-03-01 12:00 UTC.
NOON_MS = 1_709_294_400_000


def stores(kind: str, key: dict[str, Any]) -> tuple[StoreInfo, ...]:
    return (StoreInfo("default", key, VALUES[kind]),)


def saved(kind: str, key: str = "k string, n integer") -> SavedOperator:
    names = [each.split()[0] for each in key.split(", ")]
    meaning = StateSemantics({ONLY: columns(*names)})
    return changed(old("seen", kind=kind), stores=stores(kind, struct(key)), meaning=meaning)


def starting(kind: str, key: str = "k string, n integer") -> NewOperator:
    names = [each.split()[0] for each in key.split(", ")]
    schema = struct(key)
    for field in schema["fields"]:
        if field["type"] == "timestamp":
            field["metadata"] = {WATERMARK_DELAY: 2 * HOUR_MS}
    delay = 2 * HOUR_MS if kind == WITHIN else None
    meaning = StateSemantics({ONLY: columns(*names)}, delay_ms=delay)
    return changed(new("seen", kind=kind), stores=stores(kind, schema), meaning=meaning)


def judged(
    before: SavedOperator, after: NewOperator, watermark_ms: int | None = NOON_MS
) -> OperatorJudgement:
    base = replace(saved_query(before), watermark_ms=watermark_ms)
    return judge_operator(after, before, base)


def test_keys_expire_two_delays_after_the_watermark() -> None:
    found = judged(saved(FOR_EVER), starting(WITHIN))
    assert (found.verdict, found.reason) == (StateVerdict.MIGRATE, "deduplication-changed")
    assert "once the watermark reaches 2024-03-01 16:00:00 UTC" in found.text
    assert found.evolution is not None
    evolved = found.evolution["default"]
    assert evolved.value == VALUES[WITHIN]
    assert (evolved.key_places, evolved.places) == ((0, 1), (None,))
    assert evolved.begins == {0: (NOON_MS + 4 * HOUR_MS) * 1000}
    refusal = ask([found], ())
    assert refusal is not None
    assert (
        "the watermark's delay was above 7200 s before, or if the query has several watermarks"
        in refusal.message
    )
    assert refusal.code == 5
    assert ask([found], ["seen"]) is None


@pytest.mark.parametrize(("before", "hours"), [(5 * HOUR_MS, 7), (HOUR_MS, 4), ("x", 4)])
def test_keys_outlive_the_delay_that_the_watermark_had(before: object, hours: int) -> None:
    taken = saved(FOR_EVER, "k string, ts timestamp")
    schema = struct("k string, ts timestamp")
    schema["fields"][1]["metadata"] = {WATERMARK_DELAY: before}
    taken = changed(taken, stores=stores(FOR_EVER, schema))
    found = judged(taken, starting(WITHIN, "k string, ts timestamp"))
    assert found.evolution is not None
    assert found.evolution["default"].begins == {0: (NOON_MS + hours * HOUR_MS) * 1000}


def test_keys_of_another_query_expire_by_the_watermark_of_that_query() -> None:
    before = replace(saved(FOR_EVER), query="other")
    other = replace(saved_query(before, key="other"), watermark_ms=NOON_MS)
    own = replace(saved_query(), watermark_ms=NOON_MS - 2 * HOUR_MS)
    plan = plan_query(program(starting(WITHIN)), [own, other], set())
    assert plan.base == own
    (found,) = plan.operators or ()
    assert found.evolution is not None
    assert found.evolution["default"].begins == {0: (NOON_MS + 4 * HOUR_MS) * 1000}


@pytest.mark.parametrize("watermark_ms", [None, 0])
def test_without_a_watermark_nobody_knows_when_keys_expire(watermark_ms: int | None) -> None:
    found = judged(saved(FOR_EVER), starting(WITHIN), watermark_ms)
    assert (found.verdict, found.reason) == (StateVerdict.INCOMPATIBLE, "deduplication-changed")
    refusal = refuse([found], FOR_THE_ENGINE)
    assert refusal is not None
    assert "withWatermark" in (refusal.hint or "")


def test_keys_that_are_kept_for_ever() -> None:
    found = judged(saved(WITHIN), starting(FOR_EVER))
    assert found.verdict is StateVerdict.MIGRATE
    assert found.evolution is not None
    evolved = found.evolution["default"]
    assert (evolved.value, evolved.places, evolved.begins) == (VALUES[FOR_EVER], (None,), {})
    assert ["expired keys count as new again" in text for text in found.partial] == [True]


def test_no_key_is_lost_that_holds_the_event_time() -> None:
    key = "k string, ts timestamp"
    found = judged(saved(WITHIN, key), starting(FOR_EVER, key), None)
    assert found.verdict is StateVerdict.MIGRATE
    assert found.partial == ()


def test_the_key_evolves_with_it() -> None:
    found = judged(saved(FOR_EVER), starting(WITHIN, "n long, k string"))
    assert {change.reason for change in found.changes} == {
        *("deduplication-changed", "key-reordered", "type-widened")
    }
    assert found.evolution is not None
    assert found.evolution["default"].key_places == (1, 0)


def test_another_key_stays_refused() -> None:
    found = judged(saved(FOR_EVER), starting(WITHIN, "k string"))
    assert (found.verdict, found.reason) == (StateVerdict.INCOMPATIBLE, "key-changed")


def test_a_plain_checkpoint_does_not_say_which_column_is_which() -> None:
    found = judged(changed(saved(FOR_EVER), meaning=None), starting(WITHIN))
    assert found.verdict is StateVerdict.MIGRATE
    assert not found.executable(FOR_THE_ENGINE)
