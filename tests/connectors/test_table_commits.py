"""The version to which a table can go back, from histories of a few commits."""

from __future__ import annotations

import re

import pytest

from flinkish.connectors.table_commits import (
    Drift,
    RollbackTarget,
    TableCommit,
    drift,
    rollback_target,
    version_at,
    why_no_longer,
)

CREATED = TableCommit(0, "CREATE TABLE")


def batch(version: int, number: int, query: str = "q") -> TableCommit:
    return TableCommit(version, "STREAMING UPDATE", query, number)


HISTORY = (CREATED, batch(1, 0), batch(2, 1), batch(3, 2), batch(4, 3))


@pytest.mark.parametrize("recorded", [None, 2])
def test_the_version_at_the_batch(recorded: int | None) -> None:
    found = rollback_target(HISTORY, "q", 1, recorded)
    assert found == RollbackTarget(2, HISTORY[3:])


def test_versions_are_taken_in_their_order_not_by_size() -> None:
    history = (TableCommit(9, "append"), batch(7, 0), batch(8, 1))
    assert rollback_target(history, "q", 0).version == 7


def test_maintenance_after_the_batch_is_undone_too() -> None:
    compacted = TableCommit(4, "OPTIMIZE", keeps_rows=True)
    history = (batch(1, 0), batch(2, 1), batch(3, 2), compacted)
    assert rollback_target(history, "q", 1) == RollbackTarget(2, history[2:])


def test_maintenance_between_the_batches_stays() -> None:
    compacted = TableCommit(2, "OPTIMIZE", keeps_rows=True)
    assert rollback_target((batch(1, 0), compacted, batch(3, 1)), "q", 0).version == 2


@pytest.mark.parametrize("other", [TableCommit(5, "DELETE"), batch(5, 9, "another")])
@pytest.mark.parametrize("recorded", [None, 2])
def test_what_others_wrote_is_not_undone(other: TableCommit, recorded: int | None) -> None:
    found = rollback_target((*HISTORY, other), "q", 1, recorded)
    assert found.version is None
    assert found.why == f"others have written to it since: version 5 ({other.operation})"


def test_others_before_the_batch_do_not_count() -> None:
    history = (batch(1, 0), TableCommit(2, "WRITE"), batch(3, 1))
    assert rollback_target(history, "q", 0).version == 2


@pytest.mark.parametrize(
    ("since", "why"),
    [
        ((), ""),
        ((TableCommit(5, "OPTIMIZE", keeps_rows=True),), ""),
        ((TableCommit(5, "WRITE"),), "others have written to it .*: version 5 .WRITE"),
        ((batch(5, 0, "another"),), "others have written to it .*: version 5 .STREAMING"),
        ((batch(5, 4),), "others have written to it"),  # nobody runs the query: it is a copy's
    ],
)
def test_what_was_written_between_the_plan_of_a_rollback_and_the_rollback(
    since: tuple[TableCommit, ...], why: str
) -> None:
    assert re.match(why or "$", why_no_longer((*HISTORY, *since), 4, 2))


def test_a_table_that_is_no_longer_the_one_of_the_plan() -> None:
    restored = TableCommit(6, "RESTORE", keeps_rows=True)
    assert why_no_longer((*HISTORY[:2], restored), 5, 2).startswith("it was brought back")
    assert why_no_longer((), 5, 2).startswith("it was brought back")
    assert why_no_longer((*HISTORY[:3], restored), 5, 2) == ""  # another query's rollback
    written = (*HISTORY[:3], restored, TableCommit(7, "WRITE"))
    assert "version 7 (WRITE)" in why_no_longer(written, 5, 2)


def test_a_history_that_was_cut_says_so() -> None:
    cut = HISTORY[3:]
    assert rollback_target(cut, "q", 1).why == "its history does not reach back to batch 1"
    assert rollback_target(cut, "q", 1, 2).why == "it no longer has version 2"
    assert rollback_target(HISTORY, "q", 3).why == "its history has no commit of a later batch"


def test_the_version_of_a_running_query_at_a_batch() -> None:
    assert version_at(HISTORY, "q", 1) == 2
    assert version_at(HISTORY, "q", 3) == 4
    assert version_at((*HISTORY, TableCommit(5, "WRITE")), "q", 3) == 5
    assert version_at(HISTORY[1:], "another", 0) == 4
    assert version_at(HISTORY[2:], "q", 0) is None
    assert version_at((), "q", 0) is None


# What became of a table since a savepoint; batches 2 and 3 of HISTORY were undone.

FIRST = TableCommit(0, "CREATE TABLE", is_first=True)
RESTORED = (FIRST, batch(1, 0), batch(2, 1), TableCommit(5, "RESTORE", keeps_rows=True))
ON = (*RESTORED, batch(6, 4, "another"))


@pytest.mark.parametrize("history", [RESTORED, ON])
@pytest.mark.parametrize("recorded", [4, None])
def test_a_savepoint_that_was_undone(
    history: tuple[TableCommit, ...], recorded: int | None
) -> None:
    assert drift(history, "q", 3, recorded).undone
    earlier = None if recorded is None else 2
    assert not drift(history, "q", 1, earlier).undone  # the savepoint that was gone back to


def test_a_batch_without_a_commit_is_not_taken_for_undone() -> None:
    assert drift(HISTORY, "q", 5).undone
    assert not drift(HISTORY, "q", 5, committed=3).undone  # the table never had a later one


def test_a_history_that_was_cut_proves_nothing() -> None:
    assert drift((batch(7, 9), batch(8, 10)), "q", 8, 4) == Drift()
    assert drift((TableCommit(7, "WRITE"),), "q", 8) == Drift()
    assert drift((), "q", 8, 4) == Drift()


def test_what_was_undone_comes_back_unless_others_went_on() -> None:
    before = (FIRST, *HISTORY[1:])
    assert rollback_target(RESTORED, "q", 3, 4, before) == RollbackTarget(4, RESTORED[3:])
    again = (*RESTORED, batch(6, 2))  # Iceberg's batches have the same numbers again
    assert rollback_target(again, "q", 3, 4, before) == RollbackTarget(4, again[3:])
    why = rollback_target(ON, "q", 3, 4, before).why
    assert why == "others have written to it since: version 6 (STREAMING UPDATE)"
    assert rollback_target(RESTORED, "q", 3, 4).why == "it no longer has version 4"


def test_what_others_wrote_after_the_savepoint() -> None:
    optimized = TableCommit(5, "OPTIMIZE", keeps_rows=True)
    overwritten = TableCommit(6, "WRITE", replaces_rows=True)
    deleted, new, old = TableCommit(7, "DELETE"), batch(8, 0, "new"), batch(9, 5, "old")
    known = (batch(0, 4, "old"), *HISTORY[1:], optimized, overwritten, deleted, new, old)
    assert drift(known, "q", 3, 4) == Drift(False, (new,), (overwritten,), (deleted, old))
    assert drift(known, "q", 3) == drift(known, "q", 3, 4)
    assert drift((*HISTORY, optimized), "q", 3, 4) == Drift()
    assert drift(HISTORY, "q", 1, 2) == Drift()  # its own later batches: the sink is ahead
