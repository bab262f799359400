"""``state export`` and a canonical savepoint, beside Spark's reader of state writing Parquet.

Each is a program of its own on two cores, of which the start-up counts too.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tools.bench.measure import ROOT, alternate, in_child, output_of

PARTITIONS = 8


def measure(directory: Path, rows: int, runs: int) -> dict[str, list[float]]:
    """Seconds of each way to write all rows of one RocksDB state."""
    checkpoint = str(directory / "checkpoint")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FLINKISH_")}
    environment |= {"XDG_STATE_HOME": str(directory / "state"), "PYSPARK_PYTHON": sys.executable}
    program = [sys.executable, "-m", "tools.bench.reading_program", checkpoint]

    def call(*words: str) -> str:
        return output_of(words, environment, ROOT)

    def flinkish(*words: str) -> str:
        return call(sys.executable, "-m", "flinkish", *words)

    call(*program, "", str(rows), str(PARTITIONS))
    savepoint = in_child("savepoint", checkpoint=checkpoint, target=str(directory / "savepoints"))
    path = savepoint["path"]
    numbers = iter(range(10**6))
    spark = ("--master", "local[2]")

    def new(kind: str) -> str:
        return str(directory / f"{kind}-{next(numbers)}")

    return alternate(
        {
            "statestore": lambda: call(*program, new("spark")),
            "state export": lambda: flinkish("state", "export", path, "0", new("out"), *spark),
            "canonical": lambda: flinkish(
                *("migrate", path, new("canonical"), "--type", "canonical", *spark)
            ),
        },
        runs,
    )
