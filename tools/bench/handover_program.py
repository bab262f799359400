"""A program that counts keys: ``handover_program.py INPUT QUERIES [CHECKPOINTS]``.

It runs ``QUERIES`` equal queries. With a directory for their checkpoints it is a plain Spark
program, which stops its queries when ``CHECKPOINTS.stop`` is there, as programs do that have no
flinkish.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


def names(queries: int) -> list[str]:
    """Return the names of the queries, which are those of their checkpoints too."""
    return [f"counts{number}" for number in range(queries)]


def main(source: str, queries: str, checkpoints: str | None = None) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    ranges = spark.readStream.schema("start long, end long").json(source)
    counts = ranges.selectExpr("explode(sequence(start, end - 1)) key").groupBy("key").count()
    started = []
    for name in names(int(queries)):
        writer = counts.writeStream.queryName(name).outputMode("update").format("noop")
        if checkpoints is not None:
            writer = writer.option("checkpointLocation", f"{checkpoints}/{name}")
        started.append(writer.start())
    if checkpoints is None:
        spark.streams.awaitAnyTermination()
        return
    while all(query.isActive for query in started):
        time.sleep(0.02)
        if Path(f"{checkpoints}.stop").exists():
            for query in started:
                query.stop()
            Path(f"{checkpoints}.stopped").touch()


if __name__ == "__main__":
    main(*sys.argv[1:])
