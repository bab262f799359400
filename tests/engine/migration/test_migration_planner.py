"""Decisions about an operator's new state that need no files."""

from __future__ import annotations

import pytest

from flinkish.checkpoint.format.pins import PIN_MERGE_OPERATOR
from flinkish.engine.migration.checkpoint_migration import target_pins
from flinkish.engine.migration.migration_planner import (
    TargetState,
    archive_version,
    for_spark,
    hashes_interval_days,
    list_delimiter,
)


@pytest.mark.parametrize(
    ("version", "days"),
    # Measured: hash() of two intervals that differ in their days, on each of these.
    [
        *[("3.5.9", False), ("4.0.5", False), ("4.1.4", False), ("4.2.1", False), ("4.3.0", True)],
        *[("4.10.0", True), ("5.0.0-SNAPSHOT", True), ("5", True)],
    ],
)
def test_the_days_of_intervals_count_where_spark_counts_them(version: str, days: bool) -> None:
    assert hashes_interval_days(for_spark(TargetState(), version).spark) is days
    given = TargetState(partitions=3, spark=(3, 5))
    assert for_spark(given, version) == given
    assert hashes_interval_days(None), "the newest does"


@pytest.mark.parametrize(
    ("spark", "pin", "delimiter"),
    # Measured on each line with lists of transformWithState (support/engine/resuming_program).
    [
        *[((4, 0), "2", b","), ((4, 1), None, b","), ((4, 1), "2", b",")],
        *[((4, 2), "2", b""), ((4, 3), "1", b","), ((4, 3), None, b","), (None, "2", b"")],
    ],
)
def test_lists_are_as_spark_reads_them(
    spark: tuple[int, int] | None, pin: str | None, delimiter: bytes
) -> None:
    pins = {} if pin is None else {PIN_MERGE_OPERATOR: pin}
    assert list_delimiter(spark, pins) == delimiter
    after = {**pins, **target_pins(TargetState(spark=spark), pins)}
    assert list_delimiter((4, 3), after) == delimiter, "a newer Spark will find what was written"


@pytest.mark.parametrize(
    ("spark", "unique_ids", "version"),
    [((4, 0), True, 2), ((4, 0), False, 1), ((4, 1), True, 1), ((3, 5), False, 1), (None, True, 1)],
)
def test_archives_have_the_version_that_spark_reads(
    spark: tuple[int, int] | None, unique_ids: bool, version: int
) -> None:
    assert archive_version(spark, unique_ids=unique_ids) == version
