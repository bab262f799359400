"""A program that does not know flinkish: ``exported.py INPUT OUTPUT CHECKPOINTS [changed]``.

``totals`` are sums by key, of which the changed program keeps the count; ``pairs`` is a join of
rows of the same key within a minute, counted by windows of event time. Both read what is there.
``CHECKPOINTS`` is the directory of their checkpoints, or ``-``.
"""

import json
import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, out, checkpoints, *changed = sys.argv[1:]
spark = SparkSession.builder.appName("exported").getOrCreate()


def rows():
    lines = spark.readStream.schema("id long, k int, t timestamp").option("maxFilesPerTrigger", 1)
    return lines.json(source).withWatermark("t", "1 hour")


def totals():
    count = F.count("*").alias("n")
    aggregates = [count] if changed else [F.max("id").alias("most"), count]
    return rows().groupBy("k").agg(*aggregates).select("k", "n"), "update"


def pairs():
    left = rows().alias("left")
    right = rows().alias("right")
    near = F.expr(
        "left.k = right.k and right.t between left.t - interval 1 minute "
        "and left.t + interval 1 minute"
    )
    both = left.join(right, near).select(F.col("left.t").alias("t"))
    windows = both.groupBy(F.window("t", "5 minutes"))
    return windows.count().select(F.unix_timestamp("window.start"), "count"), "append"


def start(name, frame, mode):
    def write(batch, number):
        """One file a batch: written again, it is the same."""
        os.makedirs(f"{out}/{name}", exist_ok=True)
        with open(f"{out}/{name}/.{number}", "w") as file:
            json.dump(sorted(list(row) for row in batch.collect()), file)
        os.rename(f"{out}/{name}/.{number}", f"{out}/{name}/{number}.json")

    writer = frame.writeStream.queryName(name).outputMode(mode).foreachBatch(write)
    if checkpoints != "-":
        writer = writer.option("checkpointLocation", f"{checkpoints}/{name}")
    writer.trigger(availableNow=True).start().awaitTermination()


start("totals", *totals())
start("pairs", *pairs())
assert checkpoints == "-" or "flinkish" not in sys.modules
