"""Planning with the configuration of a checkpoint, compared with what Spark does with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flinkish.checkpoint.format.logs import parse_offsets
from flinkish.driver.plan.pinned_planning import _ALWAYS_PINNED
from flinkish.driver.plan.plan_extraction import PlannedQuery, extract_plan
from flinkish.driver.spark.jvm import configured
from tests.support.driver.checkpoint_contents import compare, really_run
from tests.support.driver.operator_programs import HDFS, ROCKSDB, _timed

pytestmark = pytest.mark.spark

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
PARTITIONS = "spark.sql.shuffle.partitions"
AGGREGATION_FORMAT = "spark.sql.streaming.aggregation.stateFormatVersion"
JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
#: What a log of a Spark before 4.3 does not have, and what Spark takes it for.
NEW_IN_4_3 = {
    "spark.sql.dropDuplicates.deterministicKeyOrder.enabled": "false",
    "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled": "false",
}


def _counted(spark: Any, directory: str) -> Any:
    return _timed(spark, directory).groupBy("k", "ts").count()


def _joined(spark: Any, directory: str) -> Any:
    left = _timed(spark, directory).select("id", "ts", "k")
    return left.join(_timed(spark, directory, "b").select("id", "ts", "d"), ["id", "ts"])


def _deduplicated(spark: Any, directory: str) -> Any:
    """Keys whose order differs between the two ways to find it (a set of more than four)."""
    frame = _timed(spark, directory).selectExpr("id", "k", "name", "ts", "d", "dup", "id > 0 as p")
    return frame.dropDuplicates(["p", "dup", "d", "name", "k", "id", "ts"])


def _columns(planned: PlannedQuery) -> tuple[list[str], list[str]]:
    """The columns of the only operator's keys and values."""
    ((store,),) = [op.node.stores for op in planned.operators]
    assert store.key_schema is not None
    assert store.value_schema is not None
    keys, values = store.key_schema["fields"], store.value_schema["fields"]
    return [field["name"] for field in keys], [field["name"] for field in values]


def test_a_plan_has_the_settings_and_the_session_has_not(
    spark: Any, input_dir: str, tmp_path: Path
) -> None:
    df = _counted(spark, input_dir)
    settings = {PARTITIONS: "5", PROVIDER: ROCKSDB, AGGREGATION_FORMAT: "1"}
    before = {key: spark.conf.get(key, None) for key in settings}
    planned = extract_plan(df, "append", None, settings=settings)
    assert {key: spark.conf.get(key, None) for key in settings} == before
    plain = extract_plan(df, "append", None)
    assert [(op.node.kind, op.node.partitions) for op in planned.operators] == [
        ("stateStoreSave", 5)
    ]
    assert [(op.node.kind, op.node.partitions) for op in plain.operators] == [("stateStoreSave", 2)]
    assert _columns(planned) == (["k", "ts"], ["k", "ts", "count"])  # format 1 has keys in values
    assert _columns(plain) == (["k", "ts"], ["count"])
    assert planned.sources == plain.sources
    assert planned.identities == plain.identities
    with configured(spark, settings):
        compare(planned, really_run(df, "append", tmp_path / "checkpoint"))


@pytest.mark.deep
def test_the_provider_decides_what_is_written(spark: Any, input_dir: str, tmp_path: Path) -> None:
    if spark.version.startswith("3."):
        pytest.skip("join state format 3 is new in Spark 4")
    df = _joined(spark, input_dir)
    settings = {PROVIDER: ROCKSDB, JOIN_FORMAT: "3"}
    planned = extract_plan(df, "append", None, settings=settings)
    assert any(path.startswith("_stateSchema/") for path in planned.operators[0].node.files)
    with configured(spark, settings):
        compare(planned, really_run(df, "append", tmp_path / "checkpoint"))
    with configured(spark, settings):
        back = extract_plan(df, "append", None, settings={PROVIDER: HDFS, JOIN_FORMAT: "2"})
    assert back.operators == extract_plan(df, "append", None).operators


def test_a_restart_is_planned_with_all_that_its_log_pins(
    spark: Any, input_dir: str, tmp_path: Path
) -> None:
    df = _counted(spark, input_dir)
    with configured(spark, {PARTITIONS: "4", AGGREGATION_FORMAT: "1"}):
        real = really_run(df, "append", tmp_path)
    pins = parse_offsets((tmp_path / "offsets/0").read_bytes(), "offsets/0").pins
    assert _ALWAYS_PINNED in pins
    compare(extract_plan(df, "append", None, settings=pins), real)


def test_what_an_old_log_does_not_pin_is_as_it_was_then(
    spark: Any, input_dir: str, tmp_path: Path
) -> None:
    if tuple(map(int, spark.version.split(".")[:2])) < (4, 3):
        pytest.skip("Spark 4.3 has changed the order of the keys of dropDuplicates")
    with configured(spark, NEW_IN_4_3):
        real = really_run(_deduplicated(spark, input_dir), "append", tmp_path)
    log = tmp_path / "offsets/0"
    version, head, *offsets = log.read_text().splitlines()
    content = json.loads(head)
    for key in NEW_IN_4_3:
        del content["conf"][key]
    log.write_text("\n".join([version, json.dumps(content), *offsets]))
    (tmp_path / "offsets/.0.crc").unlink()  # of what the file was before
    df = _deduplicated(spark, input_dir)
    new = extract_plan(df, "append", None)
    old = extract_plan(df, "append", None, settings=parse_offsets(log.read_bytes(), log.name).pins)
    old_keys, new_keys = _columns(old)[0], _columns(new)[0]
    assert sorted(old_keys) == sorted(new_keys)
    assert old_keys != new_keys
    compare(old, real)
    # Spark agrees: it runs that batch again on that state, which no other order of keys would fit.
    for name in ("0", ".0.crc"):
        (tmp_path / "commits" / name).unlink()
    query = (
        df.writeStream.format("noop")
        .option("checkpointLocation", f"file://{tmp_path}")
        .trigger(once=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert (tmp_path / "commits/0").exists()
