"""The version to which a table can go back, from histories of a few commits."""

from __future__ import annotations

import pytest

from flinkish.restore.plan.table_commits import (
    RollbackTarget,
    TableCommit,
    rollback_target,
    version_at,
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
