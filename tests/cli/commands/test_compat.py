"""``flinkish compat``: the table, a row and a pair; for people, in JSON and for scripts."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import product

import pytest

from flinkish.compat import data
from flinkish.compat.model import SPARK
from tests.cli.conftest import ROOT, Command
from tests.support import compat_sample as sample

FLINK = ("compat", "--framework", "flink")
LINES = [*(f"1.{minor}" for minor in range(1, 21)), "2.0", "2.1", "2.2"]


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The small table in the place of Spark's measured one."""
    read = data.read_text
    monkeypatch.setattr(data, "read_text", lambda f: sample.text() if f == SPARK else read(f))
    data.load.cache_clear()
    yield
    data.load.cache_clear()


def test_the_whole_table(cli: Command) -> None:
    result = cli.ok(*FLINK)
    head, *rows = result.out.splitlines()[:24]
    assert head.split() == ["FROM", "\\", "TO", *LINES]
    assert [row.split()[0] for row in rows] == LINES
    assert "".join(rows[1].split()[1:]) == "-OLLLLLLLLLLLLLL----???"
    assert "".join(rows[7].split()[1:]) == "-" * 7 + "O" * 13 + "???"
    assert "O ok, L ok-with-limitations, ? unknown, - fails" in result.out
    assert "Apache Flink documentation" in result.out
    assert "flinkish compat FROM TO --framework flink" in result.out
    assert result.err == ""


def test_the_whole_table_in_json(cli: Command) -> None:
    document = cli.ok(*FLINK, "--json").json()
    assert document["framework"] == "flink"
    assert document["versions"] == LINES
    said = [pair for pair in product(LINES, LINES) if not (pair[0] > "2" and pair[1] > "2")]
    assert [(cell["from"], cell["to"]) for cell in document["cells"]] == said
    pairs = {(pair["from"], pair["to"]): pair["verdict"] for pair in document["pairs"]}
    assert [*pairs] == [*product(LINES, LINES)]
    for cell in document["cells"]:
        assert pairs[cell["from"], cell["to"]] == cell["verdict"]
    names = {limitation["id"] for limitation in document["limitations"]}
    assert {name for cell in document["cells"] for name in cell["limitations"]} == names
    assert [one["id"] for one in document["preconditions"]] == [
        "rocksdb-semi-async",
        "same-absolute-path",
    ]
    assert set(document["cells"][0]) == {"from", "to", "verdict", "limitations"}


def test_a_row(cli: Command) -> None:
    result = cli.ok(*FLINK, "1.5.x")
    assert result.out.splitlines()[1].split() == ["1.5", *"----OLLOOOOOOOOO----???"]
    assert "FLINK-11087" in result.out
    assert "TraversableSerializer" not in result.out
    # A patch number leaves out what does not concern it.
    assert cli.ok(*FLINK, "1.15.2").out.splitlines()[1].split()[-9:-3] == ["O"] * 6
    document = cli.ok(*FLINK, "1.5", "--json").json()
    assert document["from"] == "1.5"
    assert {cell["from"] for cell in document["cells"]} == {"1.5"}
    names = {one["id"] for one in document["limitations"]}
    assert names == {"not-in-table", "broadcast-state", "major-version"}


def test_a_pair(cli: Command) -> None:
    out = cli.ok(*FLINK, "1.2", "v1.8.0").out
    assert out.startswith("flink 1.2 -> 1.8.0: ok-with-limitations\n")
    for words in ("Limitations:", "traversable-serializer", "Advice:", "Preconditions of every"):
        assert words in out
    assert max(map(len, out.splitlines())) <= 100
    assert "broadcast" not in cli.ok(*FLINK, "1.5.2", "1.6.4").out
    assert "broadcast" in cli.ok(*FLINK, "1.5.2", "1.6").out


def test_a_pair_in_json(cli: Command) -> None:
    document = cli.ok("compat", "--json", "--framework=flink", "1.1", "1.8").json()
    assert (document["framework"], document["from"], document["to"]) == ("flink", "1.1", "1.8")
    assert document["verdict"] == "fails"
    (limitation,) = document["limitations"]
    assert set(limitation) == {"id", "text", "advice"}
    assert limitation["id"] == "not-in-table"
    assert document["steps"] == ["1.1", "1.3", "1.8"]
    assert cli.ok(*FLINK, "1.8", "1.9", "--json").json()["steps"] == []


def test_the_way_in_steps_is_said(cli: Command) -> None:
    assert (
        "in steps, with a savepoint at each: 1.1 -> 1.3 -> 1.8" in cli.ok(*FLINK, "1.1", "1.8").out
    )
    assert "steps, with a savepoint" not in cli.ok(*FLINK, "1.8", "1.1").out


