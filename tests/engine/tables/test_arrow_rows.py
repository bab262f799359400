"""Plain rows back into state: what was read of recorded checkpoints is written as Spark had it."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flinkish.engine.errors import CannotMigrate
from flinkish.engine.stores.files import LocalDirectory
from flinkish.engine.tables.arrow_rows import arrow_rows
from flinkish.engine.tables.bootstrap_state import write_rows
from flinkish.engine.tables.decoding import plain_rows
from flinkish.engine.tables.frames import find_table, read_table, state_tables
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
            "row 1 for the state 's': key has the fields k, not {'k': 1, 'x': 2}",
        ),
        ({}, 1, "key has the fields k"),
        ("a", 1, "key has the fields k, not 'a'"),
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
    with pytest.raises(CannotMigrate, match="row 0 for the state 's' has no key and value: 7"):
        arrow_rows([7], schema_of(pa.int64()), "s")  # type: ignore[list-item]


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
    with pytest.raises(CannotMigrate, match=r"'values' cannot be without .rowCounter_values"):
        rewritten(checkpoint, tmp_path / "other", {"values": []})


def test_no_rows_are_an_empty_state(tmp_path: Path) -> None:
    checkpoint = unpack("spark43-hdfs-agg", tmp_path)
    _, operator = operator_of(checkpoint)
    assert rewritten(checkpoint, tmp_path / "new", {"": []}) == {find_table(operator).name: []}
    assert len(rows(checkpoint)) == 5
