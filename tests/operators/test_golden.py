"""The recorded graphs, and the command that checks a file of them."""

from __future__ import annotations

import copy
import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinkish.operators import golden
from flinkish.operators.graph import OperatorGraph
from flinkish.operators.hasher import hash_v2, hash_v3, user_hashes
from tests.support.operator_graphs import PATH, flip, graphs, recorded


@pytest.mark.parametrize("name", graphs())
def test_v2_is_flinks(name: str) -> None:
    entry = next(e for e in recorded()["graphs"] if e["graph"] == name)
    graph = graphs()[name]
    assert hash_v2(graph) == {n["id"]: n["expected_operator_id"] for n in entry["nodes"]}
    given = {n["id"]: n["expected_user_defined_operator_id"] for n in entry["nodes"]}
    assert user_hashes(graph) == {key: value for key, value in given.items() if value}


@pytest.mark.parametrize("name", graphs())
def test_flipping_any_chainable_flag_changes_v2_and_never_v3(name: str) -> None:
    graph = graphs()[name]
    v2, v3 = hash_v2(graph), hash_v3(graph)
    assert len(set(v3.values())) == len(graph)
    for node in graph:
        for position in range(len(node.out_edges)):
            flipped = flip(graph, node.key, position)
            assert hash_v3(flipped) == v3
            # A uid hides a node's own chains: then no id can change in Flink either.
            assert (hash_v2(flipped) == v2) == (node.uid is not None)


@pytest.mark.parametrize("name", graphs())
def test_v3_is_v2_where_there_is_nothing_to_leave_out(name: str) -> None:
    graph = without_chains_and_uids(graphs()[name])
    assert hash_v3(graph) == hash_v2(graph)


def without_chains_and_uids(graph: OperatorGraph) -> OperatorGraph:
    nodes = (
        replace(n, uid=None, out_edges=tuple(replace(e, chainable=False) for e in n.out_edges))
        for n in graph
    )
    return OperatorGraph(tuple(nodes))


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "flinkish.operators.hasher", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )


def test_command_on_the_recorded_file() -> None:
    done = run(PATH)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "0 of 1555 differ (checked: ids 748, user hashes 748, uids 50, error cases 9)\n"
    )


def test_command_prints_v3_ids() -> None:
    done = run(PATH, "--hasher", "v3")
    assert (done.returncode, done.stderr) == (0, "")
    expected = [
        f"{name} {key} {operator_id}"
        for name, graph in graphs().items()
        for key, operator_id in hash_v3(graph).items()
    ]
    assert done.stdout.splitlines() == expected


def changed_file(tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    data = copy.deepcopy(recorded())
    change(data)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(data))
    return path


def test_v3_does_not_look_at_parallelism_or_partitioners(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        for entry in data["graphs"]:
            for node in entry["nodes"]:
                node["parallelism"] = 17
                for edge in node["out_edges"]:
                    edge.update(partitioner="REBALANCE", chainable=False)

    done = run(changed_file(tmp_path, change), "--hasher", "v3")
    assert done.stdout == run(PATH, "--hasher", "v3").stdout


def test_differences_are_printed_and_counted(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["graphs"][0]["nodes"][1]["expected_operator_id"] = "0" * 32
        data["uids"][3]["operator_id"] = "1" * 32
        data["graphs"][1]["nodes"][0]["out_edges"] = []

    done = run(changed_file(tmp_path, change))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith(f"graph single_source node 6 (a): expected {'0' * 32}, computed 7df")
    assert lines[1].startswith("graph chaining_disabled_globally: expected ids, computed error: ")
    assert lines[2].startswith("uid 'abcdefghijk': expected 1111")
    assert lines[3].startswith("3 of ")


def test_a_wrong_message_differs(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["error_cases"][0]["message"] = "No such thing"

    done = run(changed_file(tmp_path, change))
    assert done.returncode == 1
    assert "error case duplicate_uid, message: expected No such thing" in done.stdout


def test_unknown_fields_sections_and_cases(tmp_path: Path) -> None:
    def change(data: dict[str, Any]) -> None:
        data["measured_on"] = "a quiet machine"
        data["unpaired_surrogate"] = {"uid": "\ud83d", "operator_id": "3cf3b4d80ab7a5c4"}
        data["benchmarks"] = [{"seconds": 3}]
        data["error_cases"].append({"case": "brand_new", "message": "?"})
        data["graphs"][0]["nodes"][0]["slot_sharing_group"] = "default"
        del data["graphs"][0]["source_ids"]

    done = run(changed_file(tmp_path, change))
    # The surrogate's id given here is wrong on purpose: the section was looked at.
    assert done.returncode == 1
    assert "uid '\\ud83d': expected 3cf3b4d80ab7a5c4, computed " in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 of 1556 differ")
    assert done.stderr.splitlines() == [
        "not checked: entry of section benchmarks: {'seconds': 3}",
        "not checked: error case brand_new",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (gzip.compress(b"{}" * 100, mtime=0)[:20], "is not JSON"),
        (gzip.compress(b"{}", mtime=0)[:10] + b"\xff" * 8, "is not JSON"),
        (b"[" * 200_000, "is not JSON"),
        (b"[]", "has no list of graphs or uids"),
        (b'{"graphs": 3, "uids": []}', "has no list of graphs or uids"),
    ],
)
def test_files_that_are_none(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(content)
    done = run(path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_missing_file(tmp_path: Path) -> None:
    done = run(tmp_path / "none.json")
    assert done.returncode == 2
    assert "No such file or directory" in done.stderr


def test_a_file_without_expectations_does_not_pass(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text('{"graphs": []}')
    assert run(path).returncode == 1


def node(**fields: object) -> dict[str, object]:
    return {"graph": "g", "nodes": [{"id": 1, "in_edges": [], "out_edges": [], **fields}]}


@pytest.mark.parametrize(
    "entry",
    [
        *(3, {"graph": "g"}, {"graph": "g", "nodes": [{"id": "x"}]}),
        *(node(id=float("inf")), node(uid=7), node(uid=["a"]), node(uid_hash=7)),
    ],
)
def test_a_broken_graph_differs(entry: object) -> None:
    (found,) = golden.compare_ids({"graphs": [entry]})
    assert not found.equal
    assert found.computed.startswith("error: ")


def test_a_case_whose_ids_are_none_differs() -> None:
    (found,) = golden.compare_ids({"error_cases": [{"case": "uidhash_upper", "ids": [1, "a"]}]})
    assert not found.equal
