"""The engine against Spark's own offline repartition, in one session, runs alternating.

The shuffled rescale is what every rescale was before rows were written without one. The memory
is that of the Python worker which had most. It does not grow with the state: what a
worker holds are the pieces of a shuffle, and RocksDB's buffers. So the figure for 50 million rows
in 8 partitions is this one, and said to be calculated, not measured.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from pathlib import Path

from tools.bench.measure import ROOT, machine, output_of

WAYS = ("spark", "rescale", "shuffled", "evolve", "typed")


def measure(
    directory: Path, *, rows: int, runs: int, before: int, after: int
) -> dict[str, list[float]]:
    """Print rows per second of each way, and its ratio to Spark's; return the seconds."""
    command = [sys.executable, "-m", "tools.bench.engine_program", str(directory)]
    command += [str(number) for number in (rows, before, after, runs)]
    output = output_of(command, {**os.environ, "PYSPARK_PYTHON": sys.executable}, ROOT)
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    print(f"{rows:,} rows of RocksDB state, {before} -> {after} partitions, {runs} runs each")
    best = {way: min(x["seconds"] for x in lines if x["way"] == way) for way in WAYS}
    for way in WAYS:
        times = [x["seconds"] for x in lines if x["way"] == way]
        ratio = best["spark"] / best[way]
        how = next(x["how"] for x in lines if x["way"] == way)
        print(
            f"  {way:8} {how:20} best {best[way]:6.1f} s, median {statistics.median(times):6.1f} s "
            f"{rows / best[way]:10,.0f} rows/s  {ratio:5.2f}x of Spark's  {machine()}"
        )
    peak = max(x["peak"] for x in lines)
    print(f"  peak of a Python worker: {peak / 1e6:.0f} MB")
    return {way: [x["seconds"] for x in lines if x["way"] == way] for way in WAYS}
