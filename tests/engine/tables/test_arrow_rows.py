"""Plain rows back into state: what was read of recorded checkpoints is written as Spark had it."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flinkish.checkpoint.format.names import CANONICAL
from flinkish.engine.errors import CannotMigrate, LostRows
from flinkish.engine.migration.migration_planner import TargetState
from flinkish.engine.stores.files import LocalDirectory
from flinkish.engine.tables.arrow_rows import arrow_rows
from flinkish.engine.tables.bootstrap_state import write_rows
from flinkish.engine.tables.decoding import plain_rows
from flinkish.engine.tables.frames import find_table, read_table, state_tables
from tests.engine.migration.test_checkpoint_migration import rewrite
from tests.engine.tables.test_frames import operator_of, rows
from tests.support.checkpoints.recorded import NAMES, fast_of, unpack

UTC = datetime.timezone.utc
#: Of each type: values, and the same ones as people may write them.
VALUES: list[tuple[Any, list[Any], list[Any]]] = [
    (pa.int64(), [1, None, -(2**63)], [1, None, -(2**63)]),
    (pa.float64(), [1.5, float("inf"), None], ["1.5", "Infinity", None]),
    (pa.string(), ["", "ä\n"], ["", "ä\n"]),
    (pa.binary(), [b"\x00\xff", b""], [b"\x00\xff", b""]),
    (pa.bool_(), [True, False, None], [True, False, None]),
    (pa.decimal128(38, 2), [decimal.Decimal("1.50")], ["1.50"]),
    (pa.date32(), [datetime.date(1, 1, 1), None], ["0001-01-01", None]),
    (
        pa.timestamp("us", "UTC"),
        [datetime.datetime(2024, 2, 29, 1, 2, 3, 4, UTC)],
        [datetime.datetime(2024, 2, 29, 1, 2, 3, 4, UTC)],
    ),
    (pa.timestamp("us", "UTC"), [-(2**63), None, 1 - 2**63], []),
    (pa.timestamp("us"), [datetime.datetime(1969, 12, 31, 23)], ["1969-12-31T23:00"]),
    (pa.time64("ns"), [datetime.time(23, 59, 59, 5)], ["23:59:59.000005"]),
    (pa.duration("us"), [datetime.timedelta(days=-1)], [-86_400_000_000]),
    (pa.list_(pa.date32()), [[datetime.date(2024, 1, 1), None], []], [["2024-01-01", None], []]),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1)], []], [{"a": 1}, {}]),
    (pa.struct([("a", pa.struct([("b", pa.int32())]))]), [{"a": {"b": 1}}, None], []),
    (pa.struct([]), [{}], [{}]),
]


def schema_of(kind: Any) -> Any:
    return pa.schema(
        [("partition", pa.int32()), ("key", pa.struct([("k", kind)])), ("value", kind)]
    )


@pytest.mark.parametrize(("kind", "values", "written"), VALUES, ids=lambda each: str(each)[:20])
def test_a_value_comes_back(kind: Any, values: list[Any], written: list[Any]) -> None:
    schema = schema_of(kind)
    read = [{"partition": 0, "key": {"k": value}, "value": value} for value in values]
    batch = pa.RecordBatch.from_pylist(read, schema=schema)
    again = arrow_rows(plain_rows(batch), schema, "s")
    assert again.columns == batch.select(["key", "value"]).columns
    by_hand = arrow_rows([{"key": {"k": v}, "value": v} for v in written], schema, "s")
    assert by_hand.column("value") == batch.column("value")[: len(written)]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            {"k": 1, "x": 2},
            1,
            "row 1 for the state 's': key must have the fields k, but is {'k': 1, 'x': 2}",
        ),
        ({}, 1, "key must have the fields k"),
        ("a", 1, "key must have the fields k, but is 'a'"),
        ({"k": "a"}, 1, "row 1 for the state 's': "),
        ({"k": 1}, 2**63, "row 1 for the state 's': "),
        ({"k": 1.5}, 1, "row 1 for the state 's': "),
    ],
)
def test_a_row_of_another_form_is_named(key: Any, value: Any, message: str) -> None:
    fine = {"key": {"k": 1}, "value": 1}
    with pytest.raises(CannotMigrate) as refused:
        arrow_rows([fine, {"key": key, "value": value}], schema_of(pa.int64()), "s")
    assert message in str(refused.value)
    with pytest.raises(CannotMigrate, match="row 0 for the state 's' lacks a key or a value: 7"):
        arrow_rows([7], schema_of(pa.int64()), "s")  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        *(
            (pa.timestamp("us", "UTC"), text, "give it like 2024-01-31T12:30:00.000000Z")
            for text in ("", "NaT", "now", "today", "2024", "2024-01-01T00:00:00.1234567", "Z")
        ),
        (pa.timestamp("us"), "2024-13-01", "Month out of range"),
        (pa.timestamp("us"), "2024-01-01T00:00.5", "give it like"),
        (pa.timestamp("us"), 1.5, "a number must be an integer"),
        *(
            (pa.date32(), text, "give it like 2024-01-31")
            for text in ("", "today", "2024-01-01T01")
        ),
        (pa.date32(), datetime.datetime(2024, 1, 1, 12), "give it without a time"),
        *((pa.time64("ns"), text, "give it like 12:30:00.000001") for text in ("", "12", "1:2:3")),
        (pa.time64("ns"), -1, "nanoseconds of one day"),
        (pa.duration("us"), 0.5, "a number must be an integer"),
        *(
            (pa.decimal128(9, 2), each, "at most 2 digits after the point")
            for each in ("1.505", "1e-3", decimal.Decimal("1.505"))
        ),
        *((pa.decimal128(9, 2), each, "give a finite number") for each in ("NaN", "-Infinity")),
        *(
            (pa.decimal128(9, 2), text, "give it like 12.5")
            for text in ("", "1_0", " 1", "a", "1.2.3", ".")
        ),
        (pa.int64(), "5", "value is '5', which is not of type int64: give an integer, without"),
        (
            pa.list_(pa.struct([("a", pa.int8())])),
            [{"a": 1}, {"a": "5"}],
            "value.a is '5', which is not of type int8: give an integer, without a fraction or quo",
        ),
        (pa.float64(), "1.2.3", "give it like 12.5"),
        (pa.float64(), True, "give a number"),
        (pa.float64(), "1_0", "give it like 12.5"),
        (pa.float32(), 1e300, "out of range"),
        *((kind, "-1e400", "out of range") for kind in (pa.float32(), pa.float64())),
        (pa.binary(), "a", "give it in base64"),
        *(
            (pa.list_(pa.string()), each, "which is not a list")
            for each in ("ab", {"a": 1}, b"a", 1)
        ),
        *(
            (pa.map_(pa.string(), pa.int64()), each, "value is a map, and is given as")
            for each in ([{"value": 1}], [{"key": "a"}], ["ab"], "ab", 1)
        ),
        (pa.map_(pa.string(), pa.int64()), {None: 1}, "null"),
        (
            pa.map_(pa.struct([("a", pa.int8())]), pa.int64()),
            [{"key": {"a": 1}, "value": 1}, {"key": {"a": 1}, "value": 2}],
            "each key of a map once",
        ),
        (pa.struct([("a", pa.int8()), ("a", pa.int8())]), {"a": 1}, "fields of the same name"),
    ],
)
def test_a_value_that_would_become_another_is_refused(kind: Any, value: Any, message: str) -> None:
    schema = pa.schema([("key", pa.int8()), ("value", kind)])
    with pytest.raises(CannotMigrate) as refused:
        arrow_rows([{"key": 1, "value": value}], schema, "s")
    assert str(refused.value).startswith("row 0 for the state 's': ")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (pa.timestamp("us"), "2024-01-01", 1_704_067_200_000_000),
        (pa.timestamp("us"), "2024-01-01 00:00:00.5", 1_704_067_200_500_000),
        (pa.timestamp("us", "UTC"), "1969-12-31T23:59:59.999999Z", -1),
        (pa.timestamp("us"), "294247-01-10T04:00:54.775807", 2**63 - 1),
        (pa.timestamp("us"), "-001-01-01T00:00:00.000000", -62_198_755_200_000_000),
        (pa.time64("ns"), "00:00:01.000000001", 1_000_000_001),
        (pa.date32(), "5881580-07-11", 2**31 - 1),
        (pa.date32(), "-5877641-06-23", -(2**31)),
    ],
)
def test_times_of_all_years_are_exact(kind: Any, text: str, value: int) -> None:
    schema = pa.schema([("key", pa.int8()), ("value", kind)])
    batch = arrow_rows([{"key": 1, "value": text}], schema, "s")
    column = batch.column("value")
    units = pa.int32() if pa.types.is_date32(kind) else pa.int64()
    assert column.cast(units).to_pylist() == [value]


def test_one_state_by_two_names_is_refused(tmp_path: Path) -> None:
    source, operator = operator_of(unpack("spark43-hdfs-agg", tmp_path))
    twice: dict[str, Any] = {"": [], find_table(operator).name: []}
    with pytest.raises(CannotMigrate, match="given twice"):
        write_rows(twice, source, operator, LocalDirectory(str(tmp_path / "new")))


def plain_state(checkpoint: Path) -> dict[str, list[dict[str, Any]]]:
    source, operator = operator_of(checkpoint)
    return {
        table.name: [
            row
            for batch in read_table(source, table, range(operator.partitions))
            for row in plain_rows(batch)
        ]
        for table in state_tables(operator)
    }


def rewritten(checkpoint: Path, target: Path, rows: Any) -> dict[str, list[dict[str, Any]]]:
    """The state that was written, where the logs are those of the old checkpoint."""
    source, operator = operator_of(checkpoint)
    goal = LocalDirectory(str(target))
    written = write_rows(rows, source, operator, goal)
    assert not [name for name in goal.names("") if name.startswith("_")]
    if written.unique_ids:  # they are in the commit log, which is not written here
        return {}
    for log in ("offsets", "commits", "metadata"):
        (target / log).symlink_to(checkpoint / log)
    return plain_state(target)


@pytest.mark.parametrize("name", fast_of(NAMES))
def test_plain_rows_become_the_state_that_they_were(name: str, tmp_path: Path) -> None:
    checkpoint = unpack(name, tmp_path)
    before = plain_state(checkpoint)
    assert rewritten(checkpoint, tmp_path / "new", before) in (before, {})


def test_states_that_are_not_given_stay(tmp_path: Path) -> None:
    checkpoint = unpack("spark43-rocksdb-tws", tmp_path)
    before = plain_state(checkpoint)
    one = [{"key": {"k": "new"}, "value": {"n": 7}}]
    after = rewritten(checkpoint, tmp_path / "new", {"count": one})
    assert [{"key": r["key"], "value": r["value"]} for r in after.pop("count")] == one
    del before["count"]
    assert after == before
    with pytest.raises(CannotMigrate, match=r"'values' needs .rowCounter_values"):
        rewritten(checkpoint, tmp_path / "other", {"values": []})


def test_states_of_canonical_files_may_have_the_same_key(tmp_path: Path) -> None:
    recorded = unpack("spark43-rocksdb-tws", tmp_path)
    rewrite(recorded, tmp_path / "avro", TargetState(backend=CANONICAL))
    before = plain_state(tmp_path / "avro")
    keys = [{json.dumps(row["key"]) for row in before[name]} for name in ("values", "count")]
    assert keys[0] & keys[1]
    assert rewritten(tmp_path / "avro", tmp_path / "new", {"count": before["count"]}) == before
    repeated = [*before["count"], before["count"][0]]
    with pytest.raises(LostRows, match="repeat"):
        rewritten(tmp_path / "avro", tmp_path / "newer", {"count": repeated})


def test_no_rows_are_an_empty_state(tmp_path: Path) -> None:
    checkpoint = unpack("spark43-hdfs-agg", tmp_path)
    _, operator = operator_of(checkpoint)
    assert rewritten(checkpoint, tmp_path / "new", {"": []}) == {find_table(operator).name: []}
    assert len(rows(checkpoint)) == 5
