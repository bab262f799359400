"""Joins from one state format to another: recorded state, and what cannot be."""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinkish.checkpoint.format.names import CANONICAL, HDFS, JOIN_STORES, ROCKSDB
from flinkish.checkpoint.format.pins import PIN_JOIN_FORMAT
from flinkish.engine.errors import CannotMigrate, EngineError, StateFormatError
from flinkish.engine.migration.join_formats import JOIN_FAMILIES_4, event_time
from flinkish.engine.migration.join_regrouping import Sorter, event_times, regrouped
from flinkish.engine.migration.migration_plan import (
    EventTime,
    FamilyMigration,
    JoinLayout,
    JoinRegrouping,
    RowForm,
    StoreMigration,
)
from flinkish.engine.migration.migration_planner import FamilyChange, TargetState
from flinkish.engine.rows.encodings import TIMESTAMP_POSTFIX, split_value
from flinkish.engine.rows.row_codec import compile_key
from flinkish.engine.stores.canonical import read_rows
from flinkish.engine.stores.checkpoints import store_files
from flinkish.engine.stores.files import LocalDirectory
from flinkish.engine.stores.partitioning import key_encoder
from flinkish.engine.stores.store_rows import RowBlock
from tests.engine.migration.test_checkpoint_migration import all_rows, rewrite, rows_of, state_of
from tests.support.checkpoints.recorded import unpack

RECORDED = "spark43-changelog-join3"
WATERMARK = {"spark.watermarkDelayMs": 60000}


def to(version: str, backend: str | None = None, partitions: int | None = None) -> TargetState:
    return TargetState(formats={PIN_JOIN_FORMAT: version}, backend=backend, partitions=partitions)


@pytest.fixture
def three(tmp_path: Path) -> Path:
    return unpack(RECORDED, tmp_path)


@pytest.fixture
def four(three: Path, tmp_path: Path) -> Path:
    rewrite(three, tmp_path / "four", to("4"))
    return tmp_path / "four"


def buffered(checkpoint: Path) -> dict[str, dict[str, list[bytes]]]:
    """By side and join key the rows, sorted."""
    found: dict[str, dict[str, list[bytes]]] = defaultdict(lambda: defaultdict(list))
    source = LocalDirectory(str(checkpoint))
    [operator] = state_of(checkpoint).operators
    for partition in range(operator.partitions):
        for store in operator.stores:
            families = {family.name: family for family in store.families}
            for block in read_rows(
                store_files(source, operator, partition, store), operator, store
            ):
                family = families[block.family]
                name = store.name if block.family == "default" else block.family
                if not name.endswith(("keyWithTsToValues", "keyWithIndexToValue")):
                    continue
                codec = compile_key(family.key, key_encoder(operator, store, family))
                keys = codec.decode(block.keys, framed=block.framed)
                keys = keys.drop_columns(keys.schema.names[-1:]).to_pylist()
                for key, value in zip(keys, block.values, strict=True):
                    rows = split_value(value) if block.framed else [value]
                    found[name.partition("-")[0]][str(key)] += rows
    return {side: {k: sorted(rows) for k, rows in keys.items()} for side, keys in found.items()}


def test_format_4_has_the_rows_of_a_key_and_time_in_a_list(three: Path, four: Path) -> None:
    [operator] = state_of(four).operators
    [store] = operator.stores
    assert tuple(family.name for family in store.families) == JOIN_FAMILIES_4
    assert operator.pins[PIN_JOIN_FORMAT] == "4"
    assert buffered(four) == buffered(three)
    times: dict[tuple[str, bytes], int] = {}
    for _, name, key, value in all_rows(four):
        side, _, kind = name.partition("-")
        rows = split_value(value)
        if kind == "tsWithKey":
            assert set(rows) == {b"\x01" + bytes(15)}
            times[side, key[8:] + key[:8]] = len(rows)
    for _, name, key, value in all_rows(four):
        side, _, kind = name.partition("-")
        if kind == "keyWithTsToValues":
            rows = split_value(value)
            assert times.pop((side, key)) == len(rows)
            micros = int.from_bytes(key[-8:], "big") - (1 << 63)
            assert {struct.unpack_from("<q", row, 8)[0] for row in rows} == {micros}
    assert not times


