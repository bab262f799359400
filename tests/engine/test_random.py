"""Random schemas and rows through real Spark: what it wrote is read here, and the other way."""

from __future__ import annotations

import json
import os
import random
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from flinkish.checkpoint.format.operator_files import (
    OperatorMetadata,
    OperatorStore,
    write_operator_metadata,
)
from flinkish.checkpoint.format.schema_files import FamilySchemas, write_schema_file
from flinkish.engine.rows.row_codec import compile_schema
from flinkish.engine.rows.spark_hash import hash_columns, partition_of
from flinkish.engine.rows.types import INTERVAL_ARROW
from flinkish.engine.stores.writers import write_records
from tests.support.engine.random_rows import SparkRows, Table, spark_rows, tables, values_of
from tests.support.engine.spark_rows_worker import PARTITIONS

pytestmark = pytest.mark.spark
SEED = "FLINKISH_TEST_SEED"
_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkRows]:
    with spark_rows() as found:
        yield found


def check_rows(spark: SparkRows, table: Table) -> None:
    """Spark finds our values in our rows; we find Spark's in its own; and the hashes are equal."""
    answer = spark.ask(table)
    codec = compile_schema(table.schema)
    theirs = [bytes.fromhex(row) for row in answer["rows"]]
    assert answer["values"] == values_of(table.batch)
    found = codec.decode(theirs)
    assert values_of(found) == answer["values"]
    assert codec.encode(found).rows() == table.rows
    # A calendar interval that is null has any bytes, of which ours are zeros.
    if '"interval"' not in json.dumps(table.schema):
        assert theirs == table.rows
    hashes = answer["hashes"][: len(codec.struct.fields)]
    chosen = [i for i, column in enumerate(hashes) if column[0] is not None]
    if chosen:
        columns = [found.column(i) for i in chosen]
        types = [codec.struct.fields[i].type for i in chosen]
        days = spark.version >= "4.3"
        ours = hash_columns(columns, types, found.num_rows, interval_days=days)
        assert ours.tolist() == answer["hashes"][-1]
        assert partition_of(ours, PARTITIONS).tolist() == answer["partitions"]


def write_state(directory: Path, key: Table, value: Table) -> list[list[str]]:
    """A checkpoint of one committed batch, all its files ours; the rows in its state."""
    operator = directory / "state" / "0"
    (operator / "0" / "_metadata").mkdir(parents=True)
    (operator / "_metadata").mkdir()
    info = OperatorStore("default", 0, 1)
    metadata = OperatorMetadata(1, 0, "stateStoreSave", (info,))
    (operator / "_metadata" / "metadata").write_bytes(write_operator_metadata(metadata))
    schemas = FamilySchemas("default", key.schema, value.schema)
    schema_file = operator / "0" / "_metadata" / "schema"
    schema_file.write_bytes(write_schema_file([schemas], 2))
    rows = dict(zip(key.rows, value.rows, strict=False))
    with open(operator / "0" / "1.delta", "wb") as file:
        write_records(file, rows.items())
    (directory / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    pins = {"spark.sql.shuffle.partitions": "1"}
    log = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": pins}
    for name, lines in (("offsets", [json.dumps(log), "-"]), ("commits", ["{}"])):
        (directory / name).mkdir()
        (directory / name / "0").write_text("\n".join(["v1", *lines]))
    return sorted([k.hex(), v.hex()] for k, v in rows.items())


def each(examples: int, strategy: st.SearchStrategy[Any], check: Callable[[Any], None]) -> None:
    """Check random examples, other ones in each run unless FLINKISH_TEST_SEED names theirs.

    A failing one is not made smaller: each takes Spark a second or so.
    """
    number = int(os.environ.get(SEED) or random.SystemRandom().getrandbits(32))
    print(f"to see the same examples again: {SEED}={number}")  # pytest shows it with a failure
    quiet = settings(deadline=None, database=None, suppress_health_check=_QUIET)

    @seed(number)
    @settings(quiet, max_examples=examples, phases=[Phase.generate])
    @given(strategy)
    def run(example: Any) -> None:
        check(example)

    run()


@st.composite
def states(draw: st.DrawFn, leaves: list[str]) -> tuple[Table, Table]:
    """Keys and values of a state, as many of them as the shorter one has."""
    rows = tables(leaves, most=3).filter(can_be_state)
    return draw(rows), draw(rows)


def can_be_state(table: Table) -> bool:
    """Whether Spark reads the rows back as state.

    It does not where a column is a calendar interval that is null: Spark writes where the value
    would be, and when it loads the state it takes that for damage (UnsafeRowUtils).
    """
    return not any(
        column.type.equals(INTERVAL_ARROW) and column.null_count for column in table.batch.columns
    )


def check_state(spark: SparkRows, directory: Path, state: tuple[Table, Table]) -> None:
    checkpoint = directory / uuid.uuid4().hex
    rows = write_state(checkpoint, *state)
    assert sorted(spark.state(str(checkpoint))["rows"]) == rows


@pytest.mark.deep
@pytest.mark.timeout(1800)
def test_rows_go_through_spark(spark: SparkRows) -> None:
    each(150, tables(spark.leaves), lambda table: check_rows(spark, table))


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_spark_reads_states_that_are_all_ours(spark: SparkRows, tmp_path: Path) -> None:
    each(100, states(spark.leaves), lambda state: check_state(spark, tmp_path, state))


@pytest.mark.matrix
@pytest.mark.timeout(1800)
def test_rows_go_through_spark_35() -> None:
    python = os.environ.get("FLINKISH_SPARK35_PYTHON")
    if not python:
        pytest.skip("needs FLINKISH_SPARK35_PYTHON: run this through make test-matrix")
    with spark_rows(python) as spark:
        assert spark.version.startswith("3.5")
        each(60, tables(spark.leaves), lambda table: check_rows(spark, table))
