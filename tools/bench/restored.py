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
    checkpoint = directory / "checkpoint"
    with handover.fed(directory) as source:
        driver = handover.submit(source, checkpoint)
        try:
            handover.until_busy(checkpoint)
            Path(f"{checkpoint}.stop").touch()
            handover.until(Path(f"{checkpoint}.stopped").exists)
        finally:
            handover.end(driver)
    last = handover.commits(checkpoint)[-1]
    (source / "999999.json").write_text('{"start": 0, "end": 10}\n')
    times: dict[str, list[float]] = {"spark-submit": [], "run -s": []}
    for number in range(runs):
        copy = directory / f"plain-{number}"
        shutil.copytree(checkpoint, copy)
        began = time.time()
        plain = handover.submit(source, copy)
        try:
            times["spark-submit"].append(_first(copy, last) - began)
        finally:
            handover.end(plain)
        times["run -s"].append(_with_flinkish(directory, checkpoint, source, last))
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
        *("-s", str(checkpoint), program, str(source)),
    )
    try:
        place = directory / "state" / "flinkish" / "checkpoints" / job / "counts"
        return _first(place, last) - began
    finally:
        flinkish("cancel", job)


def _first(checkpoint: Path, last: int) -> float:
    """When the first batch after ``last`` was committed."""
    handover.until(lambda: handover.commits(checkpoint)[-1] > last)
    return handover.committed(checkpoint, min(n for n in handover.commits(checkpoint) if n > last))
