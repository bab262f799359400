"""Values in other state formats: grouped functions with and without timeouts, the flag of joins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flinkish.checkpoint.format.log_rewrites import with_pins
from flinkish.checkpoint.format.names import CANONICAL, HDFS
from flinkish.checkpoint.format.operator_files import (
    OperatorMetadata,
    OperatorStore,
    write_operator_metadata,
)
from flinkish.checkpoint.format.pins import PIN_GROUP_FORMAT
from flinkish.checkpoint.format.schema_files import FamilySchemas, write_schema_file
from flinkish.engine.errors import CannotMigrate, EngineError
from flinkish.engine.migration.migration_plan import FamilyMigration, RowForm
from flinkish.engine.migration.migration_planner import TargetState
from flinkish.engine.migration.row_transforms import BlockTransform
from flinkish.engine.rows.row_codec import codec_of
from flinkish.engine.rows.value_formats import (
    group_format,
    is_group_state,
    matched_flag,
    reshape,
    value_struct,
)
from flinkish.engine.stores.store_rows import RowBlock
from tests.engine.migration.test_checkpoint_migration import all_rows, rewrite, rows_of, state_of
from tests.support.checkpoints.recorded import unpack
from tests.support.engine.handwritten_state import delta, lz4

#: Rows that Spark 4.3.0 wrote of one state, without a timeout and with one, in both formats.
FLAT = bytes.fromhex("0000000000000000100000000000000003000000180000007431360000000000")
NESTED = bytes.fromhex(
    "000000000000000020000000100000000000000000000000100000000000000003000000180000007431360000000000"
)
FLAT_TIMEOUT = bytes.fromhex(
    "000000000000000010000000000000000300000020000000a3905056a40100007431360000000000"
)
NESTED_TIMEOUT = bytes.fromhex(
    "000000000000000020000000180000003dc53756a4010000"
    "0000000000000000100000000000000003000000180000007431360000000000"
)


def column(name: str, data_type: Any, *, nullable: bool = True) -> dict[str, Any]:
    return {"name": name, "type": data_type, "nullable": nullable, "metadata": {}}


def struct_of(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


STATE = (column("n", "long"), column("t", "string"))
KEY = struct_of(column("k", "string"))


def moved(values: list[bytes], schema: dict[str, Any], old: str, new: str) -> list[bytes]:
    """Values as the engine writes them in another format."""
    how, after = group_format(schema, old, new, "0")
    first, last = (RowForm(KEY, value, None, framed=False) for value in (schema, after))
    move = FamilyMigration("default", "default", first, last, ((0,),), reshape=how)
    key = codec_of(value_struct(KEY)).encode(pa.table({"k": ["a"]}).to_batches()[0]).rows()[0]
    block = RowBlock("default", [key] * len(values), values, framed=False)
    return BlockTransform(move, None, "here")(block).values.rows()


@pytest.mark.parametrize("nullable", [True, False])  # Spark 4 and 3.5
def test_grouped_functions_are_what_spark_writes(nullable: bool) -> None:
    flat, nested = struct_of(*STATE), struct_of(column("groupState", struct_of(*STATE)))
    assert moved([FLAT], flat, "1", "2") == [NESTED]
    assert moved([NESTED], nested, "2", "1") == [FLAT]
    flat = struct_of(*STATE, column("timeoutTimestamp", "integer", nullable=nullable))
    timeout = column("timeoutTimestamp", "long", nullable=nullable)
    nested = struct_of(column("groupState", struct_of(*STATE)), timeout)
    assert group_format(flat, "1", "2", "0")[1] == nested
    assert group_format(nested, "2", "1", "0")[1] == flat
    at = slice(16, 24)  # they were written at different times
    expected = NESTED_TIMEOUT[:16] + FLAT_TIMEOUT[24:32] + NESTED_TIMEOUT[24:]
    assert moved([FLAT_TIMEOUT], flat, "1", "2") == [expected]
    assert moved([expected], nested, "2", "1") == [FLAT_TIMEOUT]
    assert int.from_bytes(expected[at], "little") > 1 << 32


def test_a_timeout_without_a_state_cannot_be_in_format_1() -> None:
    batch = pa.record_batch(
        [pa.nulls(1, pa.struct([("n", pa.int64())])), pa.array([7])], ["a", "b"]
    )
    schema = struct_of(
        column("groupState", struct_of(STATE[0])), column("timeoutTimestamp", "long")
    )
    how, _ = group_format(schema, "2", "1", "0")
    with pytest.raises(EngineError, match="here: keys have a timeout but no state"):
        reshape(batch, how, "here")


def test_states_that_are_not_of_the_format() -> None:
    flat = struct_of(*STATE)
    with pytest.raises(CannotMigrate, match="0 is not that of a grouped function of format 2"):
        group_format(flat, "2", "1", "0")
    with pytest.raises(CannotMigrate, match="of state format 2 cannot become format 3"):
        group_format(flat, "2", "3", "0")
    assert not is_group_state(flat)
    assert is_group_state(struct_of(*STATE, column("timeoutTimestamp", "integer")))
    assert is_group_state(struct_of(column("groupState", struct_of(*STATE))))


def test_timeouts_of_format_1_are_longs_and_other_columns_of_that_name_are_not() -> None:
    schema = struct_of(*STATE, column("timeoutTimestamp", "integer"))
    batch = codec_of(value_struct(schema)).decode([FLAT_TIMEOUT])
    assert batch.column(2).to_pylist() == [1805334384803]
    encoder = {"keyStateEncoderType": "NoPrefixKeyStateEncoderSpec"}
    batch = codec_of(value_struct(schema, encoder)).decode([FLAT_TIMEOUT])
    assert batch.column(2).type == pa.int32()


def test_the_flag_of_joins() -> None:
    schema = struct_of(*STATE)
    how, more = matched_flag(schema, "1", "4")
    assert how is not None
    assert [field["name"] for field in more["fields"]] == ["n", "t", "matched"]
    batch = pa.record_batch([pa.array([1]), pa.array(["a"])], ["n", "t"])
    with_flag = reshape(batch, how, "here")
    assert with_flag.column(2).to_pylist() == [False]
    back, less = matched_flag(more, "3", "1")
    assert back is not None
    assert less == schema
    assert reshape(with_flag, back, "here").columns == batch.columns
    assert matched_flag(more, "2", "4") == (None, more)


def checkpoint_of(root: Path, value: dict[str, Any], row: bytes, name: str | None) -> Path:
    """A checkpoint by hand, of one operator that has one row of state."""
    schema = write_schema_file([FamilySchemas("default", KEY, value)], 2)
    key = codec_of(value_struct(KEY)).encode(pa.record_batch([pa.array(["a"])], ["k"])).rows()[0]
    files = {
        "metadata": b'{"id":"0"}',
        "offsets/0": b'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{"'
        + PIN_GROUP_FORMAT.encode()
        + b'":"2"}}\n-',
        "commits/0": b'v1\n{"nextBatchWatermarkMs":0}',
        "state/0/0/1.delta": lz4(delta([(key, row)])),
        "state/0/1/1.delta": lz4(delta([])),
        "state/0/0/_metadata/schema": schema,
    }
    if name:
        stores = (OperatorStore("default", 0, 2),)
        made = write_operator_metadata(OperatorMetadata(1, 0, name, stores))
        files["state/0/_metadata/metadata"] = made
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)
    return root


@pytest.mark.parametrize("name", [None, "applyInPandasWithState", "flatMapGroupsWithState"])
def test_state_there_and_back(tmp_path: Path, name: str | None) -> None:
    nested = struct_of(column("groupState", struct_of(*STATE)))
    checkpoint = checkpoint_of(tmp_path / "given", nested, NESTED, name)
    one, two = (TargetState(formats={PIN_GROUP_FORMAT: version}) for version in "12")
    rewrite(checkpoint, tmp_path / "one", one)
    [operator] = state_of(tmp_path / "one").operators
    assert operator.pins[PIN_GROUP_FORMAT] == "1"
    assert operator.stores[0].families[0].value == struct_of(*STATE)
    assert [row[3] for row in all_rows(tmp_path / "one")] == [FLAT]
    if name is None:
        with pytest.raises(CannotMigrate, match="the kind of the operator 0 is unknown"):
            rewrite(tmp_path / "one", tmp_path / "two", two)
    named = {0: TargetState(name="applyInPandasWithState")}
    rewrite(tmp_path / "one", tmp_path / "two", two, each=named)
    assert rows_of(tmp_path / "two") == rows_of(checkpoint)


def test_a_timeout_tells_what_the_operator_is(tmp_path: Path) -> None:
    flat = struct_of(*STATE, column("timeoutTimestamp", "integer", nullable=False))
    checkpoint = checkpoint_of(tmp_path / "given", flat, FLAT_TIMEOUT, None)
    [one, two] = (TargetState(formats={PIN_GROUP_FORMAT: version}) for version in "12")
    for path in (checkpoint / "offsets").iterdir():
        path.write_bytes(with_pins(path.read_bytes(), "offsets/0", pins=one.formats))
    rewrite(checkpoint, tmp_path / "two", two)
    rewrite(tmp_path / "two", tmp_path / "back", one)
    assert rows_of(tmp_path / "back") == rows_of(checkpoint)
    rewrite(checkpoint, tmp_path / "avro", TargetState(backend=CANONICAL))
    rewrite(tmp_path / "avro", tmp_path / "hdfs", TargetState(backend=HDFS))
    assert rows_of(tmp_path / "hdfs") == rows_of(checkpoint)


def test_other_operators_keep_their_state(tmp_path: Path) -> None:
    for recorded in ("spark43-hdfs-agg", "spark43-ids-join"):
        checkpoint = unpack(recorded, tmp_path)
        target_state = TargetState(formats={PIN_GROUP_FORMAT: "1"})
        rewrite(checkpoint, tmp_path / f"{recorded}-1", target_state)
        assert rows_of(tmp_path / f"{recorded}-1") == rows_of(checkpoint)
