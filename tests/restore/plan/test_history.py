"""History batches: which shift a restored query gets, what a foreachBatch function must know."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from flinkish.messages.plan import RestoreOutcome
from flinkish.registry.jobs import JobState
from flinkish.restore.plan.history import (
    Replay,
    check_foreach_batch,
    decide_history,
    saved_shift,
)
from flinkish.restore.plan.query_id import OtherRun, QueryIdentity, decide_query_id

KEPT = QueryIdentity(True, "the job it comes from ended with this batch")
FORK = QueryIdentity(False, "requested by --fork")
NOW = 1_800_000_000_000
ENDED = OtherRun("a" * 32, JobState.FINISHED, 7, 7)
RUNS = OtherRun("b" * 32, JobState.RUNNING, 9, 10)


def shift(saved: int = 0, identity: QueryIdentity = KEPT, **more: Any) -> int:
    runs, replay = more.get("runs", (ENDED,)), more.get("replay", Replay())
    elsewhere = more.get("elsewhere")
    return decide_history(saved, 7, identity, runs, replay, elsewhere, more.get("now", NOW)).shift


def test_who_goes_on_keeps_the_numbers() -> None:
    assert shift() == 0
    assert shift(5 << 32) == 5 << 32
    planned = Replay(planned=True, again=True)
    assert shift(3, runs=(replace(ENDED, begun_batch=8),), replay=planned) == 3
    # Batch 8 becomes batch 13, and has the number that it had.
    assert 13 + shift(3, replay=replace(planned, rebase_to=12)) == 8 + 3


def test_a_query_gets_numbers_above_those_of_a_run_under_another_id() -> None:
    """As after an upgrade that renamed it, which had numbers of its own and is rolled back."""
    renamed = shift(3, QueryIdentity(False, "its state comes from query 'q'"), now=NOW - 1)
    assert shift(3, elsewhere=8) > renamed + 8
    found = check((replace(ENDED, begun_batch=8),), Replay(True, True), elsewhere=9)
    assert found.outcome is RestoreOutcome.NOTE
    assert "runs again with the same input;" in found.text, "it gets another number"
    assert "has processed under another query id, up to its batch 9, is" in found.text


@pytest.mark.parametrize(
    ("identity", "runs", "replay", "why"),
    [
        (FORK, (ENDED,), Replay(), "--fork"),
        # Its function may have run with batch 8, whose input is another now.
        (KEPT, (replace(ENDED, begun_batch=8),), Replay(), "another run had started batch 8"),
        (KEPT, (replace(ENDED, begun_batch=9),), Replay(True, True), "had started batch 9"),
        (
            KEPT,
            (ENDED,),
            Replay(planned=True),
            "batch 8 had been started, and now has different input",
        ),
    ],
)
def test_other_data_gets_other_numbers(
    identity: QueryIdentity, runs: tuple[OtherRun, ...], replay: Replay, why: str
) -> None:
    for saved in (0, 17, 1 << 50):
        plan = decide_history(saved, 7, identity, runs, replay, None, NOW)
        assert not plan.kept
        assert why in plan.reason
        assert plan.shift >= saved + (1 << 32)
        assert plan.shift + (1 << 61) < 1 << 63


def test_numbers_grow_from_restore_to_restore() -> None:
    """Also where the clock goes back, and for forks of one savepoint, which know of no other."""
    line = [0]
    for now in (NOW, NOW + 1, NOW + 50, NOW - 90_000, NOW - 80_000, 0, NOW + 60):
        line.append(shift(line[-1], FORK, now=now))
    assert all(before + (1 << 22) <= after for before, after in pairwise(line))
    forks = [shift(0, FORK, now=NOW + moment) for moment in range(5)]
    assert all(before + (1 << 22) <= after for before, after in pairwise(forks))


def test_the_numbers_last() -> None:
    in_2089 = 3_755_000_000_000
    assert shift(0, FORK, now=in_2089) < shift(0, FORK, now=in_2089 + 1) or in_2089 > NOW
    assert shift(0, FORK, now=in_2089) + (1 << 60) < 1 << 63


@pytest.mark.parametrize("found", [None, "1", True, 1.5, 1 << 70])
def test_a_shift_that_cannot_be_one_is_none(found: object) -> None:
    assert saved_shift({"history_shift": found}) == 0
    assert saved_shift({}) == 0
    assert saved_shift({"history_shift": -3}) == -3


def check(
    runs: tuple[OtherRun, ...],
    replay: Replay | None = None,
    fork: bool = False,
    elsewhere: int | None = None,
) -> Any:
    identity = decide_query_id(7, runs, fork=fork)
    return check_foreach_batch("q", 100, 7, identity, runs, replay or Replay(), elsewhere)


def test_a_function_that_goes_on_has_nothing_twice() -> None:
    found = check((ENDED,))
    assert found.outcome is RestoreOutcome.OK
    assert "no batch runs again; its function continues after history batch 107" in found.text


def test_the_function_of_an_older_savepoint_is_told_how_much_comes_again() -> None:
    found = check((replace(ENDED, last_batch=11, begun_batch=12),))
    assert found.outcome is RestoreOutcome.NOTE
    assert "the input of up to 5 batches after batch 7 that another run has processed" in found.text
    assert "flinkish.history_batch(batch_id)" in found.advice
    assert "txnAppId" in found.advice
    assert "history batches above 107" in found.advice


def test_the_function_of_a_fork_shares_its_input_with_a_job_that_goes_on() -> None:
    found = check((RUNS,), fork=True)
    assert "up to 3 batches" in found.text
    assert "and of those that an active run still processes, is" in found.text


def test_a_planned_batch_is_run_again() -> None:
    found = check((replace(ENDED, begun_batch=8),), Replay(True, True))
    assert found.text == (
        "query 'q' writes with foreachBatch: batch 8, which had been started when the savepoint "
        "was taken, runs again with the same input and the same history batch"
    )


@pytest.mark.parametrize("runs", [(), (ENDED,)])
def test_a_batch_that_had_been_started_and_gets_other_input_is_told(
    runs: tuple[OtherRun, ...],
) -> None:
    found = check(runs, Replay(planned=True))
    assert found.outcome is RestoreOutcome.NOTE
    assert "batch 8, which had been started when the savepoint was taken, is not" in found.text
    assert "its input may be processed again" in found.text
    told = check((replace(ENDED, begun_batch=8),), Replay(planned=True))
    assert "the input of up to 1 batch after batch 7 that another run" in told.text
    assert "had been started when" not in told.text, "once is enough"
