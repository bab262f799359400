"""What a saved query becomes for an older Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinkish.checkpoint.format.pins import PIN_JOIN_FORMAT
from flinkish.checkpoint.format.schema_files import StoreInfo
from flinkish.compat.model import Rewrite
from flinkish.messages.plan import StateVerdict
from flinkish.restore.origin.restore_inputs import SavedQueryFacts
from flinkish.restore.origin.spark_compat import SparkFit, fit_query
from flinkish.restore.plan.decisions import QueryPlan
from flinkish.restore.plan.judging import judge_operator
from flinkish.restore.plan.query_restore import rewrite_of
from tests.restore.plan.test_schema_compatibility import struct
from tests.support.restore.query_builders import AGG, changed, new, old, saved_query

JOIN, LISTS = "symmetricHashJoin", "transformWithStateInPandasExec"
ROWS = struct("a long, w timestamp, matched boolean")
#: As Spark 4.3 has them in its schema files, and what 4.1 plans for the same join.
FORMAT_4 = tuple(
    StoreInfo(f"{side}-{name}", struct(f"field0 string, __event_time {time}"), value)
    for side in ("left", "right")
    for name, time, value in (
        ("keyWithTsToValues", "long", ROWS),
        ("tsWithKey", "long", struct("__dummy__ void")),
    )
)
FORMAT_2 = tuple(
    StoreInfo(f"{side}-{name}", struct(key), value)
    for side in ("left", "right")
    for name, key, value in (
        ("keyToNumValues", "field0 string", struct("value long")),
        ("keyWithIndexToValue", "field0 string, index long", ROWS),
    )
)


def query(join_format: str = "4") -> SavedQueryFacts:
    operators = (
        changed(old("joined", 0, JOIN), stores=FORMAT_4 if join_format == "4" else FORMAT_2),
        old("counted", 1, AGG),
        old("listed", 2, LISTS),
    )
    return replace(saved_query(*operators), pins={PIN_JOIN_FORMAT: join_format, "other": "1"})


def rewritten(found: SavedQueryFacts) -> dict[str | None, str]:
    return {op.uid: op.rewritten for op in found.operators if op.rewritten}


def test_what_needs_nothing_stays() -> None:
    assert fit_query(query(), 2, set(), (4, 2), "4.2.1") == (query(), SparkFit())


@pytest.mark.parametrize("join_format", ["3", "4"])
def test_joins_become_format_2(join_format: str) -> None:
    needed = {Rewrite.JOIN_FORMAT_2}
    found, fit = fit_query(query(join_format), 1, needed, (4, 0), "4.0.5")
    assert fit == SparkFit({PIN_JOIN_FORMAT: "2"})
    assert found.pins == {PIN_JOIN_FORMAT: "2", "other": "1"}
    why = f"rewritten for Spark 4.0.5: join state format {join_format} becomes 2"
    assert rewritten(found) == {"joined": why}
    assert found.operators[0].state.stores == FORMAT_2
    assert found.operators[0].regrouped == (join_format == "4")


@pytest.mark.parametrize(
    ("join_format", "spark"),
    [*[("1", (3, 5)), ("2", (3, 5)), ("2", (4, 0)), ("3", (4, 1)), ("4", (4, 2)), ("4", (4, 3))]],
)
def test_joins_that_spark_knows_stay(join_format: str, spark: tuple[int, int]) -> None:
    """Another query of the savepoint needs it."""
    given = query(join_format)
    assert fit_query(given, 1, {Rewrite.JOIN_FORMAT_2}, spark, "some") == (given, SparkFit())


def test_a_setting_that_spark_does_not_know_goes_where_there_is_no_join_too() -> None:
    """Spark 4.1: "The value '4' in the config ... is invalid", for any query."""
    given = replace(saved_query(old("counted", 0, AGG)), pins={PIN_JOIN_FORMAT: "4"})
    found, fit = fit_query(given, 1, set(), (4, 1), "4.1.4")
    assert (found.pins, fit, rewritten(found)) == (
        {PIN_JOIN_FORMAT: "2"},
        SparkFit({PIN_JOIN_FORMAT: "2"}),
        {},
    )


def test_checkpoint_format_2_becomes_1_with_all_that_it_has() -> None:
    needed = {Rewrite.CHECKPOINT_FORMAT_1, Rewrite.JOIN_FORMAT_2, Rewrite.LISTS}
    found, fit = fit_query(query(), 2, needed, (3, 5), "3.5.9")
    assert fit == SparkFit({PIN_JOIN_FORMAT: "2"}, checkpoint_format=1)
    said = {uid: text.partition(": ")[2] for uid, text in rewritten(found).items()}
    ids = "checkpoint format 2 becomes 1"
    assert said == {
        "joined": f"join state format 4 becomes 2, {ids}",
        "counted": ids,
        "listed": f"{ids}, lists get the form that this Spark reads",
    }
    older = query("2")
    assert fit_query(older, 1, {Rewrite.CHECKPOINT_FORMAT_1}, (3, 5), "3.5.9") == (
        older,
        SparkFit(),
    )


def test_spark_35_reads_no_log_of_checkpoint_format_2_of_any_query() -> None:
    stateless = saved_query()
    found, fit = fit_query(stateless, 2, set(), (3, 5), "3.5.9")
    assert (found, fit) == (stateless, SparkFit(checkpoint_format=1))
    made = rewrite_of(QueryPlan("q", found, own=True), None, fit=fit)
    assert made is not None
    assert made.fit == fit
    assert fit_query(stateless, 2, set(), (4, 0), "4.0.5") == (stateless, SparkFit())


def test_the_engine_is_told() -> None:
    needed = {Rewrite.CHECKPOINT_FORMAT_1}
    found, fit = fit_query(query("2"), 2, needed, (3, 5), "3.5.9")
    # Its operators could not be read: all of the state is taken as it is.
    plan = QueryPlan("q", found, own=True, operators=None)
    made = rewrite_of(plan, None, fit=fit)
    assert made is not None
    assert made.fit == SparkFit(checkpoint_format=1)
    assert rewrite_of(QueryPlan("q", query(), own=True, operators=None), None) is None


def test_rows_are_not_evolved_for_what_another_spark_says_of_their_schema() -> None:
    """Spark 4.3 calls a count nullable, 3.5 does not; the rows are the same."""
    operator = changed(old("counted", 0, AGG), stores=_counting("c long"))
    found, fit = fit_query(saved_query(operator), 2, {Rewrite.CHECKPOINT_FORMAT_1}, (3, 5), "3.5.9")
    program = changed(new("counted", 0, AGG), stores=_counting("c long!"))
    judged = judge_operator(program, found.operators[0], found)
    assert judged.verdict is StateVerdict.MIGRATE
    made = rewrite_of(QueryPlan("q", found, own=True, operators=(judged,)), None, fit=fit)
    assert made is not None
    assert made.evolutions == {}


def _counting(value: str) -> tuple[StoreInfo, ...]:
    return (StoreInfo("default", struct("k string"), struct(value)),)
