"""State of built-in operators evolves on the way to another Spark, and rescales with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.driver.pairs_between import cases

CHECKOUT = Path(__file__).parents[2]


def run(python: str, step: str, direction: str, directory: Path) -> None:
    """Save or evolve with the Spark of a Python; an older one has what it needs beside it."""
    beside = Path(python).parents[1] / "for-tests"
    path = [str(CHECKOUT), *([str(beside)] if beside.is_dir() else [])]
    done = subprocess.run(
        [python, "-m", "tests.support.driver.pairs_between", step, direction, str(directory)],
        cwd=CHECKOUT,
        env={**os.environ, "PYSPARK_PYTHON": python, "PYTHONPATH": os.pathsep.join(path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=3500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.matrix
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("upwards", [True, False])
def test_state_evolves_between_sparks(tmp_path: Path, upwards: bool) -> None:
    older = os.environ.get("FLINKISH_SPARK35_PYTHON")
    if not older:
        pytest.skip("needs FLINKISH_SPARK35_PYTHON: run this through make test-matrix")
    before, after = (older, sys.executable) if upwards else (sys.executable, older)
    direction = "up" if upwards else "down"
    run(before, "save", direction, tmp_path)
    run(after, "evolve", direction, tmp_path)
    found = json.loads((tmp_path / "results.json").read_text())
    assert found.keys() == cases(direction).keys()
    wrong = {name: rest for name, (right, *rest) in found.items() if not right}
    assert wrong == {}
