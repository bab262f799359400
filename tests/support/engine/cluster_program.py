"""A driver on a cluster that rewrites a checkpoint: ``MASTER SOURCE TARGET PARTITIONS [MARKER]``.

Prints the digests of the rows as JSON, and on how many executors tasks ran. With a MARKER, a file
that is not there, the first worker that writes dies in the middle of a file.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from typing import Any, BinaryIO

from pyspark.sql import SparkSession

from flinkish.engine.migration.checkpoint_migration import rewrite_checkpoint
from flinkish.engine.migration.migration_planner import TargetState
from flinkish.engine.stores.files import LocalDirectory


def executor_of(_: int) -> str:
    """The executor that a task runs on, by the parent of its worker."""
    return os.environ.get("SPARK_EXECUTOR_DIRS", "") or str(os.getppid())


@dataclass(frozen=True)
class DeadlyDirectory(LocalDirectory):
    """A directory in which whoever creates the first file of a partition's state is killed."""

    marker: str

    def create(self, path: str) -> BinaryIO:
        """See :meth:`LocalDirectory.create`."""
        file = super().create(path)
        if path.startswith("_attempts"):
            try:
                os.close(os.open(self.marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return file
            file.write(b"half a file")
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        return file


def main(master: str, source: str, target: str, partitions: int, marker: str | None) -> None:
    builder = SparkSession.builder.master(master).appName("clustered")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.cores.max": "4",
        "spark.executor.cores": "2",
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    done: list[tuple[int, int]] = []

    def progress(rows: int, size: int) -> None:
        done.append((rows, size))

    result = rewrite_checkpoint(
        spark.sparkContext,
        LocalDirectory(source),
        LocalDirectory(target) if marker is None else DeadlyDirectory(target, marker),
        TargetState(partitions=partitions),
        progress=progress,
    )
    places = spark.sparkContext.parallelize(range(16), 16).map(executor_of).distinct().count()
    found: dict[str, Any] = {
        "operators": {op.ordinal: op.digest.to_json() for op in result.operators},
        "executors": places,
        "progress": done[-1],
    }
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    url, old, new, count, *rest = sys.argv[1:]
    main(url, old, new, int(count), rest[0] if rest else None)
