"""Savepoints whose state an older Spark cannot read: the restore rewrites it, down and up again.

The input is what the rows are, and what must come of them is worked out in Python.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.support import venvs
from tests.support.cli.command import LIGHT, PROGRAMS, Flinkish

pytestmark = [pytest.mark.spark, pytest.mark.matrix, pytest.mark.timeout(1800)]

PROGRAM = "downgraded.py"
#: What the newest Spark is told, so that its state is in its newest formats.
NEWEST = (
    "--conf=spark.sql.streaming.stateStore.providerClass="
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "--conf=spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled=true",
    "--conf=spark.sql.streaming.stateStore.checkpointFormatVersion=2",
    "--conf=spark.sql.streaming.join.stateFormatVersion=4",
)
KEPT = NEWEST[:2]


def write_input(source: Path, numbers: range) -> None:
    """A file a batch: each key has several ids, and each pair of files many pairs of them."""
    source.mkdir(exist_ok=True)
    for number in numbers:
        hidden, path = source / f".{number}.json", source / f"{number}.json"
        rows = [{"id": number * 10 + i, "k": i % 3, "j": (number + i) % 8} for i in range(10)]
        hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(hidden, (1_700_000_000 + number,) * 2)
        hidden.rename(path)


def expected(source: Path) -> dict[str, Any]:
    """What each query has to have put out in the end."""
    lines = [line for path in source.glob("*.json") for line in path.read_text().splitlines()]
    rows = [json.loads(line) for line in lines]
    ids = defaultdict(list)
    for row in rows:
        ids[row["k"]].append(row["id"])
    return {
        "plain": Counter((row["id"],) for row in rows),
        "counts": dict(Counter(row["k"] for row in rows)),
        "pairs": Counter((a["id"], b["id"]) for a in rows for b in rows if a["j"] == b["j"]),
        "lists": {k: sorted(found) for k, found in ids.items()},
    }


def found(out: Path, name: str) -> Any:
    """What a query has put out: the newest of each key, or all pairs."""
    files = sorted((out / name).glob("*.json"), key=lambda path: int(path.stem))
    rows = [row for path in files for row in json.loads(path.read_text())]
    if name in ("plain", "pairs"):
        return Counter(tuple(row) for row in rows)
    newest = dict(rows)
    return {k: json.loads(v) for k, v in newest.items()} if name == "lists" else newest


@pytest.mark.parametrize(
    ("spark", "format"),
    [
        *[
            (spark, form)
            for spark in ("4.1.4", "4.0.5", "3.5.9")
            for form in ("native", "canonical")
        ],
        ("4.2.1", "native"),
    ],
)
def test_down_and_up_again(flinkish: Flinkish, tmp_path: Path, spark: str, format: str) -> None:
    queries = ["plain", "counts", "pairs", *(["lists"] if spark > "4" else [])]
    source, out = tmp_path / "in", tmp_path / "out"
    words = (str(source), str(out), *queries)
    write_input(source, range(3))
    job = flinkish.run(PROGRAM, *words, options=NEWEST)
    flinkish.wait_for_batch(job, 2)
    target = str(tmp_path / "sp")
    stop = ("stop", "-q", "-p", target, "-type", format, job)
    path = flinkish.ok(*stop).out.strip()

    write_input(source, range(3, 5))
    python = venvs.interpreter(spark)
    down: tuple[str, ...] = ("-pyexec", python, *KEPT)
    if spark == "4.2.1":  # where it has to be allowed; nothing is rewritten
        down = (*down, "--conf=spark.sql.streaming.join.stateFormatV4.enabled=true")
    python_path = venvs.engine_packages(spark)
    check = ("-m", "local[2]", *LIGHT, *down, "-s", path, str(PROGRAMS / PROGRAM), *words)
    plan = flinkish.ok("check", "--json", *check, PYTHONPATH=python_path).json()
    verdicts = {op["uid"]: op["verdict"] for op in plan["operators"]}
    assert verdicts["pairs"] == ("as-is" if spark == "4.2.1" else "migrate"), plan
    flinkish.environ["PYTHONPATH"] = python_path
    older = flinkish.run(PROGRAM, *words, options=(*down, "-s", path))
    flinkish.wait_for_batch(older, 4)
    assert flinkish.job(older)["spark_version"] == spark
    # Queries with transformWithState take their time to end on 4.0.
    stopped = flinkish("stop", "-q", "-p", target, "--timeout", "300", older, timeout=330)
    assert stopped.code == 0, stopped
    again = stopped.out.strip()
    del flinkish.environ["PYTHONPATH"]
    assert {name: found(out, name) for name in queries} == {
        name: value for name, value in expected(source).items() if name in queries
    }

    write_input(source, range(5, 7))
    newest = flinkish.run(PROGRAM, *words, "--now", options=(*KEPT, "-s", again))
    flinkish.wait(newest, lambda r: r["state"] in ("FINISHED", "FAILED"))
    assert flinkish.job(newest)["state"] == "FINISHED"
    assert {name: found(out, name) for name in queries} == {
        name: value for name, value in expected(source).items() if name in queries
    }


def test_without_the_engine_it_says_what_is_missing(flinkish: Flinkish, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    words = (str(source), str(out), "counts", "pairs")
    write_input(source, range(2))
    job = flinkish.run(PROGRAM, *words, options=NEWEST)
    flinkish.wait_for_batch(job, 1)
    path = flinkish.ok("stop", "-q", "-p", str(tmp_path / "sp"), job).out.strip()
    options = ("-d", "-m", "local[2]", *LIGHT, "-pyexec", venvs.interpreter("3.5.9"), "-s", path)
    refused = flinkish("run", *options, "--json", str(PROGRAMS / PROGRAM), *words)
    assert refused.code == 4, refused
    message = refused.error()["message"]
    assert "checkpoint format 2 becomes 1" in message
    assert "flinkish[engine]" in message