@pytest.mark.usefixtures("spark")
def test_spark_s_pair_shows_what_differs(cli: Command) -> None:
    out = cli.ok("compat", "4.3", "4.0").out
    assert out.startswith("spark 4.3 -> 4.0: ok-with-limitations\n")
    assert "Measured 2026-01-02 with 3.5.9, 4.0.5, 4.3.0. Made up." in out
    assert "9 combinations of operator, backend and formats were measured: 5 ok, but:" in out
    rows = [re.split(r" {2,}", line.strip()) for line in out.splitlines() if "rocksdb" in line]
    assert rows == [
        ["checkpoint-v2", "rocksdb", "fails", "new-log", "dedupe"],
        ["join-v4", "rocksdb", "needs-migration", "join-format", "symmetricHashJoin"],
        ["changelog, join-v4", "rocksdb", "fails", "join-format", "symmetricHashJoin"],
    ]
    assert "Spark's errors:\n  v2\n  too new\n" in out
    assert (
        "  join-format\n    The join's state is of another form.\n    Advice: migrate it\n" in out
    )
    assert "were measured: all ok." in cli.ok("compat", "3.5", "4.0").out


@pytest.mark.usefixtures("spark")
def test_spark_s_cells_in_json(cli: Command) -> None:
    document = cli.ok("compat", "4.3", "4.0.1", "--json").json()
    assert (document["from"], document["to"]) == ("4.3", "4.0.1")
    assert document["verdict"] == "ok-with-limitations"
    assert len(document["cells"]) == 9
    assert {
        "from": "4.3",
        "to": "4.0",
        "operator": "symmetricHashJoin",
        "backend": "rocksdb",
        "formats": ["changelog", "join-v4"],
        "verdict": "fails",
        "limitations": ["join-format"],
        "error": None,
    } in document["cells"]
    whole = cli.ok("compat", "--json").json()
    assert whole["versions"] == ["3.5", "4.0", "4.3"]
    assert whole["releases"] == {"3.5": "3.5.9", "4.0": "4.0.5", "4.3": "4.3.0"}
    assert len(whole["cells"]) == len(sample.document()["cells"])
    assert {"from": "4.3", "to": "3.5", "verdict": "ok-with-limitations"} in whole["pairs"]
    assert len(whole["pairs"]) == 9


@pytest.mark.usefixtures("spark")
def test_what_was_not_measured_is_said(cli: Command) -> None:
    out = cli.ok("compat", "3.5.1", "4.0.5").out
    assert "3.5.1 was not measured: the answer is that of 3.5.9." in out
    assert "4.0.5 was not measured" not in out
    evidence = cli.ok("compat", "3.5.1", "4.0.5", "--json").json()["evidence"]
    assert evidence == {
        "from": {"level": "line", "releases": ["3.5.9"]},
        "to": {"level": "measured", "releases": ["4.0.5"]},
    }


@pytest.mark.usefixtures("spark")
def test_spark_is_what_is_asked_for_by_default(cli: Command) -> None:
    rows = [line.split() for line in cli.ok("compat").out.splitlines()[:4]]
    assert rows == [
        ["FROM", "\\", "TO", "3.5", "4.0", "4.3"],
        ["3.5", "O", "O", "?"],
        ["4.0", "?", "O", "L"],
        ["4.3", "L", "L", "O"],
    ]


@pytest.mark.usefixtures("spark")
def test_a_line_that_the_table_has_not_is_unknown(cli: Command) -> None:
    result = cli.ok("compat", "3.5", "9.9.1")
    assert result.out.startswith("spark 3.5 -> 9.9.1: unknown\n")
    assert "The table says nothing about this pair." in result.out
    assert result.err == "the table of spark has no 9.9; it has 3.5, 4.0, 4.3\n"
    result = cli.ok("compat", "3.5", "9.9", "--json")
    assert (result.json()["verdict"], result.err) == ("unknown", "")
    assert cli.ok("compat", "9.9").out.splitlines()[1].split() == ["9.9", "?", "?", "?"]


