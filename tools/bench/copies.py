"""A savepoint to another file system beside ``cp`` of the needed files, and a second one after it.

Between the two savepoints one percent of the state's keys is written again by Spark.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from flinkish.checkpoint.cut import read_cut
from tests.support.checkpoints.many_files import PARTITIONS, many_files
from tools.bench.measure import ROOT, in_child, output_of

_ROW = 1100


def beside_cp(directory: Path, other: Path, size: int, runs: int) -> dict[str, list[float]]:
    """Seconds of a savepoint of ``size`` bytes in 200 partitions, and of ``cp`` of its files."""
    deltas = 10
    files = PARTITIONS * deltas
    checkpoint = many_files(directory / "wide", files, deltas=deltas, size=max(1, size // files))
    paths = "\0".join(read_cut(str(checkpoint)).files)
    times: dict[str, list[float]] = {"cp": [], "savepoint": []}
    for _ in range(runs):
        with tempfile.TemporaryDirectory(prefix="flinkish-bench-", dir=other) as target:
            started = time.perf_counter()
            subprocess.run(
                ["xargs", "-0", "cp", "--parents", "-t", target],
                input=paths.encode(),
                cwd=checkpoint,
                check=True,
            )
            times["cp"].append(time.perf_counter() - started)
        with tempfile.TemporaryDirectory(prefix="flinkish-bench-", dir=other) as target:
            # The start of its process counts, as that of cp does.
            started = time.perf_counter()
            in_child("savepoint", checkpoint=str(checkpoint), target=target)
            times["savepoint"].append(time.perf_counter() - started)
    return times


def second(directory: Path, other: Path, size: int) -> tuple[float, float]:
    """The bytes moved and the time of a second savepoint, as parts of those of the first."""
    rows = max(100, size // _ROW)
    place = directory / "changed"
    _run_query(place, rows)
    with tempfile.TemporaryDirectory(prefix="flinkish-bench-", dir=other) as target:
        checkpoint = str(place / "checkpoint")
        first = in_child("savepoint", checkpoint=checkpoint, target=target)
        _run_query(place, rows // 100)
        again = in_child("savepoint", checkpoint=checkpoint, target=target)
    return again["moved_bytes"] / first["moved_bytes"], again["seconds"] / first["seconds"]


def _run_query(place: Path, rows: int) -> None:
    # A range begins at 0: the keys of a smaller one are there already, and are written again.
    output_of(
        [sys.executable, "-m", "tools.bench.bigstate", str(place), str(rows), "1"],
        os.environ,
        ROOT,
    )