def test_format_4_back_to_3_has_the_same_rows_and_numbers(
    three: Path, four: Path, tmp_path: Path
) -> None:
    rewrite(four, tmp_path / "back", to("3"))
    assert buffered(tmp_path / "back") == buffered(three)
    assert {row[:3] for row in all_rows(tmp_path / "back")} == {row[:3] for row in all_rows(three)}
    counts = [row for row in all_rows(three) if row[1].endswith("keyToNumValues")]
    assert [r for r in all_rows(tmp_path / "back") if r[1].endswith("keyToNumValues")] == counts
    rewrite(tmp_path / "back", tmp_path / "again", to("4"))
    assert rows_of(tmp_path / "again") == rows_of(four)


@pytest.mark.parametrize("backend", [HDFS, ROCKSDB, CANONICAL])
def test_format_4_by_2_and_other_partitions_is_what_it_was(
    four: Path, tmp_path: Path, backend: str
) -> None:
    count = state_of(four).operators[0].partitions
    rewrite(four, tmp_path / "two", to("2", backend, 5))
    [operator] = state_of(tmp_path / "two").operators
    assert [store.name for store in operator.stores] == list(JOIN_STORES)
    assert (operator.backend, operator.partitions) == (backend, 5)
    rewrite(tmp_path / "two", tmp_path / "back", to("4", ROCKSDB, count))
    assert rows_of(tmp_path / "back") == rows_of(four)


def test_canonical_state_of_format_4_need_not_be_sorted(four: Path, tmp_path: Path) -> None:
    count = state_of(four).operators[0].partitions
    rewrite(four, tmp_path / "avro", TargetState(backend=CANONICAL, partitions=3))
    rewrite(tmp_path / "avro", tmp_path / "two", to("2", ROCKSDB, count))
    rewrite(four, tmp_path / "straight", to("2"))
    assert rows_of(tmp_path / "two") == rows_of(tmp_path / "straight")
    rewrite(tmp_path / "two", tmp_path / "four-avro", to("4", CANONICAL))
    rewrite(tmp_path / "four-avro", tmp_path / "back", TargetState(backend=ROCKSDB))
    assert rows_of(tmp_path / "back") == rows_of(four)


def test_format_1_has_no_flags(three: Path, four: Path, tmp_path: Path) -> None:
    rewrite(three, tmp_path / "one", to("1", HDFS))
    [operator] = state_of(tmp_path / "one").operators
    names = [f["name"] for f in operator.stores[1].families[0].value["fields"]]
    assert names == ["ts", "k", "v"]
    rewrite(tmp_path / "one", tmp_path / "two", to("2"))
    [operator] = state_of(tmp_path / "two").operators
    [*_, last] = operator.stores[1].families[0].value["fields"]
    assert last == {"name": "matched", "type": "boolean", "nullable": True, "metadata": {}}
    # All rows of this join were unmatched or the flag was lost: either way it is false.
    rewrite(tmp_path / "one", tmp_path / "four-1", to("4", ROCKSDB))
    unmatched = {
        side: {key: sorted(_unmatched(row) for row in rows) for key, rows in keys.items()}
        for side, keys in buffered(four).items()
    }
    assert buffered(tmp_path / "four-1") == unmatched
    rewrite(four, tmp_path / "one-again", to("1", HDFS))
    assert {r[:3] for r in all_rows(tmp_path / "one-again")} == {
        r[:3] for r in all_rows(tmp_path / "one")
    }


def _unmatched(row: bytes) -> bytes:
    return row[:32] + bytes(8) + row[40:]


def test_what_cannot_be(three: Path, four: Path, tmp_path: Path) -> None:
    for checkpoint, target_state, why in (
        (three, to("4", HDFS), "joins of state format 4 need RocksDB"),
        (four, to("3", HDFS), "joins of state format 3 need RocksDB"),
        (three, to("5"), "joins of state format 3 cannot become format 5"),
    ):
        with pytest.raises(CannotMigrate, match=why):
            rewrite(checkpoint, tmp_path / "new", target_state)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("version", ["3", "4"])
def test_join_keys_do_not_change_while_rows_are_regrouped(
    version: str, three: Path, four: Path, tmp_path: Path
) -> None:
    source = four if version == "3" else three
    [operator] = state_of(source).operators
    [store] = operator.stores
    changes = {}
    for family in store.families:
        first, *rest = family.key["fields"]
        key = {**family.key, "fields": [{**first, "type": "binary"}, *rest]}
        places = tuple(range(len(key["fields"])))
        changes["default", family.name] = FamilyChange(key=key, key_places=places)
    with pytest.raises(CannotMigrate, match="cannot change together with its state format"):
        rewrite(source, tmp_path / "new", to(version), each={0: TargetState(changes=changes)})
    assert not (tmp_path / "new").exists()