def test_for_scripts(cli: Command) -> None:
    assert cli.ok(*FLINK, "-q", "1.5.2", "1.6.0").out == "ok-with-limitations\n"
    lines = cli.ok(*FLINK, "-q", "1.17").out.splitlines()
    assert lines[15:18] == ["1.17 1.16 fails", "1.17 1.17 ok", "1.17 1.18 ok"]
    assert len(cli.ok(*FLINK, "-q").out.splitlines()) == len(LINES) ** 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*FLINK, "latest"], "'latest' is not a version of flink"),
        ([*FLINK, ""], "the value is empty"),
        ([*FLINK, "1.8", "spark-3.5.9"], "'spark-3.5.9' is a version of spark, not of flink"),
        ([*FLINK, "1.1", "1.2", "1.3"], "unexpected extra argument"),
        (["compat", "--framework", "storm"], "'storm' is not one of 'spark', 'flink'"),
        (["compat", "--frame", "flink"], "no such option"),
    ],
)
def test_mistakes(cli: Command, words: list[str], message: str) -> None:
    result = cli(*words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err.splitlines()[0]
    assert message in cli(*words, "--json").error()["message"]


def test_a_mistake_says_what_is_known(cli: Command) -> None:
    hint = cli(*FLINK, "latest", "--json").error()["hint"]
    assert "such as 2.2" in hint
    assert ", ".join(LINES) in hint


def test_a_damaged_table_is_an_error_of_one_line(
    cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "read_text", lambda _framework: "{}")
    data.load.cache_clear()
    result = cli("compat")
    data.load.cache_clear()
    assert result.code == 1
    assert result.err.startswith("error: flinkish/compat/data/spark.json: lacks schema_version")
    assert "install" in result.err


def test_versions_are_completed(cli: Command) -> None:
    words = {
        "COMP_WORDS": "flinkish compat --framework flink 1.17 1.1",
        "COMP_CWORD": "5",
        "_FLINKISH_COMPLETE": "bash_complete",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-m", "flinkish"],
        env={**os.environ, **words},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [f"plain,{line}" for line in LINES if line.startswith("1.1")]


def test_what_it_imports_is_light() -> None:
    source = (
        "import sys; from flinkish.cli.entry import main\n"
        "main(['compat', '--framework', 'flink'])\n"
        "heavy = {'pyspark', 'py4j', 'rich', 'fsspec', 'fastavro'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", source], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("no_color", ["", "1"])
def test_on_a_terminal_the_marks_have_colours(no_color: str) -> None:
    parent, child = pty.openpty()
    environ = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "NO_COLOR": no_color}
    command = [sys.executable, "-m", "flinkish", *FLINK]
    with subprocess.Popen(command, stdout=child, env=environ, cwd=ROOT) as process:
        os.close(child)
        shown = b""
        while True:
            try:
                block = os.read(parent, 65536)
            except OSError:  # what Linux says when the other end is closed
                break
            if not block:
                break
            shown += block
    os.close(parent)
    assert process.returncode == 0
    text = shown.decode()
    assert ("\x1b[" in text) == (not no_color)
    rows = [line.split() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()]
    # As wide as it must be, also on a narrow terminal.
    assert rows[0][-1] == LINES[-1]
    assert rows[2] == ["1.2", *"-OLLLLLLLLLLLLLL----???"]


def test_connectors(cli: Command) -> None:
    result = cli.ok("compat", "--connectors")
    assert result.err == ""
    assert max(map(len, result.out.splitlines())) <= 130
    head, first = result.out.splitlines()[:2]
    assert head.split("  ")[0] == "CONNECTOR"
    assert first.split() == [
        "kafka",
        "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7",
        *("3.5", "3.5.9", "ok", "ok"),
    ]
    for words in ("Checkpoints resumed elsewhere:", "NoSuchMethodError", "Measured 20"):
        assert words in result.out


def test_one_connector_from_one_spark_to_another(cli: Command) -> None:
    out = cli.ok("compat", "--connectors", "delta", "3.5", "4.0.1").out
    assert out.splitlines()[1].split() == [
        "delta",
        "3.5.9",
        "+",
        "3.3.2",
        "4.0.5",
        "+",
        "4.0.1",
        "ok",
        "ok",
    ]
    assert "kafka" not in out.partition("Measured")[0]
    document = cli.ok("compat", "--connectors", "delta", "3.5", "4.0", "--json").json()
    assert (document["from"], document["to"]) == ("3.5", "4.0")
    assert {one["role"]: one["verdict"] for one in document["cells"]} == {
        "source": "ok",
        "sink": "ok",
    }
    quiet = cli.ok("compat", "-q", "--connectors", "delta", "3.5", "4.0").out
    assert quiet == (
        "delta io.delta:delta-spark_2.12:3.3.2 3.5.9 io.delta:delta-spark_2.13:4.0.1 4.0.5 ok\n"
    )


def test_connectors_that_are_unknown(cli: Command) -> None:
    result = cli.ok("compat", "--connectors", "iceberg", "2.4", "3.5")
    assert "unknown" in result.out
    assert "has no 2.4" in result.err
    assert "no connector 'pulsar'" in cli("compat", "--connectors", "pulsar").err
    assert "connectors exist for Spark only" in cli(*FLINK, "--connectors", "all").err
