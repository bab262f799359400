"""Decisions about an operator's new state that need no files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.checkpoint.format.pins import PIN_AGGREGATION_FORMAT, PIN_MERGE_OPERATOR
from flinkish.engine.errors import CannotMigrate
from flinkish.engine.migration.checkpoint_migration import target_pins
from flinkish.engine.migration.migration_planner import (
    TargetState,
    archive_version,
    for_spark,
    hashes_interval_days,
    list_delimiter,
    plan_operator,
)
from flinkish.engine.stores.checkpoints import OperatorState, read_checkpoint
from flinkish.engine.stores.files import LocalDirectory
from tests.support.checkpoints.recorded import unpack


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


def values_of_format(
    version: str, operator: OperatorState, source: Path, name: str | None = None
) -> list[list[str]]:
    """The columns of the values of each store in a format of aggregations; before it was another.

    The operator's kind is that of ``name``: no file of Spark 3.5 records it.
    """
    pins = {**operator.pins, PIN_AGGREGATION_FORMAT: {"1": "2", "2": "1"}[version]}
    unnamed = replace(operator, name=None, pins=pins)
    wanted = TargetState(formats={PIN_AGGREGATION_FORMAT: version}, name=name)
    move = plan_operator(LocalDirectory(str(source)), unnamed, wanted)
    families = [family for store in move.stores for family in store.families]
    return [[field["name"] for field in family.after.value["fields"]] for family in families]


def operator_in(source: Path) -> OperatorState:
    [operator] = read_checkpoint(LocalDirectory(str(source))).operators
    return operator


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_join_without_a_name_is_no_aggregation(version: str, tmp_path: Path) -> None:
    source = unpack("spark35-hdfs-join", tmp_path)
    rows = ["ts", "k", "v", "matched"]
    found = values_of_format(version, operator_in(source), source)
    assert found == [["value"], rows, ["value"], rows]


def test_a_deduplication_without_a_name_does_not_repeat_its_key(tmp_path: Path) -> None:
    source = unpack("spark43-rocksdb-dedup", tmp_path)
    operator = operator_in(source)
    assert values_of_format("2", operator, source) == [["__dummy__"]]
    with pytest.raises(CannotMigrate, match="the kind of the operator 0 is unknown"):
        values_of_format("1", operator, source)


def test_an_aggregation_without_a_name_is_known_by_the_key_in_its_values(tmp_path: Path) -> None:
    source = unpack("spark35-rocksdb-agg", tmp_path)
    operator = operator_in(source)
    [[*columns]] = values_of_format("1", operator, source, "stateStoreSave")
    [store] = operator.stores
    [family] = store.families
    keys = [field["name"] for field in family.key["fields"]]
    assert columns == [*keys, *(field["name"] for field in family.value["fields"])]
    repeated = [*family.key["fields"], *family.value["fields"]]
    one = replace(family, value={**family.value, "fields": repeated})
    first = replace(operator, stores=(replace(store, families=(one,)),))
    assert values_of_format("2", first, source) == [columns[len(keys) :]]
