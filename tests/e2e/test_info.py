"""``flinkish info`` with a real driver: the graph of a program whose queries never start."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkish.operators.uids import uid_to_operator_id
from tests.support.cli.command import LIGHT, PROGRAMS, Flinkish, Result

pytestmark = pytest.mark.spark

NAMED = str(PROGRAMS / "named.py")


@pytest.fixture
def source(tmp_path: Path) -> str:
    """An input directory whose only file would fail a query that reads it."""
    directory = tmp_path / "input"
    directory.mkdir()
    (directory / "f.json").mkdir()
    return str(directory)


def _info(flinkish: Flinkish, *words: str) -> Result:
    return flinkish("info", "-m", "local[2]", *LIGHT, *words)


@pytest.mark.deep
def test_the_graph_as_json(flinkish: Flinkish, source: str) -> None:
    result = _info(flinkish, "--json", NAMED, source)
    assert result.code == 0, result.err
    first, second = result.json()["queries"]
    assert (first["name"], second["name"]) == ("per-minute", "query-1")
    assert first["coverage"] == {"stateful": 2, "with_uid": 1}
    assert second["coverage"] == {"stateful": 0, "with_uid": 0}
    by_kind = {operator["kind"]: operator for operator in first["operators"]}
    assert list(by_kind) == [
        *("file source", "watermark", "dedupe", "stateStoreSave", "console sink"),
    ]
    counts, distinct = by_kind["stateStoreSave"], by_kind["dedupe"]
    assert (counts["uid"], counts["stateful"], counts["ordinal"]) == ("counts", True, 0)
    assert counts["operator_id"] == counts["operator_id_v3"] == uid_to_operator_id("counts")
    assert counts["inputs"] == [distinct["operator_id"]]
    assert (distinct["uid"], distinct["ordinal"], distinct["partitions"]) == (None, 1, 2)
    assert [f["name"] for f in distinct["key_schema"]["fields"]] == ["id", "ts"]
    assert [f["name"] for f in counts["key_schema"]["fields"]] == ["window", "k"]
    assert [s["name"] for s in counts["stores"]] == ["default"]
    assert by_kind["file source"]["location"] == "named.py:13"
    assert by_kind["console sink"]["uid"] == "per-minute"
    # Nothing has been started, registered or left behind.
    assert flinkish.ok("list", "-a", "--json").json()["jobs"] == []


@pytest.mark.deep
def test_the_graph_for_people(flinkish: Flinkish, source: str) -> None:
    result = _info(flinkish, "-p", "7", NAMED, source)
    assert result.code == 0, result.err
    lines = result.out.splitlines()
    assert lines[0] == "Query per-minute"
    assert lines[1].startswith('  "per-minute" (console sink, named.py:')
    assert lines[2].startswith('  `-- "counts" (stateful stateStoreSave, named.py:')
    assert any("partitions: 7" in line for line in lines)
    assert any("(id long, ts timestamp) -> (" in line for line in lines)
    assert "a line of the program's own" not in result.out
    assert "1 of 2 stateful operators have a uid; missing: " in result.err


@pytest.mark.deep
def test_the_graph_for_graphviz_under_v2(flinkish: Flinkish, source: str) -> None:
    v2 = ("-D", "execution.stream-graph-hasher.version=v2")
    result = _info(flinkish, "--dot", *v2, NAMED, source)
    assert result.code == 0, result.err
    assert result.out.count("digraph operators {") == 1  # one graph, a cluster a query
    assert result.out.count("subgraph ") == 2
    ids = {op["operator_id"] for op in _operators(flinkish, source, *v2)}
    assert ids == {op["operator_id_v2"] for op in _operators(flinkish, source)}
    assert all(id_ in result.out for id_ in ids)


def _operators(flinkish: Flinkish, source: str, *options: str) -> list[dict[str, str]]:
    queries = _info(flinkish, "--json", *options, NAMED, source).json()["queries"]
    return [operator for query in queries for operator in query["operators"]]


@pytest.mark.deep
def test_uids_can_be_required(flinkish: Flinkish, source: str) -> None:
    lacking = _info(flinkish, "--require-uids", "--json", NAMED, source)
    assert lacking.code == 4
    assert lacking.out == ""
    error = lacking.error()
    assert error["id"] == "missing-uid"
    assert "dropDuplicates id, ts" in error["message"]
    assert [o["kind"] for o in error["operators"]] == ["dedupe"]
    # Nothing has been started, registered or left behind.
    assert flinkish.ok("list", "-a", "--json").json()["jobs"] == []


@pytest.mark.deep
def test_uids_that_are_required_and_there(flinkish: Flinkish, source: str) -> None:
    assert _info(flinkish, "--require-uids", NAMED, source, "all").code == 0


@pytest.mark.deep
def test_without_generated_uids_every_operator_needs_one(flinkish: Flinkish, source: str) -> None:
    strict = ("-D", "pipeline.auto-generate-uids=false")
    lacking = _info(flinkish, *strict, "--json", NAMED, source)
    assert lacking.code == 4
    kinds = [o["kind"] for o in lacking.error()["operators"]]
    assert kinds == ["dedupe", "foreachBatch sink"]
    asked = _info(flinkish, "--require-uids", "all", "--json", NAMED, source)
    assert asked.code == 4
    assert asked.error()["operators"] == lacking.error()["operators"]
    complete = _info(flinkish, *strict, NAMED, source, "all")
    assert complete.code == 0, complete.err


@pytest.mark.deep
@pytest.mark.parametrize(
    ("program", "arguments", "code", "id_", "words"),
    [
        (NAMED, ["same"], 4, "duplicate-uid", ["distinct", "named.py:16", "named.py:18"]),
        (NAMED, ["empty"], 2, "invalid-uid", ["Empty string"]),
        (NAMED, ["die"], 1, "program-failed", ["ValueError: on purpose"]),
        (str(PROGRAMS / "dies.py"), [], 1, "program-failed", ["ModuleNotFoundError"]),
        (str(PROGRAMS / "connect.py"), [], 4, "unsupported-session", ["Spark Connect"]),
    ],
)
def test_what_run_refuses_info_refuses(
    flinkish: Flinkish,
    source: str,
    program: str,
    arguments: list[str],
    code: int,
    id_: str,
    words: list[str],
) -> None:
    result = _info(flinkish, "--json", program, source, *arguments)
    assert result.code == code, result.err
    error = result.error()
    assert (error["id"], error["code"]) == (id_, code)
    for word in words:
        assert word in error["message"]


@pytest.mark.deep
def test_a_program_without_queries(flinkish: Flinkish) -> None:
    result = _info(flinkish, "--json", str(PROGRAMS / "no_query.py"))
    assert (result.code, result.json()["queries"]) == (0, [])
