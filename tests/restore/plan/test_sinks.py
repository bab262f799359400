"""Which batches a sink has, and what that means. That Spark does so is tested in tests/driver."""

from __future__ import annotations

import json
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from flinkish import storage
from flinkish.restore.plan.sinks import SinkPosition, judge_sink, sink_position
from flinkish.storage.remote import forget_stores
from tests.support.servers.s3 import S3Server

ID = "0b5e1c1e-6d3f-4d4e-9a43-1f6a2f6f6f00"


def position(format_: str | None, path: str | None) -> SinkPosition | None:
    return sink_position(format_, path, ID, storage)


# File sinks.


@pytest.mark.parametrize(
    ("names", "newest"),
    [
        ([], None),
        (["0", "1", "2"], 2),
        (["9.compact", "10", "8"], 10),
        (["9.compact", "19.compact"], 19),
        ([".3.0aa1.tmp", ".3.crc", "2", "x.compact", "_temporary"], 2),
    ],
)
@pytest.mark.parametrize("format_", ["parquet", "JSON", None])
def test_the_newest_batch_of_a_file_sink(
    tmp_path: Path, names: list[str], newest: int | None, format_: str | None
) -> None:
    log = tmp_path / "a b" / "_spark_metadata"
    log.mkdir(parents=True)
    for name in names:
        (log / name).write_text("v1\n")
    for path in (str(log.parent), f"file:{log.parent}", f"file://{log.parent}"):
        found = position(format_, path)
        assert found is not None
        assert (found.newest_batch, found.by_query_id, found.unreadable) == (newest, False, None)


@pytest.mark.servers
def test_a_file_sink_on_s3(moto_s3: S3Server) -> None:
    with moto_s3.configured():
        forget_stores()
        place = f"{moto_s3.create_bucket('sinks')}/{uuid.uuid4().hex}"
        for name in ("9.compact", "10"):
            storage.write_bytes(f"{place}/_spark_metadata/{name}", b"v1")
        for path in (place, place.replace("s3://", "s3a://")):
            found = position("parquet", path)
            assert found is not None
            assert (found.newest_batch, found.unreadable) == (10, None)
        empty = position("parquet", f"{place}/nothing")
        assert empty is not None
        assert (empty.newest_batch, empty.unreadable) == (None, None)
        forget_stores()


def test_a_sink_without_path_or_log_says_nothing(tmp_path: Path) -> None:
    assert position("parquet", None) is None
    for format_ in ("kafka", "console", "iceberg", "noop"):
        assert position(format_, str(tmp_path)) is None
    empty = position("csv", str(tmp_path / "not there"))
    assert empty is not None
    assert judge_sink(5, empty, True, stateful=True).verdict == "as-is"


def test_a_sink_elsewhere_is_not_readable_from_here() -> None:
    found = position("orc", "adl9://store/out")
    assert found is not None
    assert (
        found.unreadable == "cannot open adl9://store/out/_spark_metadata: Protocol not known: adl9"
    )
    plan = judge_sink(5, found, True, stateful=True)
    assert (plan.verdict, plan.blocks, plan.newest_batch) == ("unreadable", False, None)


# Delta.


def commit(log: Path, version: int, *actions: dict[str, Any]) -> None:
    info = {"commitInfo": {"operation": "STREAMING UPDATE"}}
    lines = [json.dumps(action) for action in (info, *actions)]
    (log / f"{version:020}.json").write_text("\n".join(lines) + "\n")


def txn(batch: int, app: str = ID) -> dict[str, Any]:
    return {"txn": {"appId": app, "version": batch, "lastUpdated": 1}}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    log = tmp_path / "table" / "_delta_log"
    log.mkdir(parents=True)
    return log


def newest(log: Path) -> int | None:
    found = position("delta", str(log.parent))
    assert found is not None
    assert found.by_query_id
    assert found.unreadable is None, found.unreadable
    return found.newest_batch


def unreadable(log: Path) -> str:
    found = position("delta", str(log.parent))
    assert found is not None
    assert found.unreadable is not None
    return found.unreadable


def test_delta_the_newest_transaction_of_this_query(log: Path) -> None:
    assert newest(log) is None
    commit(log, 0, {"protocol": {"minReaderVersion": 1}})
    commit(log, 1, txn(0))
    commit(log, 2, txn(1))
    commit(log, 3, txn(40, "another"))
    commit(log, 4, {"add": {"path": "x"}})
    (log / "00000000000000000003.crc").write_text("{}")
    assert newest(log) == 1


def checkpoint(log: Path, name: str, *actions: dict[str, Any]) -> None:
    arrow: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    rows = [{"txn": action.get("txn"), "add": action.get("add")} for action in actions]
    parquet.write_table(arrow.Table.from_pylist(rows), log / name)


