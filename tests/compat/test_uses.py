"""What a saved query uses, from its pins; from logs of real Spark runs too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinkish.checkpoint.format.logs import parse_offsets
from flinkish.checkpoint.format.pins import backend_of
from flinkish.compat.lookup import UNKNOWN_OPERATOR, Use
from flinkish.compat.uses import OTHER_BACKEND, uses_of
from tests.support.checkpoints.recorded import unpack

S = "spark.sql.streaming."
JOIN = S + "join.stateFormatVersion"
AGGREGATION = S + "aggregation.stateFormatVersion"
PANDAS = S + "flatMapGroupsWithState.stateFormatVersion"
CHANGELOG = S + "stateStore.rocksdb.changelogCheckpointing.enabled"
CHECKSUM = S + "stateStore.rowChecksum.enabled"
ENCODING = S + "stateStore.encodingFormat"
#: What is in every offset log, and all of it as it is by default.
NOW = {S + "multipleWatermarkPolicy": "min", JOIN: "2", AGGREGATION: "2", PANDAS: "2"}


@pytest.mark.parametrize(
    ("pins", "kind", "backend", "more", "formats"),
    [
        ({}, "stateStoreSave", "hdfs", {}, ""),
        ({}, "dedupe", "rocksdb", {}, ""),
        ({AGGREGATION: "1"}, "stateStoreSave", "hdfs", {}, "aggregation-v1"),
        ({AGGREGATION: "1"}, "dedupe", "hdfs", {}, ""),
        ({JOIN: "1"}, "symmetricHashJoin", "hdfs", {}, "join-v1"),
        ({JOIN: "3"}, "symmetricHashJoin", "rocksdb", {}, "join-v3"),
        ({JOIN: "4"}, "symmetricHashJoin", "rocksdb", {}, "join-v4"),
        ({JOIN: "4"}, "globalLimit", "rocksdb", {}, ""),
        ({PANDAS: "1"}, "applyInPandasWithState", "hdfs", {}, "pandas-state-v1"),
        ({CHECKSUM: "true"}, "dedupe", "hdfs", {}, "row-checksum"),
        ({CHECKSUM: "false"}, "dedupe", "hdfs", {}, ""),
        ({ENCODING: "avro"}, "transformWithStateInPandasExec", "rocksdb", {}, "avro"),
        ({ENCODING: "avro"}, "transformWithStateInPySparkExec", "rocksdb", {}, "avro"),
        ({ENCODING: "unsaferow"}, "transformWithStateInPySparkExec", "rocksdb", {}, ""),
        # Only transformWithState heeds it.
        ({ENCODING: "avro"}, "stateStoreSave", "rocksdb", {}, ""),
        ({CHANGELOG: "true"}, "dedupe", "rocksdb", {}, "changelog"),
        ({CHANGELOG: "true"}, "dedupe", "rocksdb", {"changelog": False}, ""),
        ({}, "dedupe", "rocksdb", {"changelog": True}, "changelog"),
        # Only RocksDB has both.
        ({}, "dedupe", "hdfs", {"changelog": True, "checkpoint_format": 2}, ""),
        ({}, "dedupe", "rocksdb", {"checkpoint_format": 2}, "checkpoint-v2"),
        ({}, "dedupe", "hdfs", {"offset_log_version": 2}, "offset-log-v2"),
        (
            {JOIN: "3", CHECKSUM: "true"},
            "symmetricHashJoin",
            "rocksdb",
            {"changelog": True, "checkpoint_format": 2, "offset_log_version": 2},
            "changelog checkpoint-v2 join-v3 offset-log-v2 row-checksum",
        ),
    ],
)
def test_formats(
    pins: dict[str, str], kind: str, backend: str, more: dict[str, Any], formats: str
) -> None:
    found = uses_of({**NOW, **pins}, backend=backend, kinds=[kind], **more)
    assert found == (Use(kind, backend, frozenset(formats.split())),)


def test_what_an_old_log_lacks_was_version_1() -> None:
    log = {S + "multipleWatermarkPolicy": "min"}
    kinds = ["symmetricHashJoin", "stateStoreSave", "applyInPandasWithState", "dedupe"]
    formats = [sorted(use.formats) for use in uses_of(log, backend="hdfs", kinds=kinds)]
    assert formats == [["join-v1"], ["aggregation-v1"], ["pandas-state-v1"], []]
    # That is Spark's rule for a log without any setting, too; the matrix took these for today's.
    assert uses_of({}, backend="hdfs", kinds=kinds) == uses_of(log, backend="hdfs", kinds=kinds)


def test_a_query_without_state() -> None:
    assert uses_of(NOW, backend="hdfs", kinds=[]) == (Use("stateless", "none"),)
    (use,) = uses_of(NOW, backend=None, kinds=[], offset_log_version=2, checkpoint_format=2)
    assert use == Use("stateless", "none", frozenset({"offset-log-v2"}))


def test_each_use_once_and_what_is_not_known() -> None:
    found = uses_of(NOW, backend="rocksdb", kinds=["dedupe", None, "dedupe"])
    assert found == (Use("dedupe", "rocksdb"), Use(UNKNOWN_OPERATOR, "rocksdb"))
    assert uses_of(NOW, backend=None, kinds=["dedupe"]) == (Use("dedupe", OTHER_BACKEND),)


@pytest.mark.parametrize(
    ("name", "kind", "use"),
    [
        ("spark35-hdfs-join", "symmetricHashJoin", Use("symmetricHashJoin", "hdfs")),
        (
            "spark43-changelog-join3",
            "symmetricHashJoin",
            Use("symmetricHashJoin", "rocksdb", frozenset({"join-v3"})),
        ),
        (
            "spark43-rocksdb-tws",
            "transformWithStateInPandasExec",
            Use("transformWithStateInPandasExec", "rocksdb"),
        ),
        ("spark43-hdfs-agg", "stateStoreSave", Use("stateStoreSave", "hdfs")),
    ],
)
def test_a_log_of_a_real_run(name: str, kind: str, use: Use, tmp_path: Path) -> None:
    offsets = unpack(name, tmp_path) / "offsets"
    newest = max(int(path.name) for path in offsets.iterdir() if path.name.isdigit())
    entry = parse_offsets((offsets / str(newest)).read_bytes(), f"offsets/{newest}")
    found = uses_of(
        entry.pins,
        backend=backend_of(entry.pins),
        kinds=[kind],
        offset_log_version=entry.version,
    )
    assert found == (use,)
