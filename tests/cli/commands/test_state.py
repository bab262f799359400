"""``flinkish state``: rows of recorded savepoints, in this process, without Spark."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from flinkish.engine.tables.frames import StateTable
from flinkish.errors import Corrupt
from flinkish.operators.state_semantics import StateSemantics
from flinkish.savepoint.state import state_rows
from tests.cli.conftest import Command
from tests.support.checkpoints.saved import V3, save


def test_rows_as_json(cli: Command, tmp_path: Path) -> None:
    path = save(tmp_path, "rocksdb-tws")
    document = cli.ok("state", "show", path, "rocksdb-tws/count", "--json").json()
    assert document["operator"]["uid"] == "rocksdb-tws"
    assert document["operator"]["state"] == "count"
    assert document["operator"]["partitions"] == 2
    assert document["more"] is False
    rows = {row["key"]["k"]: row for row in document["rows"]}
    assert {k: row["value"] for k, row in rows.items()} == {f"k{i}": {"n": 24} for i in range(5)}
    by_partition = [
        cli.ok("state", "show", path, f"{V3}/count", "--partition", p, "--json").json()["rows"]
        for p in ("0", "1")
    ]
    assert [*by_partition[0], *by_partition[1]] == document["rows"]
    assert all(row["partition"] == 1 for row in by_partition[1])
    limited = cli.ok("state", "show", path, "0/count", "--limit", "2", "--json").json()
    assert limited["rows"] == document["rows"][:2]
    assert limited["more"] is True


def test_rows_as_a_table(cli: Command, tmp_path: Path) -> None:
    path = save(tmp_path, "rocksdb-tws", "hdfs-agg")
    shown = cli.ok("state", "show", path, "hdfs-agg")
    lines = shown.out.splitlines()
    assert lines[0].split() == ["PARTITION", "key.window", "key.k", "value.sum", "value.count"]
    assert len(lines) == 6
    assert shown.err == ""
    first = cli.ok("state", "show", path, "hdfs-agg", "--limit", "1")
    assert len(first.out.splitlines()) == 2
    assert "more than these 1 rows" in first.err
    listed = cli.ok("state", "show", path, "rocksdb-tws/values", "--limit", "1").out
    assert '[{"v": 0}, ' in listed
    assert "..." in listed
    quiet = cli.ok("state", "show", path, "rocksdb-tws/count", "-q").out.splitlines()
    assert [set(json.loads(line)) for line in quiet] == [{"partition", "key", "value"}] * 5


def test_names_that_there_are_not(cli: Command, tmp_path: Path) -> None:
    path = save(tmp_path, "rocksdb-tws", "changelog-join3")
    for name, words in (
        ("other", "no operator 'other'; it has: changelog-join3, rocksdb-tws"),
        ("rocksdb-tws", "has several states: $rowCounter_values, count, values"),
        ("rocksdb-tws/other", "no state 'other'; it has: $rowCounter_values, count, values"),
        ("changelog-join3", "has several states: left-keyToNumValues, left-keyWithIndexToValue"),
        ("rocksdb-tws2/count", "no operator 'rocksdb-tws2/count'; it has: changelog-join3"),
        ("0/count", "'0' names several operators of the savepoint, in the queries"),
    ):
        refused = cli("state", "show", path, name, "--json")
        assert refused.code == 2
        assert words in refused.error()["message"]
    for condition in ((), ("--where", "true")):
        line = ("state", "show", path, "rocksdb-tws/count", "--partition", "2", *condition)
        assert "no partition 2" in cli(*line, "--json").error()["message"]
    assert cli("state", "show", str(tmp_path / "none"), "x").code == 11
    sides = [
        cli.ok("state", "show", path, f"changelog-join3/{side}", "--json").json()["operator"]
        for side in ("left", "right")
    ]
    assert [s["state"] for s in sides] == ["left-keyWithIndexToValue", "right-keyWithIndexToValue"]


def test_a_damaged_state(cli: Command, tmp_path: Path) -> None:
    path = save(tmp_path, "hdfs-agg")
    deltas = sorted(Path(path).rglob("*.delta"), key=lambda p: int(p.stem))
    for victim in deltas[-2:]:
        data = victim.read_bytes()
        victim.unlink()
        victim.write_bytes(data[: len(data) // 2])
    refused = cli("state", "show", path, "hdfs-agg", "--json")
    assert refused.code == 15
    assert ".delta" in refused.error()["message"]


def test_typed_state_that_cannot_be_decoded_is_exported_as_bytes(
    cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_args: object) -> StateTable:
        raise Corrupt("the serializer of the state is damaged")

    # The recorded states are not typed, and their serializers would not be read.
    monkeypatch.setattr(state_rows, "typed_table", damaged)
    meaning = StateSemantics(serializers={"count": ("damaged",)})
    path = save(tmp_path, "rocksdb-tws", meaning=meaning)
    export = ("state", "export", path, "0/count", str(tmp_path / "out"), "--dry-run")
    assert cli(*export).code == 15
    for raw in (("--raw",), ("--format", "avro")):
        cli.ok(*export, *raw)


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ("commits/6", "there is no commit of batch 6"),
        ("state/0/1", "the state partition is missing"),
    ],
)
def test_files_of_a_savepoint_that_are_missing(
    cli: Command, tmp_path: Path, gone: str, words: str
) -> None:
    path = save(tmp_path, "hdfs-agg")
    victim = Path(path, "0-query_hdfs-agg", gone)
    victim.rename(tmp_path / "elsewhere")
    for line in (
        ("state", "show", path, "hdfs-agg"),
        ("state", "export", path, "hdfs-agg", str(tmp_path / "new"), "--dry-run"),
        ("migrate", path, str(tmp_path / "new"), "-p", "7", "--dry-run"),
    ):
        refused = cli(*line, "--json")
        assert refused.code == Corrupt.code, line
        assert (words if line[0] == "state" else gone) in refused.error()["message"]


def test_what_an_export_refuses(cli: Command, tmp_path: Path) -> None:
    path = save(tmp_path, "hdfs-agg")
    (tmp_path / "there").mkdir()
    refused = cli("state", "export", path, "hdfs-agg", str(tmp_path / "there"), "--json")
    assert refused.code == 2
    assert "the target already exists" in refused.error()["message"]
    new = str(tmp_path / "new")
    refused = cli("state", "export", path, "hdfs-agg", new, "--format", "avro", "--where", "true")
    assert refused.code == 2
    planned = cli.ok("state", "export", path, "hdfs-agg", new, "--dry-run", "--json").json()
    assert planned["operator"]["state"] == "default"
    assert planned["path"] == new
    assert not os.path.exists(new)


@pytest.mark.parametrize(
    "words", [("state", "export", "S", "hdfs-agg", "T"), ("migrate", "S", "T")]
)
def test_a_quiet_dry_run_writes_nothing(
    cli: Command, tmp_path: Path, words: tuple[str, ...]
) -> None:
    places = {"S": save(tmp_path, "hdfs-agg"), "T": str(tmp_path / "new")}
    result = cli.ok(*[places.get(word, word) for word in words], "--dry-run", "-q")
    assert (result.out, result.err) == ("", "")
