"""A user's program on ten numbers a batch: how many have each remainder by 7, a file a batch.

Usage: counted.py OUTPUT
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()


def write(frame, batch):
    counts = {row.k: row["count"] for row in frame.collect()}
    Path(sys.argv[1], f"{batch}.new").write_text(json.dumps(counts))
    Path(sys.argv[1], f"{batch}.new").rename(Path(sys.argv[1], f"{batch}.json"))


query = (
    rows.selectExpr("value % 7 as k")
    .groupBy("k")
    .count()
    .writeStream.queryName("counted")
    .outputMode("complete")
    .foreachBatch(write)
    .trigger(processingTime="500 milliseconds")
    .start()
)
query.awaitTermination()
