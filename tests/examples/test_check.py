"""The demo's comparison finds every kind of difference (no Spark needed)."""

from __future__ import annotations

from datetime import datetime

import pytest

from flinkish.examples.flights.check import Key, Values, Written, compare

A: Key = (datetime(2013, 1, 1), "AA")
B: Key = (datetime(2013, 1, 1, 6), "AA")
V1: dict[Key, Values] = {A: {"flights": 3, "mean": 1.0}, B: {"flights": 2, "mean": None}}
V2: dict[Key, Values] = {A: {"flights": 3, "mean": 1.5}, B: {"flights": 2, "mean": None}}
EXPECTED = {1: V1, 2: V2}


def test_each_row_is_held_against_the_version_that_wrote_it() -> None:
    outcome = compare(EXPECTED, [Written(1, A, V1[A]), Written(2, B, V2[B])])
    assert outcome.same
    assert outcome.departures == 5
    assert "written by v1" in outcome.table()


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ([Written(2, A, V1[A]), Written(2, B, V2[B])], "v2 wrote {'flights': 3, 'mean': 1.0}"),
        ([Written(1, A, V1[A])], "AA at 2013-01-01 06:00:00: missing"),
        (
            [Written(1, A, V1[A]), Written(1, B, V1[B]), Written(2, B, V2[B])],
            "v2 wrote it a second time",
        ),
        (
            [
                Written(1, A, V1[A]),
                Written(2, B, V2[B]),
                Written(2, (datetime(2014, 1, 3), "--"), {"flights": 1}),
            ],
            "the batch query does not have it",
        ),
        ([], "missing"),
    ],
)
def test_differences(written: list[Written], said: str) -> None:
    outcome = compare(EXPECTED, written)
    assert not outcome.same
    assert any(said in text for text in outcome.differences)
    assert said in outcome.table()


def test_many_differences_are_cut_short() -> None:
    keys: list[Key] = [(datetime(2013, 1, day), "AA") for day in range(1, 31)]
    expected: dict[Key, Values] = {key: {"flights": 1} for key in keys}
    table = compare({1: expected, 2: expected}, []).table()
    assert "... and 10 more" in table
