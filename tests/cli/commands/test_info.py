"""``flinkish info`` without Spark: its options, its output, and drivers that do not answer."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import Command
from tests.support.launcher_fakes import make_spark

OPERATOR: dict[str, Any] = {
    "name": "counts",
    "uid": None,
    "uid_hash": None,
    "operator_id": "0" * 32,
    "operator_id_v2": "1" * 32,
    "operator_id_v3": "0" * 32,
    "kind": "stateStoreSave",
    "stateful": True,
    "ordinal": 0,
    "inputs": [],
    "chained": [True],
    "location": "a.py:3",
    "key_schema": None,
    "value_schema": None,
    "partitions": 2,
    "stores": [
        {
            "name": "default",
            "key_schema": {
                "fields": [
                    {"name": "k", "type": {"type": "array", "elementType": "long"}},
                    {
                        "name": "m",
                        "type": {"type": "map", "keyType": "string", "valueType": "integer"},
                    },
                ]
            },
            "value_schema": {
                "fields": [
                    {
                        "name": "s",
                        "type": {"type": "struct", "fields": [{"name": "a", "type": "date"}]},
                    }
                ]
            },
        }
    ],
}
SOURCE: dict[str, Any] = {
    **OPERATOR,
    "name": "lines",
    "kind": "file source",
    "stateful": False,
    "ordinal": None,
    "location": None,
}
EVERY = [OPERATOR, SOURCE, {**SOURCE, "name": "sink", "kind": "memory sink", "uid": "q"}]
QUERY: dict[str, Any] = {
    "name": "q",
    "operators": [OPERATOR],
    "coverage": {"stateful": 1, "with_uid": 0},
    "notes": ["a note"],
    "tree": ['"counts" (stateful stateStoreSave)'],
    "dot": '  subgraph "cluster q" {\n  }',
    "coverage_message": "0 of 1 stateful operator has a uid",
}


def _driver(cli: Command, script: str) -> None:
    """Make ``spark-submit`` a Python script."""
    path = cli.directory / "driver.py"
    path.write_text("import json, os, sys\n" + script)
    cli.spark_home = cli.directory / "describing"
    make_spark(cli.spark_home, f'exec "{sys.executable}" "{path}" "$@"\n')


def _answers(cli: Command, record: dict[str, Any]) -> None:
    (cli.directory / "record.json").write_text(json.dumps(record))
    _driver(
        cli,
        f"data = open({str(cli.directory / 'record.json')!r}).read()\n"
        f"open({str(cli.directory / 'seen.json')!r}, 'w').write(json.dumps(\n"
        "    [sys.argv[1:], json.load(open(os.environ['FLINKISH_CALL']))['options']]))\n"
        "path = os.environ['FLINKISH_CALL'] + '.answer'\n"
        "open(path + '.new', 'w').write(data)\n"
        "os.replace(path + '.new', path)\n",
    )


def _words(cli: Command, *options: str) -> list[str]:
    return ["info", "--spark-home", str(cli.spark_home), *options, str(cli.program), "-x", "1"]


def test_the_driver_gets_the_program_and_the_configuration(cli: Command) -> None:
    _answers(cli, {"version": 1, "queries": [QUERY], "error": None})
    hasher = "execution.stream-graph-hasher.version"
    cli.ok(*_words(cli, "-p", "3", "-m", "local[9]", "-D", f"{hasher}=v2"))
    words, options = json.loads((cli.directory / "seen.json").read_text())
    assert words[-3:] == [str(cli.program), "-x", "1"]
    assert words[:2] == ["--master", "local[9]"]
    assert "spark.sql.shuffle.partitions=3" in words
    assert options[hasher] == "v2"


def test_text(cli: Command) -> None:
    _answers(cli, {"version": 1, "queries": [QUERY, QUERY], "error": None})
    result = cli.ok(*_words(cli))
    block = [
        "Query q",
        '  "counts" (stateful stateStoreSave)',
        '  state 0: "counts" (stateStoreSave, partitions: 2)',
        "    default: (k array<long>, m map<string, integer>) -> (s struct<a date>)",
    ]
    assert result.out.splitlines() == [*block, "", *block]
    assert "warning: query 'q': a note" in result.err
    assert "warning: query 'q': 0 of 1 stateful operator has a uid" in result.err


def test_json_has_the_contract_and_no_drawing(cli: Command) -> None:
    _answers(cli, {"version": 1, "queries": [QUERY], "error": None})
    result = cli.ok(*_words(cli, "--json"))
    (query,) = result.json()["queries"]
    assert set(query) == {"name", "operators", "coverage", "notes"}
    assert result.err == ""


def test_dot(cli: Command) -> None:
    _answers(cli, {"version": 1, "queries": [QUERY], "error": None})
    assert cli.ok(*_words(cli, "--dot")).out == (
        f"digraph operators {{\n  rankdir=LR;\n{QUERY['dot']}\n}}\n"
    )
    for words in (("--dot", "--json"), ("--svg", "--json"), ("--svg", "--dot")):
        assert cli(*_words(cli, *words)).code == 2


def test_svg(cli: Command) -> None:
    _answers(cli, {"version": 1, "queries": [QUERY], "error": None})
    image = ElementTree.fromstring(cli.ok(*_words(cli, "--svg")).out)
    assert [each.text for each in image.iter("{http://www.w3.org/2000/svg}title")] == [
        f"counts, stateStoreSave, {'0' * 32}, a.py:3"
    ]


COUNTS, LINES = '"counts" (stateStoreSave, a.py:3)', '"lines" (file source)'


@pytest.mark.parametrize(
    ("words", "missing"),
    [
        (["--require-uids"], f"1 stateful operator has no uid: {COUNTS}"),
        (["--require-uids", "-q"], f"1 stateful operator has no uid: {COUNTS}"),
        (["--require-uids", "stateful"], f"1 stateful operator has no uid: {COUNTS}"),
        (["--require-uids=all"], f"2 operators have no uid: {COUNTS}, {LINES}"),
        (["--require-uids", "all"], f"2 operators have no uid: {COUNTS}, {LINES}"),
    ],
)
def test_required_uids(cli: Command, words: list[str], missing: str) -> None:
    _answers(cli, {"version": 1, "queries": [{**QUERY, "operators": EVERY}], "error": None})
    result = cli(*_words(cli, *words))
    assert (result.code, result.out) == (4, "")
    assert missing in result.err
    seen, _ = json.loads((cli.directory / "seen.json").read_text())
    assert seen[-3:] == [str(cli.program), "-x", "1"]


def test_an_operator_with_a_uid_hash_has_what_is_required(cli: Command) -> None:
    operators = [{**OPERATOR, "uid_hash": "2" * 32}, {**SOURCE, "uid": "lines"}]
    query = {**QUERY, "operators": operators, "coverage": {"stateful": 1, "with_uid": 1}}
    _answers(cli, {"version": 1, "queries": [query], "error": None})
    said = cli.ok(*_words(cli, "--require-uids", "all")).err
    assert said.endswith("warning: query 'q': a note\n")
    assert "uid" not in said


def test_other_words_for_required_uids(cli: Command) -> None:
    _answers(cli, {"version": 1, "queries": [QUERY], "error": None})
    refused = cli("info", "--require-uids=some", str(cli.program))
    assert refused.code == 2
    assert "'some' is not one of 'all', 'stateful'" in refused.err


def test_no_query_is_said(cli: Command) -> None:
    _answers(cli, {"version": 1, "queries": [], "error": None})
    result = cli.ok(*_words(cli))
    assert result.out == ""
    assert "no streaming query" in result.err


def test_an_error_of_the_driver_is_ours(cli: Command) -> None:
    error = {"id": "duplicate-uid", "code": 4, "message": "twice", "hint": "once"}
    _answers(cli, {"version": 1, "queries": [], "error": error})
    assert cli(*_words(cli, "--json")).error()["message"] == "twice"


def test_an_answer_that_is_none(cli: Command) -> None:
    _driver(cli, "open(os.environ['FLINKISH_CALL'] + '.answer', 'wb').write(b'\\xff{')\n")
    result = cli(*_words(cli))
    assert result.code == 15, result.err
    assert "not a valid answer" in result.err


def test_a_driver_that_dies_without_an_answer(cli: Command) -> None:
    _driver(cli, "print('the reason', file=sys.stderr); sys.exit(3)\n")
    result = cli(*_words(cli))
    assert result.code == 1
    assert "exited with status 3" in result.err
    assert "the reason" in result.err


def test_debug_shows_the_driver_s_output(cli: Command) -> None:
    _driver(cli, "print('line one\\nline two'); sys.exit(3)\n")
    assert "line one\nline two\n" in cli(*_words(cli, "--debug")).err


def test_nothing_is_left_behind(cli: Command, tmp_path: Path) -> None:
    _answers(cli, {"version": 1, "queries": [QUERY], "error": None})
    before = {n for n in os.listdir("/tmp") if n.startswith("flinkish-info-")}
    cli.ok(*_words(cli))
    assert {n for n in os.listdir("/tmp") if n.startswith("flinkish-info-")} <= before
    assert not (tmp_path / "state/flinkish/registry.db").exists()


@pytest.mark.parametrize("words", [["info"], ["info", "no-such.py"], ["info", "-n", "app.py"]])
def test_wrong_arguments(cli: Command, words: list[str]) -> None:
    assert cli(*words).code == 2
