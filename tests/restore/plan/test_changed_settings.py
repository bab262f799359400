"""Settings that the keys of a state depend on, compared between a savepoint and a program."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinkish.messages.plan import StateChange, StateVerdict
from flinkish.operators.state_semantics import (
    ANSI,
    CASE_SENSITIVE,
    ONLY,
    TIME_PARSER,
    TIME_ZONE,
    Column,
    Dependence,
    StateSemantics,
)
from flinkish.restore.plan.changed_settings import (
    SETTINGS_CHANGED,
    refuse_in_place,
    setting_changes,
)
from flinkish.restore.plan.judging import advice_for, ask, judge_operator
from tests.support.restore.query_builders import AGG, changed, new, old, saved_query

HOUR = "date_format(ts, 'HH')"
PART = f"key `{HOUR}`"


def meaning(*settings: Dependence, name: str = HOUR, origin: str = HOUR) -> StateSemantics:
    return StateSemantics({ONLY: (Column(name, origin),)}, settings=settings)


def zone(value: str, part: str = PART, *, certain: bool = True) -> Dependence:
    return Dependence(TIME_ZONE, value, part, HOUR, certain)


def changes(saved: StateSemantics | None, now: StateSemantics) -> list[StateChange]:
    return list(setting_changes(saved, now))


def test_another_zone_needs_consent_and_the_saved_one_is_offered() -> None:
    (change,) = changes(meaning(zone("UTC")), meaning(zone("Asia/Tokyo")))
    assert (change.reason, change.verdict, change.partial) == (
        SETTINGS_CHANGED,
        StateVerdict.AS_IS,
        True,
    )
    assert change.text == (
        f"the session's time zone was UTC and is Asia/Tokyo: {PART} depends on it, so existing "
        "state does not match new rows"
    )
    assert change.advice == (
        "continue with --conf spark.sql.session.timeZone=UTC "
        "(if the program sets it, change it there)"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (meaning(zone("UTC")), meaning(zone("utc"))),
        (meaning(zone("Etc/UTC")), meaning(zone("+00:00"))),
        (meaning(zone("UTC")), meaning()),  # the expression is another one, which needs no zone
        (meaning(), meaning(zone("UTC"))),
        (meaning(zone("UTC", "key `a`")), meaning(zone("Asia/Tokyo", "key `b`"))),
        (StateSemantics(), meaning(zone("UTC"))),  # nothing is known of the state
        (None, meaning(zone("UTC"))),
        # An exception and the new rules never give two answers.
        (
            meaning(Dependence(TIME_PARSER, "EXCEPTION", PART)),
            meaning(Dependence(TIME_PARSER, "CORRECTED", PART)),
        ),
    ],
)
def test_what_means_the_same_is_no_change(
    before: StateSemantics | None, after: StateSemantics
) -> None:
    assert changes(before, after) == []


def test_what_the_data_decides_is_only_told() -> None:
    (change,) = changes(
        meaning(zone("UTC", certain=False)), meaning(zone("Asia/Tokyo", certain=False))
    )
    assert not change.partial
    assert change.text.endswith("depends on it where the text does not name a zone")


def test_each_setting_is_told_once_with_the_parts_that_depend_on_it() -> None:
    parts = [f"key `k{n}`" for n in range(5)]
    before = meaning(*(zone("UTC", part) for part in parts), Dependence(ANSI, "false", "key `k0`"))
    after = meaning(*(zone("UTC+1", part) for part in parts), Dependence(ANSI, "true", "key `k0`"))
    ansi, zones = changes(before, after)
    assert ansi.text.startswith("spark.sql.ansi.enabled was false and is true: key `k0` depends")
    assert "--conf spark.sql.ansi.enabled=false" in ansi.advice
    assert f"key `k2` ({HOUR}) and 2 more depend on it" in zones.text


def test_parts_that_had_several_values_are_not_all_given_one() -> None:
    parts = ("UTC", "key `a`"), ("Asia/Tokyo", "key `b`")
    (change,) = changes(
        meaning(*(zone(value, part) for value, part in parts)),
        meaning(*(zone("Europe/Rome", part) for _, part in parts)),
    )
    assert "was UTC and Asia/Tokyo and is Europe/Rome: key `a`" in change.text
    assert change.advice == f"have the program set {TIME_ZONE} as the saved one did"


def test_case_sensitivity_matters_where_names_mean_other_columns() -> None:
    insensitive = Dependence(CASE_SENSITIVE, "false", certain=False)
    sensitive = Dependence(CASE_SENSITIVE, "true", certain=False)
    before = meaning(insensitive, name="shop", origin="upper(shop)")
    assert changes(before, meaning(sensitive, name="shop", origin="upper(shop)")) == []
    assert changes(before, meaning(insensitive, name="shop", origin="shop")) == []
    (change,) = changes(before, meaning(sensitive, name="shop", origin="shop"))
    assert change.partial
    assert "`key shop` was upper(shop) and is shop" in change.text
    # A file's columns are found by their names when it is read.
    read = Dependence(CASE_SENSITIVE, "false", "key `a`", "the column a of parquet files", False)
    (note,) = changes(meaning(insensitive, read), meaning(sensitive, replace(read, value="true")))
    assert not note.partial
    assert note.text.endswith("key `a` (the column a of parquet files) is looked up by name")
    two = [replace(read, part=part) for part in ("key `a`", "key `b`")]
    (note,) = changes(
        meaning(insensitive, *two),
        meaning(sensitive, *(replace(each, value="true") for each in two)),
    )
    assert note.text.endswith("key `b` (the column a of parquet files) are looked up by name")


def test_an_operator_whose_settings_changed_asks_for_consent() -> None:
    saved = changed(old("hours", kind=AGG), meaning=meaning(zone("UTC")))
    program = changed(new("hours", kind=AGG), meaning=meaning(zone("Asia/Tokyo")))
    plan = judge_operator(program, saved, saved_query(saved))
    assert (plan.verdict, plan.reason) == (StateVerdict.AS_IS, SETTINGS_CHANGED)
    refusal = ask([plan], [])
    assert refusal is not None
    assert refusal.data["reasons"] == [SETTINGS_CHANGED]
    assert refusal.hint == (
        "continue with --conf spark.sql.session.timeZone=UTC "
        "(if the program sets it, change it there); or agree with --accept-partial hours"
    )
    assert advice_for(plan) == refusal.hint
    assert ask([plan], ["hours"]) is None
    assert advice_for(plan, (), ["hours"]) == ""


def test_a_query_that_goes_on_in_its_checkpoint_is_asked_too() -> None:
    before, now = meaning(zone("UTC")), meaning(zone("Asia/Tokyo"))
    assert refuse_in_place("q", [("hours", before, before), ("new", None, now)]) is None
    refusal = refuse_in_place("q", [("hours", before, now)])
    assert refusal is not None
    assert refusal.message.startswith("query 'q': hours: the session's time zone was UTC and is")
    assert refusal.hint is not None
    assert refusal.hint.endswith("flinkish run -s PATH --accept-partial hours")
