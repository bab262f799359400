"""Decisions about an operator's new state that need no files."""

from __future__ import annotations

import pytest

from flinkish.engine.planning import TargetState, for_spark


@pytest.mark.parametrize(
    ("version", "days"),
    # Measured: hash() of two intervals that differ in their days, on each of these.
    [("3.5.9", False), ("4.0.5", False), ("4.1.4", False), ("4.2.1", False), ("4.3.0", True)],
)
def test_the_days_of_intervals_count_where_spark_counts_them(version: str, days: bool) -> None:
    assert for_spark(TargetState(partitions=3), version) == TargetState(
        partitions=3, interval_days=days
    )
    given = TargetState(interval_days=not days)
    assert for_spark(given, version) == given


@pytest.mark.parametrize(("version", "days"), [("4.10.0", True), ("5.0.0-SNAPSHOT", True)])
def test_newer_sparks_count_them(version: str, days: bool) -> None:
    assert for_spark(TargetState(), version).interval_days is days
