"""State as tables, and back: recorded checkpoints of real Spark runs, and rows of real Spark."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from flinkish.checkpoint.format.names import HDFS, ROCKSDB
from flinkish.checkpoint.format.pins import PIN_JOIN_FORMAT
from flinkish.engine.errors import (
    CannotMigrate,
    EngineError,
    LostRows,
    MissingStateFile,
    StateFormatError,
    UnsupportedState,
)
from flinkish.engine.migration.migration_planner import TargetState
from flinkish.engine.migration.state_files import operator_files
from flinkish.engine.rows.row_bytes import CannotEncode
from flinkish.engine.rows.row_codec import compile_schema
from flinkish.engine.rows.types import arrow_type, parse_struct
from flinkish.engine.stores.checkpoints import OperatorState, read_checkpoint
from flinkish.engine.stores.files import LocalDirectory
from flinkish.engine.tables.bootstrap_rows import Bootstrap, EncodeRows
from flinkish.engine.tables.bootstrap_state import companions, plan_bootstrap, run_bootstrap
from flinkish.engine.tables.decoding import (
    frame_names,
    frame_struct,
    plain_rows,
    plain_values,
    to_frame,
    to_state,
)
from flinkish.engine.tables.frames import (
    NoSuchState,
    find_table,
    read_rows,
    read_table,
    state_tables,
    write_table,
)
from flinkish.engine.tables.spark_frames import error_in
from flinkish.errors import StorageError
from tests.engine.migration.test_checkpoint_migration import WITH_FAMILIES, all_rows, rows_of
from tests.engine.test_golden import GOLDEN, unhex
from tests.support.checkpoints.recorded import NAMES, fast_of, unpack
from tests.support.engine.inline_spark import InlineContext, InlineRDD

#: The recorded queries read these files of ``streaming_queries.write_inputs``.
FILES = 6


def inputs(files: range = range(FILES)) -> list[tuple[str, str, int]]:
    """Time, key and value of every row that the recorded queries have read."""
    return [
        (f"2024-01-01T00:{i:02}:{j:02}.000000Z", f"k{j % 5}", (i * 7 + j) % 40)
        for i in files
        for j in range(20)
    ]


def operator_of(checkpoint: Path) -> tuple[LocalDirectory, OperatorState]:
    source = LocalDirectory(str(checkpoint))
    [operator] = read_checkpoint(source).operators
    return source, operator


def rows(checkpoint: Path, store: str | None = None) -> list[dict[str, Any]]:
    source, operator = operator_of(checkpoint)
    batches = list(read_rows(source, operator, store))
    for batch in batches:
        batch.validate(full=True)
    return [row for batch in batches for row in plain_rows(batch)]


@pytest.mark.parametrize("name", ["spark43-rocksdb-dedup", "spark43-ids-zip-dedup"])
def test_deduplication(name: str, tmp_path: Path) -> None:
    found = rows(unpack(name, tmp_path))
    pairs = {(row["key"]["k"], row["key"]["v"]) for row in found}
    assert pairs <= {(k, v) for _, k, v in inputs()}
    assert len(pairs) == len(found) == 105
    assert {row["partition"] for row in found} == {0, 1}
    assert all(row["value"] == {"__dummy__": None} for row in found)


@pytest.mark.parametrize(
    "name", ["spark43-hdfs-agg", "spark35-rocksdb-agg", "spark43-changelog-agg"]
)
def test_aggregation(name: str, tmp_path: Path) -> None:
    """The last window, of minutes 4 and 5, is the only one that the watermark has not closed."""
    expected: dict[str, list[int]] = defaultdict(list)
    for _, k, v in inputs(range(4, 6)):
        expected[k].append(v)
    found = {row["key"]["k"]: row for row in rows(unpack(name, tmp_path))}
    assert {k: row["value"] for k, row in found.items()} == {
        k: {"sum": sum(values), "count": len(values)} for k, values in expected.items()
    }
    window = {"start": "2024-01-01T00:04:00.000000Z", "end": "2024-01-01T00:06:00.000000Z"}
    assert all(row["key"]["window"] == window for row in found.values())


def test_a_processor(tmp_path: Path) -> None:
    checkpoint = unpack("spark43-rocksdb-tws", tmp_path)
    expected: dict[str, list[int]] = defaultdict(list)
    for _, k, v in inputs():
        expected[k].append(v)
    counts = {r["key"]["k"]: r["value"] for r in rows(checkpoint, "count")}
    assert counts == {k: {"n": len(v)} for k, v in expected.items()}
    values = {r["key"]["k"]: r["value"] for r in rows(checkpoint, "values")}
    assert values == {k: [{"v": v} for v in vs] for k, vs in expected.items()}
    counters = {r["key"]["k"]: r["value"] for r in rows(checkpoint, "$rowCounter_values")}
    assert counters == {k: {"count": len(v)} for k, v in expected.items()}
    with pytest.raises(NoSuchState, match=r"has several states: .*count, values") as several:
        rows(checkpoint)
    assert several.value.names == ("$rowCounter_values", "count", "values")
    with pytest.raises(NoSuchState, match="no state 'other'"):
        rows(checkpoint, "other")
    source, operator = operator_of(checkpoint)
    [store] = operator.stores
    own = [family for family in store.families if family.name.startswith("$")]
    internal = replace(operator, stores=(replace(store, families=tuple(own)),))
    with pytest.raises(NoSuchState, match=r"besides Spark's own; .* name it: \$rowCounter_v"):
        next(read_rows(source, internal))


@pytest.mark.parametrize(
    "name", ["spark35-hdfs-join", "spark43-ids-join", "spark43-changelog-join3"]
)
def test_both_sides_of_a_join(name: str, tmp_path: Path) -> None:
    checkpoint = unpack(name, tmp_path)
    expected = sorted(inputs(range(5, 6)))
    for side in ("left", "right", "left-keyWithIndexToValue"):
        found = rows(checkpoint, side)
        values = [row["value"] for row in found]
        assert sorted((v["ts"], v["k"], v["v"]) for v in values) == expected
        assert {v["matched"] for v in values} == {True}
        assert {row["key"]["index"] for row in found} == {0}
        assert all(row["key"]["field1"] == row["value"]["v"] for row in found)
    numbers = rows(checkpoint, "right-keyToNumValues")
    assert [row["value"] for row in numbers] == [{"value": 1}] * len(expected)


def test_some_partitions(tmp_path: Path) -> None:
    source, operator = operator_of(unpack("spark43-rocksdb-dedup", tmp_path))
    counted = [
        sum(batch.num_rows for batch in read_rows(source, operator, partitions=chosen))
        for chosen in ((0,), (1,), (0, 1), ())
    ]
    assert counted[0] + counted[1] == counted[2] == 105
    assert counted[3] == 0
    with pytest.raises(NoSuchState, match="no partition 2: 0 to 1"):
        list(read_rows(source, operator, partitions=(2,)))


def test_damage_is_named(tmp_path: Path) -> None:
    checkpoint = unpack("spark43-hdfs-agg", tmp_path)
    source, operator = operator_of(checkpoint)
    victim = checkpoint / "state" / "0" / "1" / f"{operator.version}.delta"
    victim.unlink()
    with pytest.raises(MissingStateFile, match=r"7\.delta"):
        list(read_rows(source, operator))


def test_names_that_repeat() -> None:
    assert frame_names(["sum", "sum", "Sum", "sum_2", "n"]) == [
        "sum",
        "sum_3",
        "Sum_4",
        "sum_2",
        "n",
    ]
    inner = {"type": "struct", "fields": [field("x", "void"), field("X", "long")]}
    schema = {"type": "struct", "fields": [field("sum", "long"), field("sum", inner)]}
    struct = parse_struct(schema)
    codec = compile_schema(schema)
    inside = pa.StructArray.from_arrays(
        [pa.nulls(2), pa.array([1, None])], fields=list(arrow_type(struct.fields[1].type))
    )
    data = codec.encode(pa.RecordBatch.from_arrays([pa.array([3, 4]), inside], names=["a", "b"]))
    batch = codec.decode(data.rows())
    whole = pa.StructArray.from_arrays(batch.columns, fields=list(arrow_type(struct)))
    made = to_frame(whole, struct)
    assert plain_values(made) == [
        {"sum": 3, "sum_2": {"x": None, "X_2": 1}},
        {"sum": 4, "sum_2": {"x": None, "X_2": None}},
    ]
    back = to_state(made, struct)
    again = pa.RecordBatch.from_arrays(back.flatten(), names=["a", "b"])
    assert codec.encode(again).rows() == data.rows()
    with pytest.raises(CannotEncode, match="1 fields in place of 2"):
        to_state(pa.StructArray.from_arrays([pa.array([1])], names=["sum"]), struct)


def field(name: str, data_type: Any) -> dict[str, Any]:
    return {"name": name, "type": data_type, "nullable": True, "metadata": {}}


@pytest.mark.parametrize("case", GOLDEN["rows"])
def test_rows_of_every_type_there_and_back(case: str) -> None:
    """Rows that Spark has written: their tables have its values, and encode to its bytes."""
    found = GOLDEN["rows"][case]
    codec, data = compile_schema(found["schema"]), unhex(found["rows"])
    batch = codec.decode(data)
    struct = codec.struct
    whole = pa.StructArray.from_arrays(batch.columns, fields=list(arrow_type(struct)))
    made = to_frame(whole, struct)
    made.validate(full=True)
    assert made.type == arrow_type(frame_struct(struct))
    json.dumps(plain_values(made), allow_nan=False)
    for part in (whole, whole.slice(1, len(data) - 2)):
        back = to_state(to_frame(part, struct), struct)
        names = [str(i) for i in range(len(struct.fields))]
        again = codec.encode(pa.RecordBatch.from_arrays(back.flatten(), names=names)).rows()
        assert again == (data if part is whole else data[1:-1])
    for before, after in zip(batch.columns, made.flatten(), strict=True):
        if before.type == after.type:
            assert str(after.to_pylist()) == str(before.to_pylist())


def test_plain_values() -> None:
    years = pa.array([0, 8_210_266_876_799_999_999, None], pa.timestamp("us", tz="UTC"))
    assert plain_values(years) == [
        "1970-01-01T00:00:00.000000Z",
        "262142-12-31T23:59:59.999999Z",
        None,
    ]
    assert plain_values(pa.array([-1, None], pa.date32())) == ["1969-12-31", None]
    times = pa.array([0, 86_399_999_999_999, 1_500_000_000], pa.time64("ns"))
    assert plain_values(times) == ["00:00:00", "23:59:59.999999999", "00:00:01.5"]
    floats = pa.array([1.5, float("nan"), float("-inf"), None])
    assert plain_values(floats) == [1.5, "NaN", "-Infinity", None]
    assert plain_values(pa.array([b"\x00\xff"])) == ["AP8="]
    assert plain_values(pa.array([7], pa.duration("us"))) == [7]
    maps = pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64()))
    assert plain_values(maps) == [[{"key": "a", "value": 1}], None, []]


@pytest.mark.parametrize("store", ["values", "count"])
def test_avro_files_of_tables(store: str, tmp_path: Path) -> None:
    checkpoint = unpack("spark43-rocksdb-tws", tmp_path)
    source, operator = operator_of(checkpoint)
    table = find_table(operator, store)
    records = []
    for partition in range(operator.partitions):
        file = io.BytesIO()
        count = write_table(file, source, table, partition)
        file.seek(0)
        read: list[Any] = list(fastavro.reader(file))
        assert len(read) == count
        records += read
    expected = [{"key": r["key"], "value": r["value"]} for r in rows(checkpoint, store)]
    assert records == expected


# Back into state.


def pieces(job: Bootstrap, source: LocalDirectory, operator: OperatorState) -> InlineRDD:
    """What Spark's tasks would make of the tables of all states, one task for each."""
    made: list[tuple[int, bytes]] = []
    for table in state_tables(operator):
        made += EncodeRows(job, table)(read_table(source, table, range(operator.partitions)))
    return InlineContext().parallelize(made, 3)


