"""A driver on a cluster that rewrites a checkpoint: ``MASTER SOURCE TARGET PARTITIONS``.

Prints the digests of the rows as JSON, and on how many executors tasks ran.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from pyspark.sql import SparkSession

from flinkish.engine.directories import LocalDirectory
from flinkish.engine.planning import TargetState
from flinkish.engine.rewrite import rewrite_checkpoint


def executor_of(_: int) -> str:
    """The executor that a task runs on, by the parent of its worker."""
    return os.environ.get("SPARK_EXECUTOR_DIRS", "") or str(os.getppid())


def main(master: str, source: str, target: str, partitions: int) -> None:
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
        LocalDirectory(target),
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
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
