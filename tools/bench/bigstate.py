"""A driver that makes a RocksDB state of many bytes: ``bigstate.py DIRECTORY ROWS BATCHES``.

A query counts and keeps a value of 1 kB a key, which does not compress. Its input are files that
name ranges of keys; those that are there are read, one a batch, and the driver ends. Called again
with 0 rows it runs one more batch, of which no row reaches the state.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}
# 16 digests of 64 hexadecimal digits.
VALUE = "concat_ws('', transform(sequence(1, 16), i -> sha2(concat(key, '-', i), 256)))"


def write_input(directory: Path, rows: int, batches: int) -> None:
    """Add the files of the batches: each names a range of keys from a start to before an end."""
    directory.mkdir(parents=True, exist_ok=True)
    number = len(list(directory.iterdir()))
    for batch in range(max(1, batches)):
        start, end = rows * batch // batches, rows * (batch + 1) // batches
        path = directory / f"{number + batch:05}.json"
        path.write_text(json.dumps({"start": start, "end": end}) + "\n")


def main(directory: Path, rows: int, batches: int) -> None:
    write_input(directory / "input", rows, batches)
    builder = SparkSession.builder.master("local[2]").appName("bigstate")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    ranges = (
        spark.readStream.schema("start long, end long")
        .option("maxFilesPerTrigger", 1)
        .json(str(directory / "input"))
    )
    keys = ranges.where("end > start").select(F.expr("explode(sequence(start, end - 1)) key"))
    query = (
        keys.withColumn("value", F.expr(VALUE))
        .groupBy("key")
        .agg(F.first("value").alias("value"), F.count("*").alias("n"))
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .format("noop")
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
