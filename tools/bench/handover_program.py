"""A program that counts keys: ``handover_program.py INPUT [CHECKPOINT]``.

With a checkpoint it is a plain Spark program, which stops its query when ``CHECKPOINT.stop`` is
there, as programs do that have no flinkish.
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


def main(source: str, checkpoint: str | None = None) -> None:
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    ranges = spark.readStream.schema("start long, end long").json(source)
    writer = (
        ranges.selectExpr("explode(sequence(start, end - 1)) key")
        .groupBy("key")
        .count()
        .writeStream.queryName("counts")
        .outputMode("update")
        .format("noop")
    )
    if checkpoint is None:
        writer.start().awaitTermination()
        return
    query = writer.option("checkpointLocation", checkpoint).start()
    while query.isActive:
        time.sleep(0.02)
        if Path(f"{checkpoint}.stop").exists():
            query.stop()
            Path(f"{checkpoint}.stopped").touch()


if __name__ == "__main__":
    main(*sys.argv[1:])
