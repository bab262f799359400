"""A user's program: counts by key over a folder of JSON files, idempotent parquet sink.

Usage: counts.py INPUT OUTPUT [--now]
"""

import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("counts").getOrCreate()
spark.sparkContext.setLogLevel("WARN")


def write(frame, batch):
    frame.coalesce(1).write.mode("overwrite").parquet(f"{sys.argv[2]}/batch={batch}")


lines = spark.readStream.schema("id long, k int").option("maxFilesPerTrigger", 1).json(sys.argv[1])
writer = (
    lines.groupBy("k")
    .count()
    .writeStream.queryName("counts")
    .outputMode("update")
    .foreachBatch(write)
)
if "--now" in sys.argv:
    writer = writer.trigger(availableNow=True)
writer.start().awaitTermination()
