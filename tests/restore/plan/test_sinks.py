"""What the batches of a sink mean for a restore. That Spark does so is tested in tests/driver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flinkish.connectors.table_commits import Drift, RollbackTarget, TableCommit
from flinkish.restore.plan.sinks import Continuation, SinkStatus, judge_sink

UNDONE = tuple(TableCommit(v, "STREAMING UPDATE", "q", v) for v in (8, 9))
FILE = SinkStatus("parquet", "/out", 9)
EMPTY = replace(FILE, has_files=False)
DELTA = SinkStatus(
    *("delta", "/out", 9),
    by_query_id=True,
    rollback=RollbackTarget(7, UNDONE),
    skips_after_rollback=True,
)
ICEBERG = replace(
    DELTA, format="iceberg", path="db.t", skips_after_rollback=False, computes_skipped=True
)
SHARED = replace(DELTA, rollback=RollbackTarget(None, why="others have written to it since"))
UNDONE_DELTA = replace(DELTA, drift=Drift(undone=True))
ANOTHER = (TableCommit(8, "STREAMING UPDATE", "another", 0),)
FOLLOWED = replace(DELTA, drift=Drift(new_writers=ANOTHER))
MERGED = replace(
    DELTA,
    drift=Drift(merged=("batches 6 to 40 of query 'r'",)),
    rollback=RollbackTarget(None, why="queries that are merged have written to it since"),
)
REPLACED = replace(DELTA, drift=Drift(replaced=(TableCommit(8, "WRITE", replaces_rows=True),)))
WITH_OTHERS = replace(DELTA, drift=Drift(others=(TableCommit(8, "DELETE"),)))


def at(batch: int, **facts: Any) -> Continuation:
    return Continuation(
        batch,
        **{"keeps_query_id": True, "stateful": False, **facts},
    )


STATE: dict[str, bool] = {"stateful": True}
PLANNED: dict[str, bool] = {"replays_planned": True}
#: The query was killed after its sink had the batch, and the state of that is there.
KEPT: dict[str, bool] = {**PLANNED, "has_planned_state": True}
#: Its program writes to another place than before, where others have written.
MOVED: dict[str, bool] = {**PLANNED, "writes_elsewhere": True}
#: A source that has rows in the planned batch continues from other offsets.
PART: dict[str, bool] = {**PLANNED, "moves_source": True}
#: The job went on after the savepoint, so that the query gets a new id.
BACK: dict[str, bool] = {"keeps_query_id": False, "goes_back": True}
FORK: dict[str, bool] = {"keeps_query_id": False}
USED: dict[str, bool] = {**FORK, "in_use": True}
#: A query of later batches is merged into it, after which the sink is.
ABOVE: dict[str, int] = {"raised_to": 12}
#: A query of later batches is merged into it, before which the sink is.
BELOW: dict[str, int] = {"raised_to": 8}

CASES: list[tuple[SinkStatus, Continuation, Any, str, str, int | None]] = [
    # position, query, mode -> verdict, reason, rebase_to
    (FILE, at(9, **STATE), None, "as-is", "sink-not-ahead", None),
    (FILE, at(12, **STATE, **PLANNED), None, "as-is", "sink-behind", None),
    (EMPTY, at(7, **STATE, **PLANNED), None, "rebase", "sink-without-rows", 9),
    (EMPTY, at(9), None, "as-is", "sink-not-ahead", None),
    (FILE, at(8, **PLANNED), None, "as-is", "sink-has-planned", None),
    (FILE, at(8), None, "ahead", "sink-ahead", None),
    (FILE, at(8, **STATE, **PLANNED), None, "ahead", "sink-has-planned", None),
    (FILE, at(8, **STATE, **KEPT), None, "as-is", "sink-has-planned", None),
    (DELTA, at(8, **STATE, **KEPT), None, "as-is", "sink-has-planned", None),
    (FILE, at(7, **STATE, **KEPT), None, "ahead", "sink-ahead-state", None),
    (FILE, at(8, **STATE, **PLANNED), "accept", "ahead", "sink-has-planned", None),
    (FILE, at(8, **STATE, **PLANNED), "rebase", "rebase", "sink-ahead", 9),
    (FILE, at(8, **STATE, **FORK), None, "ahead", "sink-ahead-state", None),
    (DELTA, at(8, **STATE, **PLANNED), None, "ahead", "sink-has-planned", None),
    (ICEBERG, at(8, **STATE, **PLANNED), None, "as-is", "sink-has-planned", None),
    (ICEBERG, at(7, **STATE, **PLANNED), "rebase", "rebase", "sink-ahead", 8),
    (FILE, at(7, **PLANNED), None, "ahead", "sink-ahead", None),
    (FILE, at(7, **PLANNED), "rebase", "rebase", "sink-ahead", 8),
    (FILE, at(8, **MOVED), None, "ahead", "sink-ahead", None),
    (FILE, at(8, **STATE, **KEPT, writes_elsewhere=True), None, "ahead", "sink-ahead-state", None),
    (FILE, at(7, **MOVED), "rebase", "rebase", "sink-ahead", 9),
    (DELTA, at(8, **MOVED), None, "as-is", "sink-has-planned", None),
    (FILE, at(8, **PART), None, "ahead", "sink-has-planned", None),
    (FILE, at(8, **PART), "accept", "accept", "sink-ahead", None),
    (FILE, at(8, **PART), "rebase", "rebase", "sink-ahead", 8),
    (FILE, at(8, **STATE, **PART), None, "ahead", "sink-has-planned", None),
    (DELTA, at(8, **PART), "rollback", "rollback", "sink-ahead", 9),
    (ICEBERG, at(8, **STATE, **PART), None, "ahead", "sink-has-planned", None),
    (FILE, at(7), "rebase", "rebase", "sink-ahead", 9),
    (FILE, at(7, **STATE), "rebase", "rebase", "sink-ahead", 9),
    (FILE, at(7, **PLANNED), "accept", "accept", "sink-ahead", None),
    (FILE, at(7, **STATE), "accept", "ahead", "sink-ahead-state", None),
    (FILE, at(9, **STATE), "rebase", "as-is", "sink-not-ahead", None),
    (FILE, at(7), "rollback", "ahead", "sink-cannot-go-back", None),
    (DELTA, at(7, **STATE), None, "ahead", "sink-ahead-state", None),
    (DELTA, at(7, **STATE), "rebase", "rebase", "sink-ahead", 9),
    (DELTA, at(7, **STATE), "rollback", "rollback", "sink-ahead", 9),
    (DELTA, at(9, **STATE), "rollback", "as-is", "sink-not-ahead", None),
    (DELTA, at(7, **FORK), None, "as-is", "sink-other-id", None),
    (DELTA, at(7, **FORK), "rollback", "rollback", "sink-ahead", None),
    (DELTA, at(7, **USED), "rollback", "ahead", "sink-cannot-go-back", None),
    (DELTA, at(7, **STATE, **BACK), None, "ahead", "sink-ahead", None),
    (DELTA, at(7, **STATE, **BACK), "rebase", "rebase", "sink-ahead", None),
    (DELTA, at(7, **STATE, **BACK), "accept", "ahead", "sink-ahead", None),
    (DELTA, at(7, **BACK), "accept", "accept", "sink-ahead", None),
    (DELTA, at(7, **BACK, may_keep_id=False), "accept", "ahead", "sink-ahead", None),
    (DELTA, at(7, **STATE, **BACK), "rollback", "rollback", "sink-ahead", None),
    (SHARED, at(7), "rollback", "ahead", "sink-cannot-go-back", None),
    (UNDONE_DELTA, at(9, **STATE), None, "ahead", "sink-undone", None),
    (UNDONE_DELTA, at(9, **STATE, **FORK), None, "ahead", "sink-undone", None),
    (UNDONE_DELTA, at(9, **STATE), "accept", "accept", "sink-undone", None),
    (UNDONE_DELTA, at(9, **STATE), "rollback", "rollback", "sink-undone", None),
    (UNDONE_DELTA, at(8, **STATE), None, "ahead", "sink-undone", None),
    (UNDONE_DELTA, at(8, **STATE), "accept", "ahead", "sink-undone", None),
    (UNDONE_DELTA, at(8, **STATE), "rebase", "rebase", "sink-undone", 9),
    (UNDONE_DELTA, at(8, **STATE), "rollback", "rollback", "sink-undone", 9),
    (UNDONE_DELTA, at(9, **USED), "rollback", "ahead", "sink-cannot-go-back", None),
    (FOLLOWED, at(9, **STATE), None, "ahead", "sink-shared", None),
    (FOLLOWED, at(9, **STATE), "accept", "accept", "sink-shared", None),
    (FOLLOWED, at(8, **STATE), None, "ahead", "sink-ahead-state", None),
    (FOLLOWED, at(7), None, "ahead", "sink-shared", None),
    (FOLLOWED, at(7), "accept", "accept", "sink-shared", None),
    (FOLLOWED, at(7), "rebase", "rebase", "sink-shared", 9),
    (FOLLOWED, at(8, **PLANNED), None, "ahead", "sink-shared", None),
    (FOLLOWED, at(8, **STATE, **KEPT), "accept", "accept", "sink-has-planned", None),
    (FOLLOWED, at(7, **BACK), None, "ahead", "sink-shared", None),
    (FOLLOWED, at(7, **BACK), "accept", "accept", "sink-shared", None),
    (FOLLOWED, at(7, **STATE, **BACK), "rebase", "rebase", "sink-shared", None),
    (REPLACED, at(7), None, "ahead", "sink-shared", None),
    (MERGED, at(9, **STATE), None, "ahead", "sink-shared", None),
    (MERGED, at(9, **STATE), "accept", "accept", "sink-shared", None),
    (MERGED, at(7, **BACK), "rollback", "ahead", "sink-cannot-go-back", None),
    (WITH_OTHERS, at(7), None, "ahead", "sink-ahead", None),
    (WITH_OTHERS, at(9, **STATE), None, "as-is", "sink-shared", None),
    (ICEBERG, at(7, **STATE), None, "ahead", "sink-ahead", None),
    (ICEBERG, at(7, **STATE), "accept", "accept", "sink-ahead", None),
    (ICEBERG, at(7, **STATE), "rollback", "rollback", "sink-ahead", None),
    (FILE, at(9, **STATE, **ABOVE), None, "as-is", "sink-not-ahead", None),
    (FILE, at(7, **ABOVE), None, "ahead", "sink-ahead", None),
    (FILE, at(7, **ABOVE), "accept", "ahead", "sink-ahead", None),
    (FILE, at(7, **STATE, **ABOVE), "rebase", "rebase", "sink-ahead", 9),
    (FILE, at(8, **STATE, **KEPT, **ABOVE), None, "ahead", "sink-ahead", None),
    (EMPTY, at(7, **ABOVE), None, "rebase", "sink-without-rows", 9),
    (FILE, at(7, **BELOW), None, "ahead", "sink-ahead", None),
    (FILE, at(7, **BELOW), "accept", "ahead", "sink-ahead", None),
    (FILE, at(7, **PLANNED, **BELOW), "rebase", "rebase", "sink-ahead", 8),
    (DELTA, at(7, **STATE, **ABOVE), None, "ahead", "sink-ahead", None),
    (DELTA, at(7, **ABOVE), "rollback", "rollback", "sink-ahead", None),
    (DELTA, at(7, **BELOW), "rollback", "rollback", "sink-ahead", 9),
    (DELTA, at(7, **BACK, **ABOVE), None, "ahead", "sink-ahead", None),
    (DELTA, at(7, **BACK, **ABOVE), "accept", "ahead", "sink-ahead", None),
    (UNDONE_DELTA, at(8, **STATE, **ABOVE), "accept", "accept", "sink-undone", None),
]


@pytest.mark.parametrize(
    ("sink", "query", "mode", "verdict", "reason", "rebase_to"),
    CASES,
)
def test_the_verdict(
    sink: SinkStatus,
    query: Continuation,
    mode: Any,
    verdict: str,
    reason: str,
    rebase_to: int | None,
) -> None:
    plan = judge_sink(sink, query, mode)
    assert (plan.verdict, plan.reason, plan.rebase_to) == (verdict, reason, rebase_to)
    assert plan.newest_batch == 9
    assert plan.blocks is (verdict == "ahead")
    assert bool(plan.advice) is plan.blocks is bool(plan.permit)
    assert plan.rollback_to == (7 if verdict == "rollback" else None)
    assert plan.keeps_query_id is (verdict == "accept" and query.goes_back)
    for word in ("rebase", "accept", "rollback"):  # only what works is advised
        assert (word in plan.permit) is (f"--sink-ahead {word}" in plan.advice)
    assert ("--fork" in plan.advice) is (plan.blocks and sink.by_query_id and query.keeps_query_id)


@pytest.mark.parametrize("case", [case for case in CASES if case[3] == "ahead"])
def test_each_choice_that_is_offered_works(case: tuple[Any, ...]) -> None:
    sink, query, mode = case[:3]
    offered = judge_sink(sink, query, mode).permit
    assert offered
    for choice in offered:
        assert not judge_sink(sink, query, choice).blocks


def test_rows_of_the_planned_batch_that_a_moved_source_reads_again_are_told() -> None:
    plan = judge_sink(FILE, at(8, **PART))
    assert "reads again from its new offsets would be there twice" in plan.text
    assert "accept lets the sink drop that output" in plan.advice


def test_a_sink_that_cannot_go_back_says_why() -> None:
    assert "the format parquet keeps no versions" in judge_sink(FILE, at(7), "rollback").text
    assert "others have written to it" in judge_sink(SHARED, at(7), "rollback").text
    assert "still writes to it" in judge_sink(DELTA, at(7, **USED), "rollback").text


@pytest.mark.parametrize(
    ("sink", "query", "choice"),
    [
        (UNDONE_DELTA, at(7, **STATE), "rebase"),  # it skips batches that were undone
        (UNDONE_DELTA, at(9, **STATE), "accept"),
        (FOLLOWED, at(9, **STATE), "accept"),
    ],
)
def test_a_table_with_rows_of_others_that_cannot_go_back_may_be_taken_as_it_is(
    sink: SinkStatus, query: Continuation, choice: Any
) -> None:
    stuck = replace(sink, rollback=RollbackTarget(None, why="others have written to it since"))
    plan = judge_sink(stuck, query, "rollback")
    assert (plan.reason, plan.permit) == ("sink-cannot-go-back", (choice,))
    assert f"--sink-ahead {choice} continues with the table as it is" in plan.advice
    assert not judge_sink(stuck, query, choice).blocks


@pytest.mark.parametrize("mode", [None, "accept", "rebase"])
@pytest.mark.parametrize("query", [at(7), at(8, **PLANNED), at(9), at(7, **BACK)])
def test_rows_of_others_are_told_whatever_the_table_has(query: Continuation, mode: Any) -> None:
    """A job that resumed under another query id has written the same input since."""
    for sink in (FOLLOWED, replace(FOLLOWED, newest_batch=None)):
        plan = judge_sink(sink, query, mode)
        assert "since: version 8 (STREAMING UPDATE) of a query that had not written" in plan.text
        assert "input that is read again will be there twice" in plan.text
        assert plan.verdict == (mode or "ahead")
    ahead = judge_sink(FOLLOWED, at(7, **BACK))
    assert "and continues with the rows of others as they are" in ahead.advice


@pytest.mark.parametrize(("raised", "dropped"), [(ABOVE, False), (BELOW, True)])
def test_what_the_sink_of_a_merged_query_gets_again_is_said(
    raised: dict[str, int], dropped: bool
) -> None:
    text = judge_sink(FILE, at(7, **raised)).text
    assert "resumes after batch 7, with the numbers after" in text
    assert "input that is read again would be there twice" in text
    assert ("drop the output up to batch 9" in text) is dropped
    following = max(9, raised["raised_to"]) + 1
    assert f"continues as batch {following};" in judge_sink(FILE, at(7, **raised), "rebase").text


def test_what_a_rollback_undoes_is_said() -> None:
    text = judge_sink(DELTA, at(7), "rollback").text
    assert "is rolled back to version 7, which undoes 2 commits after the savepoint" in text
    assert "it continues as batch 10" in text
    assert "continues as batch" not in judge_sink(DELTA, at(7, **BACK), "rollback").text


def test_an_unreadable_sink_is_said_and_does_not_block() -> None:
    plan = judge_sink(SinkStatus("orc", "x://out", unreadable="gone"), at(5, **STATE))
    assert (plan.verdict, plan.blocks, plan.newest_batch) == ("unreadable", False, None)
    assert "--sink-ahead" not in plan.text + plan.advice, "no choice has an effect"


@pytest.mark.parametrize("mode", ["rebase", "accept"])
def test_a_choice_for_an_unreadable_sink_is_said_to_have_no_effect(mode: Any) -> None:
    plan = judge_sink(SinkStatus("orc", "x://out", unreadable="gone"), at(5, **STATE), mode)
    assert (plan.verdict, plan.rebase_to) == ("unreadable", None)
    assert f"--sink-ahead {mode} has no effect on it" in plan.text


def test_an_unreadable_table_that_is_to_go_back_blocks() -> None:
    table = SinkStatus("delta", "/out", by_query_id=True, unreadable="no classes")
    plan = judge_sink(table, at(5, **STATE), "rollback")
    assert (plan.blocks, plan.reason, plan.permit) == (True, "sink-cannot-go-back", ("rebase",))
    assert "no classes" in plan.text
    assert "writes it all again" not in plan.advice
    assert not judge_sink(table, at(5, **STATE), "rebase").blocks