def bootstrapped(checkpoint: Path, target: Path, target_state: TargetState, version: int) -> Path:
    """A checkpoint with the state of another one, by way of tables."""
    source, operator = operator_of(checkpoint)
    goal = LocalDirectory(str(target))
    job = plan_bootstrap(source, operator, goal, target_state, version)
    written = run_bootstrap(InlineContext(), job, pieces(job, source, operator))
    assert written.digest.rows == len(all_rows(checkpoint))
    for path, content in operator_files(source, job.move, job.move.partitions, f"file:{target}"):
        with goal.create(path) as file:
            file.write(content)
    for log in ("offsets", "commits"):
        (target / log).mkdir()
        entry = checkpoint / log / str(operator.version - 1)
        lines = entry.read_text().split("\n")
        if log == "offsets" and target_state.backend:
            conf = json.loads(lines[1])
            pin = "spark.sql.streaming.stateStore.providerClass"
            provider = {HDFS: "HDFSBacked", ROCKSDB: "RocksDB"}[target_state.backend]
            conf["conf"][pin] = f"{provider}StateStoreProvider"
            lines[1] = json.dumps(conf)
        if log == "commits" and written.unique_ids:
            lines[1] = json.dumps({"stateUniqueIds": {"0": written.unique_ids}})
        (target / log / str(version - 1)).write_text("\n".join(lines))
    assert not [name for name in goal.names("") if name.startswith("_")]
    return target


