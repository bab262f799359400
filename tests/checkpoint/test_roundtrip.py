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


def run_cases(work: Path) -> dict[str, Any]:
    """Run all cases in one JVM of their own."""
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.support.checkpoints.streaming_queries",
            "roundtrip",
            str(work),
        ],
        cwd=REPOSITORY,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )
    path = work / "results.json"
    assert path.exists(), run.stdout[-2000:] + run.stderr[-4000:]
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All cases, run once."""
    return run_cases(tmp_path_factory.mktemp("roundtrip"))


@pytest.mark.spark
@pytest.mark.deep
@pytest.mark.timeout(1800)  # the first test waits for all cases
@pytest.mark.parametrize("case", CASES)
def test_resumed_output_equals_the_uninterrupted_run(every: dict[str, Any], case: str) -> None:
    check(every, case)


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
    assert found["moved_bytes"] == 0