@pytest.mark.parametrize(
    "names",
    [
        ["00000000000000000007.checkpoint.parquet"],
        [f"00000000000000000007.checkpoint.{n:010}.0000000002.parquet" for n in (1, 2)],
        ["00000000000000000007.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet"],
    ],
)
def test_delta_older_transactions_are_in_the_checkpoint(log: Path, names: list[str]) -> None:
    others = {"add": {"path": "x"}}
    parts = [[others, txn(3, "another")], [txn(5), others]]
    if len(names) == 1:
        parts = [parts[0] + parts[1]]
    for name, actions in zip(names, parts, strict=True):
        checkpoint(log, name, *actions)
    # Of an incomplete checkpoint nothing is taken.
    checkpoint(log, "00000000000000000009.checkpoint.0000000001.0000000002.parquet", txn(9))
    commit(log, 8, txn(4, "another"))
    commit(log, 9, others)
    assert newest(log) == 5
    commit(log, 10, txn(6))
    assert newest(log) == 6


def test_delta_a_checkpoint_in_json(log: Path) -> None:
    name = "00000000000000000002.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    (log / name).write_text(json.dumps(txn(8)))
    assert newest(log) == 8


def test_delta_a_log_that_does_not_say(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(log, 3, {"add": {"path": "x"}})
    assert "lacks commit 2" in unreadable(log)
    checkpoint(log, "00000000000000000002.checkpoint.parquet", txn(1))
    assert newest(log) == 1
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert "no pyarrow" in unreadable(log)
    monkeypatch.undo()
    (log / "00000000000000000002.checkpoint.parquet").write_bytes(b"not parquet")
    assert "cannot be read" in unreadable(log)
    (log / "00000000000000000003.json").write_text("{")
    assert "not a commit of Delta" in unreadable(log)


# The verdict.

FILE, DELTA = (SinkPosition(f, "/out", 9, by_query_id=f == "delta") for f in ("parquet", "delta"))
CASES = [
    # saved, position, keep id, mode, stateful, planned -> verdict, reason, rebase_to
    (9, FILE, True, None, True, False, "as-is", "sink-not-ahead", None),
    (12, FILE, True, None, True, True, "as-is", "sink-not-ahead", None),
    (8, FILE, True, None, False, True, "as-is", "sink-has-planned", None),
    (8, FILE, True, None, False, False, "ahead", "sink-ahead", None),
    (8, FILE, True, None, True, True, "ahead", "sink-has-planned", None),
    (8, FILE, True, "accept", True, True, "ahead", "sink-has-planned", None),
    (8, FILE, True, "rebase", True, True, "rebase", "sink-ahead", 9),
    (8, FILE, False, None, True, False, "ahead", "sink-ahead-state", None),
    (7, FILE, True, None, False, True, "ahead", "sink-ahead", None),
    (7, FILE, True, "rebase", False, True, "rebase", "sink-ahead", 8),
    (7, FILE, True, "rebase", False, False, "rebase", "sink-ahead", 9),
    (7, FILE, True, "rebase", True, False, "rebase", "sink-ahead", 9),
    (7, FILE, True, "accept", False, True, "accept", "sink-ahead", None),
    (7, FILE, True, "accept", True, False, "ahead", "sink-ahead-state", None),
    (9, FILE, True, "rebase", True, False, "as-is", "sink-not-ahead", None),
    (7, DELTA, True, None, True, False, "ahead", "sink-ahead-state", None),
    (7, DELTA, True, "rebase", True, False, "rebase", "sink-ahead", 9),
    (7, DELTA, False, None, True, False, "as-is", "sink-other-id", None),
]


@pytest.mark.parametrize(
    ("saved", "sink", "keep", "mode", "stateful", "planned", "verdict", "reason", "rebase_to"),
    CASES,
)
def test_the_verdict(
    saved: int,
    sink: SinkPosition,
    keep: bool,
    mode: Any,
    stateful: bool,
    planned: bool,
    verdict: str,
    reason: str,
    rebase_to: int | None,
) -> None:
    plan = judge_sink(saved, sink, keep, mode, stateful=stateful, replays_planned=planned)
    assert (plan.verdict, plan.reason, plan.rebase_to) == (verdict, reason, rebase_to)
    assert plan.newest_batch == 9
    assert plan.blocks is (verdict == "ahead")
    assert bool(plan.advice) is plan.blocks
    if plan.blocks:
        assert "--sink-ahead rebase" in plan.advice
        # Only what works is advised.
        assert ("accept" in plan.advice) is ("accept" in plan.permit) is not stateful
        assert ("--fork" in plan.advice) is (sink is DELTA)