@pytest.mark.parametrize("name", fast_of(NAMES))
def test_what_was_read_is_written_where_spark_had_it(name: str, tmp_path: Path) -> None:
    """Byte for byte, in the same partitions; at version 1 too, and in another backend."""
    recorded = unpack(name, tmp_path)
    _, operator = operator_of(recorded)
    same = bootstrapped(recorded, tmp_path / "same", TargetState(), operator.version)
    assert rows_of(same) == rows_of(recorded)
    first = bootstrapped(recorded, tmp_path / "first", TargetState(partitions=3), 1)
    _, found = operator_of(first)
    assert found.version == 1
    assert all_rows(first) == all_rows(recorded)
    if recorded.name in WITH_FAMILIES:
        return
    other = HDFS if operator.backend == ROCKSDB else ROCKSDB
    target_state = TargetState(backend=other, unique_ids=False)
    moved = bootstrapped(recorded, tmp_path / "moved", target_state, operator.version)
    for table in state_tables(operator):
        before, after = (sorted(map(str, rows(c, table.store.name))) for c in (recorded, moved))
        assert after == before


@pytest.mark.parametrize("backend", [HDFS, ROCKSDB])
def test_keys_that_repeat_are_refused(backend: str, tmp_path: Path) -> None:
    source, operator = operator_of(unpack("spark43-hdfs-agg", tmp_path))
    target = LocalDirectory(str(tmp_path / "new"))
    job = plan_bootstrap(source, operator, target, TargetState(backend=backend))
    twice = [*pieces(job, source, operator).collect(), *pieces(job, source, operator).collect()]
    with pytest.raises(LostRows, match="repeat"):
        run_bootstrap(InlineContext(), job, InlineContext().parallelize(twice, 2))
    assert not [p for p in (tmp_path / "new").rglob("*") if p.is_file()]


