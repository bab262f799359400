"""The rules by which cells become a verdict, on a small table."""

from __future__ import annotations

import json

import pytest

from flinkish.compat.data import parse
from flinkish.compat.lookup import Use, compare_versions, judge, usual_verdict, worst
from flinkish.compat.model import SPARK, Cell, CompatVerdict, Matrix, Version, parse_version
from tests.support import compat_sample as sample

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
