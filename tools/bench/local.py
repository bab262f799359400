"""A local savepoint of many files, as a multiple of ``cp -al`` of the same directory.

``cp`` links old versions and sidecars too, and computes no digests.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from flinkish.savepoint.format.contents import QuerySource, SavepointJob
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.writer import write_savepoint
from tests.support.checkpoints.handwritten import CheckpointLikeness
from tools.bench.measure import alternate, show

JOB = SavepointJob("0123456789abcdef0123456789abcdef", "bench", spark_version="4.3.0")


def savepoint(directory: Path, files: int) -> dict[str, list[float]]:
    """The seconds of a savepoint of an HDFS-backed checkpoint, and of ``cp``'s hard links."""
    checkpoint = directory / "checkpoint"
    # Two deltas and a snapshot a partition belong to the cut; each has a sidecar.
    CheckpointLikeness(checkpoint, partitions=max(1, files // 3)).run_to(4)
    present = sum(len(names) for _, _, names in os.walk(checkpoint))
    target, copies = directory / "savepoints", directory / "copies"
    copies.mkdir()
    written = []

    def take() -> None:
        query = QuerySource("query", str(checkpoint))
        written.append(
            write_savepoint(
                str(target), JOB, [query], trigger="savepoint", reporter=SilentSavepointReporter()
            )
        )

    def copy() -> None:
        name = copies / str(len(list(copies.iterdir())))
        subprocess.run(["cp", "-al", str(checkpoint), str(name)], check=True)

    times = alternate({"cp -al": copy, "savepoint": take}, 5)
    show(f"checkpoint with {present:,} files, sidecars included", times, "cp -al")
    best = min(times["savepoint"])
    info = written[-1]
    print(
        f"  the savepoint holds {info.files:,} files ({info.moved_bytes:,} bytes copied), "
        f"all with digests: {info.files / best:,.0f} files/s"
    )
    return times
