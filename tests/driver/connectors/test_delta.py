"""Delta tables: their history read as a lineage."""

from __future__ import annotations

from typing import Any

from flinkish.connectors.table_commits import TableCommit
from flinkish.driver.connectors.delta import lineage


def row(number: int, operation: str, **parameters: str) -> dict[str, Any]:
    return {"version": number, "operation": operation, "operationParameters": parameters}


def batch(version: int, number: str) -> dict[str, Any]:
    return row(version, "STREAMING UPDATE", outputMode="Append", queryId="q", epochId=number)


def test_a_batch_is_known_by_its_query_and_number() -> None:
    assert lineage([row(0, "CREATE TABLE"), batch(1, "7")]) == (
        TableCommit(0, "CREATE TABLE", is_first=True),
        TableCommit(1, "STREAMING UPDATE", "q", 7),
    )


def test_only_maintenance_keeps_the_rows() -> None:
    words = ("OPTIMIZE", "VACUUM END", "WRITE", "DELETE", "SET TBLPROPERTIES", "ADD COLUMNS")
    kept = [
        each.operation
        for each in lineage(row(n, w) for n, w in enumerate(words))
        if each.keeps_rows
    ]
    assert kept == ["OPTIMIZE", "VACUUM END"]


def test_what_a_restore_made_void_is_no_part_of_the_lineage() -> None:
    rows = [batch(0, "0"), batch(1, "1"), batch(2, "2"), row(3, "RESTORE", version="0")]
    assert [(c.version, c.keeps_rows) for c in lineage([*rows, batch(4, "3")])] == [
        (0, False),
        (3, True),
        (4, False),
    ]


def test_a_restore_may_go_back_to_what_another_made_void() -> None:
    rows = [batch(0, "0"), batch(1, "1"), batch(2, "2"), row(3, "RESTORE", version="0")]
    again = [*rows, batch(4, "3"), row(5, "RESTORE", version="2"), batch(6, "4")]
    assert [c.version for c in lineage(again)] == [0, 1, 2, 5, 6]
    assert [c.version for c in lineage(again, 4)] == [0, 3, 4]
    assert lineage(again, 7) == ()


def test_where_a_history_begins() -> None:
    rows = [row(2, "WRITE"), batch(3, "1"), row(4, "RESTORE", version="1"), batch(5, "2")]
    assert [c.is_first for c in lineage(rows)] == [True, False]  # it went back further
    assert [c.is_first for c in lineage(rows, 3)] == [False, False]  # it was cut
    assert lineage([row(0, "CREATE TABLE")])[0].is_first


def test_what_replaces_all_rows() -> None:
    rows = [row(0, "CREATE OR REPLACE TABLE"), row(1, "WRITE", mode="Overwrite")]
    found = lineage([*rows, row(2, "WRITE", mode="Append"), row(3, "DELETE")])
    assert [commit.replaces_rows for commit in found] == [True, True, False, False]


def test_a_history_of_another_hand_is_read_with_care() -> None:
    odd: list[dict[str, Any]] = [
        {"version": "3", "operation": None, "operationParameters": None},
        row(4, "STREAMING UPDATE", queryId="q", epochId="-1"),
        row(5, "RESTORE", timestamp="2026-01-01"),
    ]
    assert [(c.version, c.operation, c.batch_id) for c in lineage(odd)] == [
        (5, "RESTORE", None),  # to a time: nobody knows what leads to it
    ]
    assert [(c.version, c.operation, c.batch_id) for c in lineage(odd, 4)] == [
        (3, "unknown", None),
        (4, "STREAMING UPDATE", None),
    ]
