"""Counts each id once, by key: ``dead.py INPUT OUTPUT [--now] [--again]``.

With ``--again`` there is one more stateful operator, so that the others stand elsewhere.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from flinkish import uid

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("WARN")


def write(frame, batch):
    frame.coalesce(1).write.mode("overwrite").parquet(f"{sys.argv[2]}/batch={batch}")


lines = spark.readStream.schema("id long, k int").option("maxFilesPerTrigger", 2)
rows = lines.json(sys.argv[1]).transform(uid("lines"))
rows = rows.dropDuplicates(["id"]).transform(uid("seen"))
if "--again" in sys.argv:
    rows = rows.dropDuplicates(["id", "k"]).transform(uid("again"))
counts = rows.groupBy("k").count().transform(uid("counts"))
writer = counts.writeStream.queryName("counts").outputMode("update").foreachBatch(write)
if "--now" in sys.argv:
    writer = writer.trigger(availableNow=True)
writer.start().awaitTermination()
