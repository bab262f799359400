"""From ``run -s`` to the first committed batch, beside plain Spark on its own checkpoint."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tools.bench import handover, handover_program


def measure(directory: Path, runs: int) -> dict[str, list[float]]:
    """Time both in turn; each starts from a copy of one stopped checkpoint, with a new file."""
    checkpoints = directory / "checkpoints"
    (query,) = handover_program.names(1)
    with handover.fed(directory, handover.Job().rows) as source:
        driver = handover.submit(source, checkpoints)
        try:
            handover.until_busy([checkpoints / query])
            Path(f"{checkpoints}.stop").touch()
            handover.until(Path(f"{checkpoints}.stopped").exists)
        finally:
            handover.end(driver)
    last = handover.commits(checkpoints / query)[-1]
    (source / "999999.json").write_text('{"start": 0, "end": 10}\n')
    times: dict[str, list[float]] = {"spark-submit": [], "run -s": []}
    for number in range(runs):
        copy = directory / f"plain-{number}"
        shutil.copytree(checkpoints, copy)
        began = time.time()
        plain = handover.submit(source, copy)
        try:
            times["spark-submit"].append(_first(copy / query, last) - began)
        finally:
            handover.end(plain)
        times["run -s"].append(_with_flinkish(directory, checkpoints / query, source, last))
    return times


def _with_flinkish(directory: Path, checkpoint: Path, source: Path, last: int) -> float:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FLINKISH_")}
    environment["XDG_STATE_HOME"] = str(directory / "state")

    def flinkish(*words: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "flinkish", *words],
            stdout=subprocess.PIPE,
            env=environment,
            cwd=directory,
            check=True,
            text=True,
        ).stdout.strip()

    conf = [w for k, v in handover_program.SETTINGS.items() for w in ("--conf", f"{k}={v}")]
    program = str(handover.PROGRAM)
    began = time.time()
    job = flinkish(
        *("run", "-d", "-q", "--master", "local[2]", *conf),
        *("-s", str(checkpoint), program, str(source), "1"),
    )
    try:
        place = directory / "state" / "flinkish" / "checkpoints" / job / checkpoint.name
        return _first(place, last) - began
    finally:
        flinkish("cancel", job)


def _first(checkpoint: Path, last: int) -> float:
    """When the first batch after ``last`` was committed."""
    handover.until(lambda: handover.commits(checkpoint)[-1] > last)
    return handover.committed(checkpoint, min(n for n in handover.commits(checkpoint) if n > last))
