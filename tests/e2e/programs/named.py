"""Two queries, most operators with uids; ``app.py INPUT [MODE]``. Modes: all, same, empty, die."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flinkish import uid

source, mode = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("id long, k int, ts timestamp").json(source)
events = events.transform(uid("events")).withWatermark("ts", "1 minute").transform(uid("time"))
distinct = events.dropDuplicates(["id", "ts"])
if mode in ("all", "same"):
    distinct = distinct.transform(uid("distinct"))
counts = distinct.groupBy(F.window("ts", "1 minute"), "k").count()
counts = counts.transform(uid({"same": "distinct", "empty": ""}.get(mode, "counts")))
query = counts.writeStream.format("console").queryName("per-minute").start()
assert not query.isActive
assert query.lastProgress is None
assert query.exception() is None
writer = events.writeStream.foreachBatch(lambda df, number: df.count())  # type: ignore[arg-type]
if mode == "all":
    writer = writer.queryName("raw")
other = writer.start()
print("a line of the program's own")
query.awaitTermination()
spark.streams.awaitAnyTermination()
assert other.awaitTermination(5) is True
if mode == "die":
    raise ValueError("on purpose")
spark.stop()