def column(name: str, data_type: Any, **metadata: Any) -> dict[str, Any]:
    return {"name": name, "type": data_type, "nullable": True, "metadata": metadata}


def form(keys: list[Any], values: list[dict[str, Any]]) -> RowForm:
    fields = [column(f"field{i}", data_type) for i, data_type in enumerate(keys)]
    key = {"type": "struct", "fields": [*fields, column("index", "long")]}
    return RowForm(key, {"type": "struct", "fields": values}, None, framed=False)


WINDOW = {"type": "struct", "fields": [column("start", "timestamp"), column("end", "timestamp")]}


def test_where_the_event_time_is() -> None:
    plain, marked = column("a", "timestamp"), column("ts", "timestamp", **WATERMARK)
    window = column("window", WINDOW, **WATERMARK)
    assert event_time(form(["string"], [plain, marked]), "x") == EventTime(1, False, ())
    assert event_time(form(["string", "timestamp"], [marked]), "x") == EventTime(0, False, (1,))
    assert event_time(form([WINDOW], [plain, window]), "x") == EventTime(1, True, (0,))
    nested = {"type": "struct", "fields": [column("a", WINDOW), column("b", "timestamp")]}
    assert event_time(form(["string", nested], [plain]), "x") == EventTime(None, False, ())
    with pytest.raises(CannotMigrate, match="x has no event time of its own"):
        event_time(form(["timestamp"], [plain]), "x")
    with pytest.raises(CannotMigrate, match="x has several"):
        event_time(form(["string"], [marked, window]), "x")


def test_event_times_are_taken_as_spark_takes_them() -> None:
    plain = bytes(8) + struct.pack("<qq", -5, 7)
    null = struct.pack("<qqq", 2, -5, 0)
    assert event_times([plain, null], 2, EventTime(1, False, ()), "x") == [7, 0]
    window = bytes(8) + struct.pack("<q", 16 << 32 | 24) + bytes(8) + struct.pack("<qq", 1, 2)
    assert event_times([window], 1, EventTime(0, True, ()), "x") == [2]
    null_window = struct.pack("<qqq", 1, 0, 777)
    assert event_times([null_window, null_window], 2, EventTime(0, True, ()), "x") == [0, 0]
    with pytest.raises(StateFormatError, match="outside the row"):
        event_times([struct.pack("<qqq", 0, -16 << 32, 777)], 2, EventTime(0, True, ()), "here")
    with pytest.raises(StateFormatError, match="no event time"):
        event_times([bytes(8)], 1, EventTime(0, False, ()), "here")


@pytest.mark.parametrize(("at", "right"), [(7, True), (8, False)])
def test_a_join_key_that_is_another_time_is_refused(at: int, right: bool) -> None:
    rows = form(["timestamp"], [column("ts", "timestamp", **WATERMARK)])
    rows = replace(rows, framed=True)
    key = {**rows.key, "fields": [rows.key["fields"][0], column("__event_time", "long")]}
    lists = RowForm(key, rows.value, {"keyStateEncoderType": TIMESTAMP_POSTFIX}, framed=True)
    regroup = JoinRegrouping(JoinLayout.LISTS, rows, event_time(rows, "x"))
    move = StoreMigration(
        "l", "default", (FamilyMigration("f", "g", lists, lists, (), regroup=regroup),)
    )
    block = RowBlock(
        "f",
        [b"\x00" + bytes(8) + struct.pack("<qq", at, index) for index in (1, 0)],
        [b"\x00" + bytes(8) + struct.pack("<q", 7)] * 2,
        framed=True,
    )
    if right:
        [made] = regrouped([block], move, "here")
        assert made.keys == [
            b"\x00" + bytes(8) + struct.pack("<q", 7) + b"\x80" + bytes(6) + b"\x07"
        ]
        assert made.values == [2 * (struct.pack("<i", 17) + block.values[0])]
    else:
        with pytest.raises(EngineError, match="here: the join key 1 is a time, but not the event"):
            list(regrouped([block], move, "here"))


def test_a_sorter_sorts_and_leaves_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Sorter() as sorter:
        sorter.put([b"b", b"c"], [b"2", b"3"])
        sorter.put([b"a"], [b"1"])
        assert list(sorter.rows()) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())
    assert issubclass(CannotMigrate, EngineError)
