"""Save a running query, delete it, resume it elsewhere on real Spark: not one row may differ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.checkpoints.streaming_queries import CASES, CUT

REPOSITORY = Path(__file__).parent.parent.parent


#: One of each backend and of each kind of file; the rest runs in the slow matrix.
REGULAR = (
    "hdfs/join",
    "rocksdb/agg",
    "rocksdb/tws",
    "changelog/join3",
    "ids/dedup",
)


def run_cases(work: Path, cases: list[str]) -> dict[str, Any]:
    """Run cases in one JVM of their own."""
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.support.checkpoints.streaming_queries",
            "roundtrip",
            str(work),
            *cases,
        ],
        cwd=REPOSITORY,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    path = work / "results.json"
    assert path.exists(), run.stdout[-2000:] + run.stderr[-4000:]
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


@pytest.fixture(scope="module")
def regular(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The regular cases, run once."""
    return run_cases(tmp_path_factory.mktemp("roundtrip"), list(REGULAR))


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All other cases, run once."""
    chosen = [case for case in CASES if case not in REGULAR]
    return run_cases(tmp_path_factory.mktemp("roundtrip"), chosen)


@pytest.mark.spark
@pytest.mark.timeout(900)  # the first test waits for all cases
@pytest.mark.parametrize("case", REGULAR)
def test_resumed_output_equals_the_uninterrupted_run(regular: dict[str, Any], case: str) -> None:
    check(regular, case)


@pytest.mark.spark
@pytest.mark.matrix
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", [case for case in CASES if case not in REGULAR])
def test_so_it_does_for_all_others(others: dict[str, Any], case: str) -> None:
    check(others, case)


def check(results: dict[str, Any], case: str) -> None:
    if case not in results:
        pytest.skip(f"Spark {results['spark']} does not have what {case} needs")
    found = results[case]
    assert "error" not in found, found["error"]
    batch, planned = found["batch"], found["planned"]
    assert planned == (batch + 1 if CASES[case] == "planned" else None)
    if planned is not None:
        assert batch == CUT - 1
    expected = {int(n): rows for n, rows in found["whole"].items() if int(n) > batch}
    again = {int(n): rows for n, rows in found["resumed"].items()}
    assert again == expected
    assert any(again.values()), "no output after the savepoint proves nothing"
    assert found["same_query"]
    assert found["format"] == (2 if case.startswith("ids") else 1)
    assert found["copied"] == 0