def test_nulls_and_empty_lists_are_refused(tmp_path: Path) -> None:
    source, operator = operator_of(unpack("spark43-rocksdb-tws", tmp_path))
    job = plan_bootstrap(source, operator, LocalDirectory(str(tmp_path / "new")))
    table = find_table(operator, "values")
    for key, value, message in (
        (None, [{"v": 1}], "a key for the state 'values' is null"),
        ({"k": "a"}, None, "a value for the state 'values' is null"),
        ({"k": "a"}, [], "is empty"),
        ({"k": "a"}, [None], "has a null in it"),
    ):
        row = {"partition": 0, "key": key, "value": value}
        batch = pa.RecordBatch.from_pylist([row], schema=table.schema)
        with pytest.raises(CannotEncode, match=message):
            list(EncodeRows(job, table)([batch]))


def test_what_belongs_together(tmp_path: Path) -> None:
    _, processor = operator_of(unpack("spark43-rocksdb-tws", tmp_path))
    assert companions(processor, "values") == {"$rowCounter_values"}
    assert companions(processor, "$rowCounter_values") == {"values"}
    assert companions(processor, "count") == set()
    for name in ("spark43-ids-join", "spark43-changelog-join3"):
        _, join = operator_of(unpack(name, tmp_path))
        assert len(companions(join, "left-keyToNumValues")) == 3


