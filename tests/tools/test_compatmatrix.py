"""What the measurement makes of results: the pure parts, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flinkish.compat.data import parse
from flinkish.compat.model import SPARK
from tools.compatmatrix.cases import QUERIES, Case, cases, line, unused
from tools.compatmatrix.cells import collect, write_table
from tools.compatmatrix.data import expected
from tools.compatmatrix.errors import FAILS, KNOWN, LIMITATIONS, NEEDS_MIGRATION, judge, short_error
from tools.compatmatrix.measure import BadMeasurement, Measurement, wrong_rows

BY_NAME = {query.name: query for query in QUERIES}
V2_LOG = "x.IllegalStateException: UnsupportedLogVersion: maximum supported log version is v1"


def test_the_error_is_the_innermost_one_without_paths() -> None:
    wrapped = "a.b.StreamingQueryException: [STREAM_FAILED] Query terminated\nmore"
    cause = "java.lang.IllegalStateException: Failed to read file:/home/me/c/offsets/4. No\n\tat x"
    assert short_error([wrapped, cause]) == ("IllegalStateException: Failed to read .../4. No")
    proxy = f"py4j.Py4JException: Traceback:\n  File\n: {cause}\nCaused by: a.B: inner /tmp/x/y\n"
    assert short_error([wrapped, proxy]) == "B: inner .../y"
    assert len(short_error(["e.E: " + "long " * 200])) <= 300


@pytest.mark.parametrize(
    ("case", "target", "error", "limitation", "verdict"),
    [
        ("aggregate-rocksdb-checkpoint-v2", "3.5", V2_LOG, "checkpoint-format-2", NEEDS_MIGRATION),
        ("aggregate-rocksdb-offset-log-v2", "4.1", V2_LOG, "offset-log-2", NEEDS_MIGRATION),
        ("aggregate-hdfs-row-checksum", "4.1", "wrong result: 1", "row-checksum", NEEDS_MIGRATION),
        ("distinct-hdfs-row-checksum", "4.1", "", "row-checksum", NEEDS_MIGRATION),
        ("aggregate-hdfs", "4.1", "wrong result: 1", "measured-failure", FAILS),
        (
            "processor_in_rows-rocksdb",
            "4.0",
            "AttributeError: 'GroupedData' object has no attribute 'transformWithState'",
            "no-transform-on-rows-before-4-1",
            FAILS,
        ),
    ],
)
def test_errors_are_told_apart(
    case: str, target: str, error: str, limitation: str, verdict: str
) -> None:
    [found] = [one for one in cases("4.3.0") if one.id == case]
    judgement = judge(found, line(target), [error] if error else [])
    assert (judgement.limitations, judgement.verdict) == ((limitation,), verdict)
    assert judgement.error


def test_every_known_error_has_its_text() -> None:
    others = {"measured-failure", "join-format-4-setting"}
    assert {known.limitation for known in KNOWN} | others == set(LIMITATIONS)


def test_a_case_without_its_format_is_noticed() -> None:
    case = Case(BY_NAME["aggregate"], "rocksdb", ("changelog", "checkpoint-v2"))
    assert unused(case, {}, ["state/0/0/3_id.changelog"], "v1", 2) == []
    assert unused(case, {}, ["state/0/0/3.zip"], "v1", 1) == ["changelog", "checkpoint-v2"]


def test_lost_state_gives_other_rows() -> None:
    """Two batches that start with nothing give as many rows as the first two, not those after."""
    for query in QUERIES:
        if query.name != "stateless":
            fresh = [list(row) for row in expected(query.name, 0)]
            assert wrong_rows(fresh, query.name, 1), query.name


def put(work: Path, case: str, name: str, rows: list[list[int | None]], **more: object) -> None:
    path = work / case / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"rows": rows, "errors": [], **more}))


def test_a_cell_is_the_worst_of_its_queries(tmp_path: Path) -> None:
    versions = ["4.2.1", "4.3.0"]
    right = {name: [list(row) for row in expected(name, 1)] for name in ("aggregate", "windows")}
    for name, rows in right.items():
        put(tmp_path / "4.2.1", f"{name}-hdfs", "begun", [], problem=None, savepoint="there")
        put(tmp_path / "4.2.1", f"{name}-hdfs", "to-4.2.1", rows)
    put(tmp_path / "4.2.1", "aggregate-hdfs", "to-4.3.0", right["aggregate"])
    put(tmp_path / "4.2.1", "windows-hdfs", "to-4.3.0", right["windows"][1:])
    measurement = Measurement(tmp_path, versions, lambda case: True, print)
    write_table(tmp_path / "table.json", collect(measurement), versions)
    table = json.loads((tmp_path / "table.json").read_text())
    assert [(c["from"], c["to"], c["operator"], c["verdict"]) for c in table["cells"]] == [
        ("4.2", "4.2", "stateStoreSave", "ok"),
        ("4.2", "4.3", "stateStoreSave", "fails"),
    ]
    assert table["cells"][1]["error"].startswith("wrong result: 3 rows for 4, without (17672")
    assert [one["id"] for one in table["limitations"]] == ["measured-failure"]

    assert table["versions"] == [
        {"line": "4.2", "measured": "4.2.1"},
        {"line": "4.3", "measured": "4.3.0"},
    ]

    put(tmp_path / "4.2.1", "windows-hdfs", "to-4.2.1", [])
    with pytest.raises(BadMeasurement, match="windows-hdfs"):
        collect(measurement)


def test_an_older_release_has_cells_where_it_differs(tmp_path: Path) -> None:
    versions = ["4.1.0", "4.1.4", "4.3.0"]
    rows = [list(row) for row in expected("aggregate", 1)]
    for version in ("4.1.0", "4.1.4"):
        put(tmp_path / version, "aggregate-hdfs", "begun", [], problem=None, savepoint="there")
        for target in versions:
            wrong = (version, target) == ("4.1.0", "4.3.0")
            put(tmp_path / version, "aggregate-hdfs", f"to-{target}", rows[1:] if wrong else rows)
    measurement = Measurement(tmp_path, versions, lambda case: True, print)
    write_table(tmp_path / "table.json", collect(measurement), versions)
    text = (tmp_path / "table.json").read_text()
    table = json.loads(text)
    assert table["versions"][0] == {"line": "4.1", "measured": "4.1.4", "also": ["4.1.0"]}
    assert [(c["from"], c["to"], c["verdict"]) for c in table["cells"]] == [
        ("4.1", "4.1", "ok"),
        ("4.1", "4.3", "ok"),
        ("4.1.0", "4.3", "fails"),
    ]
    assert parse(text, "table.json", SPARK).versions[0].releases == ("4.1.0", "4.1.4")
