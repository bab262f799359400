"""The rules by which cells become a verdict, on a small table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flinkish.checkpoint.format.logs import parse_offsets
from flinkish.checkpoint.format.pins import backend_of
from flinkish.compat.data import parse
from flinkish.compat.lookup import (
    OTHER_BACKEND,
    UNKNOWN_OPERATOR,
    Use,
    compare_versions,
    judge,
    uses_of,
    usual_verdict,
    worst,
)
from flinkish.compat.model import SPARK, Cell, CompatVerdict, Matrix, Version, parse_version
from tests.support import compat_sample as sample
from tests.support.checkpoints.recorded import unpack

MATRIX = sample.matrix()


def _pair(text: str) -> tuple[Version, Version]:
    created, resumed = text.split()
    return parse_version(created, SPARK), parse_version(resumed, SPARK)


def test_verdicts_are_ordered() -> None:
    order = ["ok", "ok-with-limitations", "unknown", "needs-migration", "fails"]
    assert [
        verdict.value for verdict in sorted(CompatVerdict, key=lambda one: one.badness)
    ] == order
    assert worst([]) is CompatVerdict.OK
    assert (
        worst([CompatVerdict.UNKNOWN, CompatVerdict.OK, CompatVerdict.OK_WITH_LIMITATIONS])
        is CompatVerdict.UNKNOWN
    )


@pytest.mark.parametrize(
    ("pair", "verdict", "limitations", "cells"),
    [
        ("3.5 4.0", "ok", [], 5),
        ("v3.5.1 4.0.5", "ok", [], 5),
        ("4.0 4.3", "ok-with-limitations", ["slow-start"], 2),
        # Only formats that a user has to ask for are worse.
        ("4.3 4.0", "ok-with-limitations", ["new-log", "join-format"], 9),
        # The worst of the default formats counts.
        # One operator is not there on 3.5, the other one is.
        ("4.3 3.5", "ok-with-limitations", ["new-operator"], 2),
        ("3.5 4.3", "unknown", [], 0),
        ("9.9 4.3", "unknown", [], 0),
        ("3.5 9.9", "unknown", [], 0),
        ("3.5 3.5", "ok", [], 1),
        ("4.3 4.3", "ok", [], 0),
        ("9.9 9.9", "ok", [], 0),
    ],
)
def test_compare(pair: str, verdict: str, limitations: list[str], cells: int) -> None:
    found = compare_versions(MATRIX, *_pair(pair))
    assert found.verdict.value == verdict
    assert [limitation.id for limitation in found.limitations] == limitations
    assert len(found.cells) == cells


def test_a_pair_fails_when_nothing_of_it_works() -> None:
    document = sample.document()
    document["cells"] = [cell for cell in document["cells"] if cell["verdict"] == "fails"]
    matrix = parse(json.dumps(document), "x", SPARK)
    assert compare_versions(matrix, *_pair("4.3 3.5")).verdict is CompatVerdict.FAILS


def test_a_pair_of_which_only_other_formats_were_measured_is_unknown() -> None:
    document = sample.document()
    document["cells"] = [cell for cell in document["cells"] if cell["formats"]]
    matrix = parse(json.dumps(document), "x", SPARK)
    assert compare_versions(matrix, *_pair("4.3 4.0")).verdict is CompatVerdict.UNKNOWN


def _use(text: str) -> Use:
    operator, backend, *formats = text.split()
    return Use(operator, backend, frozenset(formats))


@pytest.mark.parametrize(
    ("pair", "use", "verdict", "limitations", "unmeasured"),
    [
        ("3.5 4.0", "dedupe hdfs", "ok", "", ""),
        ("3.5 4.0", "dedupe rocksdb changelog", "ok", "", ""),
        ("4.3 4.0", "dedupe rocksdb checkpoint-v2", "fails", "new-log", ""),
        ("4.0 4.3", "dedupe hdfs", "ok-with-limitations", "slow-start", ""),
        # No exact cell: the default's and those of the single formats decide.
        ("4.3 4.0", "dedupe rocksdb changelog checkpoint-v2", "fails", "new-log", ""),
        ("4.3 4.0", "dedupe rocksdb changelog row-checksum", "unknown", "", "row-checksum"),
        # An exact cell goes before its parts.
        ("4.3 4.0", "symmetricHashJoin rocksdb join-v4", "needs-migration", "join-format", ""),
        ("4.3 4.0", "symmetricHashJoin rocksdb changelog join-v4", "fails", "join-format", ""),
        # Others can read changelogs: no proof for joins. Nobody can read the commit log: it fails.
        ("4.3 4.0", "symmetricHashJoin rocksdb changelog", "unknown", "", "changelog"),
        (
            *("4.3 4.0", "symmetricHashJoin rocksdb checkpoint-v2", "fails", "new-log"),
            "checkpoint-v2",
        ),
        # On another backend it may be something else.
        ("4.3 4.0", "dedupe hdfs checkpoint-v2", "unknown", "", "checkpoint-v2"),
        # The offset log is the query's: a cell of any operator tells.
        ("4.3 4.0", "dedupe hdfs offset-log-v2", "fails", "new-log", ""),
        ("4.3 4.0", "stateless none", "ok", "", ""),
        # Nothing is known.
        ("4.3 4.0", "globalLimit hdfs", "unknown", "", "default"),
        ("4.3 4.0", "dedupe other", "unknown", "", "default"),
        ("3.5 4.3", "dedupe hdfs", "unknown", "", "default"),
        ("9.9 4.3", "dedupe hdfs", "unknown", "", "default"),
        # One line resumes its own savepoints.
        ("4.3.0 4.3.1", "dedupe rocksdb changelog", "ok", "", "default changelog"),
        ("9.9 9.9", "dedupe hdfs", "ok", "", "default"),
        ("3.5 3.5", "dedupe hdfs", "ok", "", ""),
        # An operator of unknown kind may be any of them.
        ("3.5 4.0", "unknown hdfs", "ok", "", ""),
        ("3.5 4.0", "unknown rocksdb changelog", "ok", "", ""),
        ("4.3 3.5", "unknown rocksdb", "fails", "new-operator", ""),
        ("4.3 3.5", "unknown hdfs", "unknown", "", "default"),
    ],
)
def test_judging_one_use(
    pair: str, use: str, verdict: str, limitations: str, unmeasured: str
) -> None:
    judged = judge(MATRIX, *_pair(pair), [_use(use)])
    (one,) = judged.uses
    assert one.use == _use(use)
    assert judged.verdict is one.verdict
    assert one.verdict.value == verdict
    assert [limitation.id for limitation in one.limitations] == limitations.split()
    assert list(one.unmeasured) == unmeasured.split()


def test_the_worst_use_decides() -> None:
    uses = [_use("dedupe rocksdb"), _use("symmetricHashJoin rocksdb join-v4"), _use("odd hdfs")]
    judged = judge(MATRIX, *_pair("4.3 4.0"), uses)
    assert [one.verdict.value for one in judged.uses] == ["ok", "needs-migration", "unknown"]
    assert judged.verdict is CompatVerdict.NEEDS_MIGRATION
    assert [limitation.id for limitation in judged.limitations] == ["join-format"]
    assert judge(MATRIX, *_pair("4.3 4.0"), []).verdict is CompatVerdict.OK


def _cells(*verdicts: CompatVerdict) -> list[Cell]:
    return [Cell("a", "b", verdict, ("x",)) for verdict in verdicts]


def test_the_usual_verdict() -> None:
    ok, fails, unknown = CompatVerdict.OK, CompatVerdict.FAILS, CompatVerdict.UNKNOWN
    assert usual_verdict(_cells(ok, fails, fails)) is fails
    assert usual_verdict(_cells(fails, ok, unknown)) is ok


def test_a_table_is_plain_data() -> None:
    assert isinstance(MATRIX, Matrix)
    assert sample.matrix() == MATRIX
    assert str(_use("dedupe hdfs b a")) == "dedupe on hdfs with a, b"
    assert str(_use("dedupe hdfs")) == "dedupe on hdfs"
    assert str(_use("stateless none offset-log-v2")) == "stateless with offset-log-v2"


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


@pytest.fixture(scope="module")
def patched() -> Matrix:
    """The sample with a second measured release, 4.0.1, whose dedupe is worse on 4.3."""
    document = sample.document()
    document["versions"][1]["also"] = ["4.0.1"]
    document["cells"].append(sample.cell("4.0.1 4.3", "dedupe", "rocksdb", "", "fails", "new-log"))
    return parse(json.dumps(document), "x", SPARK)


@pytest.mark.parametrize(
    ("version", "level", "releases"),
    [
        ("4.0.1", "measured", ["4.0.1"]),
        ("4.0.5", "measured", ["4.0.5"]),
        ("4.0.3", "between", ["4.0.1", "4.0.5"]),
        ("4.0.0", "line", ["4.0.1"]),
        ("4.0.6", "line", ["4.0.5"]),
        ("4.0", "line", ["4.0.1", "4.0.5"]),
        ("3.5.1", "line", ["3.5.9"]),
        ("9.9.1", "none", []),
    ],
)
def test_how_an_answer_is_known(
    patched: Matrix, version: str, level: str, releases: list[str]
) -> None:
    found = patched.evidence(parse_version(version, SPARK))
    assert (found[0].value, list(found[1])) == (level, releases)


@pytest.mark.parametrize(
    ("created", "verdict"),
    [
        ("4.0.1", "fails"),
        ("4.0.5", "ok"),
        ("4.0.6", "ok"),
        ("4.0.3", "fails"),
        ("4.0.0", "fails"),
        ("4.0", "fails"),
    ],
)
def test_a_release_between_two_measured_ones_has_the_worse_answer(
    patched: Matrix, created: str, verdict: str
) -> None:
    use = Use("dedupe", "rocksdb")
    versions = parse_version(created, SPARK), parse_version("4.3.0", SPARK)
    assert judge(patched, *versions, [use]).verdict.value == verdict
    assert {cell.operator for cell in compare_versions(patched, *versions).cells} >= {"dedupe"}