def test_what_a_template_cannot_become(tmp_path: Path) -> None:
    source, operator = operator_of(unpack("spark43-changelog-join3", tmp_path))
    target = LocalDirectory(str(tmp_path / "new"))
    for target_state, version, message in (
        (TargetState(formats={PIN_JOIN_FORMAT: "2"}), None, "schemas and formats of its template"),
        (TargetState(), 0, "the first version of a state is 1"),
        (TargetState(backend=HDFS), None, "only RocksDB has"),
    ):
        with pytest.raises(CannotMigrate, match=message):
            plan_bootstrap(source, operator, target, target_state, version)


def test_the_engines_errors_inside_of_sparks() -> None:
    text = (
        "Job aborted ...\nTraceback (most recent call last):\n  File x\n"
        "flinkish.checkpoint.format.errors.MissingStateFile: "
        "state/0/1/7.delta at byte 12: it is gone\n\n"
    )
    found = error_in(RuntimeError(text))
    assert isinstance(found, MissingStateFile)
    assert (found.file, found.offset, found.reason) == ("state/0/1/7.delta", 12, "it is gone")
    damage = "flinkish.checkpoint.format.errors.CheckpointFormatError: a/b: bad"
    other = error_in(RuntimeError(damage))
    assert type(other) is StateFormatError
    assert other.offset is None
    refused = error_in(RuntimeError("flinkish.engine.rows.row_bytes.CannotEncode: a key is null"))
    assert (type(refused), str(refused)) == (CannotEncode, "a key is null")
    for name in ("engine.errors.LostRows", "engine.migration.evolution_steps.CannotEvolve"):
        assert type(error_in(RuntimeError(f"flinkish.{name}: x"))).__name__ == name.split(".")[-1]
    assert type(error_in(RuntimeError("flinkish.engine.rows.x.Other: x"))) is EngineError
    full = error_in(RuntimeError("...\nflinkish.errors.StorageError: cannot use x: disk full\n"))
    assert (type(full), str(full)) == (StorageError, "cannot use x: disk full")
    assert error_in(RuntimeError("something else")) is None


def test_an_error_without_a_file_is_its_reason() -> None:
    error = UnsupportedState("", None, "it has row checksums")
    assert str(error) == "it has row checksums"
    name = "flinkish.checkpoint.format.errors.UnsupportedCheckpointFormat"
    found = error_in(RuntimeError(f"{name}: {error}"))
    assert (type(found), str(found)) == (UnsupportedState, "it has row checksums")
