"""Checkpoints of any number of files, made without a JVM, of hard links to a few files."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.checkpoints.handwritten import LZ4_END, CheckpointLikeness, noise, sidecar

PARTITIONS = 200
#: ext4 allows 65,000 names a file; a savepoint takes another one of each.
_NAMES = 30_000


def many_files(root: Path, files: int, *, deltas: int, size: int = 1000) -> Path:
    """A checkpoint whose cut has ``files`` state files (rounded up), as of an HDFS-backed store.

    Operators of 200 partitions of ``deltas`` files each, with Hadoop's sidecars beside them; the
    cut has four to six files of logs besides.
    """
    operators = max(1, -(-files // (PARTITIONS * deltas)))
    likeness = CheckpointLikeness(root, partitions=PARTITIONS, operators=operators)
    batch = deltas - 1
    for number in (batch - 1, batch):
        likeness.plan(number)
        likeness.commit(number)
    for number in range(batch - 1):
        likeness.write(f"sources/0/{number}", (root / "sources/0" / str(batch)).read_bytes())
    data = noise(size, LZ4_END)
    made = 0
    original, sums = root / ".original", root / ".sums"
    for operator in range(operators):
        for partition in range(PARTITIONS):
            directory = root / "state" / str(operator) / str(partition)
            directory.mkdir(parents=True)
            for version in range(1, deltas + 1):
                if made % _NAMES == 0:
                    for path, content in ((original, data), (sums, sidecar(data))):
                        path.unlink(missing_ok=True)
                        path.write_bytes(content)
                os.link(original, f"{directory}/{version}.delta")
                os.link(sums, f"{directory}/.{version}.delta.crc")
                made += 1
    original.unlink()
    sums.unlink()
    return root
