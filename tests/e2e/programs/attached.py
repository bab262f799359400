"""A program that attaches itself: counts ten numbers a batch by remainder, a file a batch.

Usage: attached.py CHECKPOINT OUTPUT [--fail]
"""

import json
import sys
from pathlib import Path

import flinkish

flinkish.attach()

from pyspark.sql import SparkSession  # noqa: E402 - as its first line is the promise

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("WARN")
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()


def write(frame, batch):
    if "--fail" in sys.argv and batch == 1:
        raise ValueError("as was asked for")
    counts = {row.k: row["count"] for row in frame.collect()}
    Path(sys.argv[2], f"{batch}.new").write_text(json.dumps(counts))
    Path(sys.argv[2], f"{batch}.new").rename(Path(sys.argv[2], f"{batch}.json"))


query = (
    rows.selectExpr("value % 7 as k")
    .groupBy("k")
    .count()
    .writeStream.queryName("counted")
    .outputMode("complete")
    .foreachBatch(write)
    .trigger(processingTime="500 milliseconds")
    .option("checkpointLocation", sys.argv[1])
    .start()
)
query.awaitTermination()
