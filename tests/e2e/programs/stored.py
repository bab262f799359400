"""A user's program with two kinds of state: counts by key, and pairs of rows of a join.

Usage: stored.py INPUT OUTPUT [--now]. A file OUTPUT/<query>/hold holds a query up.
"""

import json
import os
import sys
import time

from pyspark.sql import SparkSession

STORES = "org.apache.spark.sql.execution.streaming.state"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"

source, out = sys.argv[1:3]
spark = SparkSession.builder.appName("stored").getOrCreate()
spark.sparkContext.setLogLevel("WARN")


def rows():
    lines = spark.readStream.schema("id long, k int, j int").option("maxFilesPerTrigger", 1)
    return lines.json(source)


def start(name, frame, mode):
    def write(batch, number):
        """One file a batch: written again, it is the same."""
        os.makedirs(f"{out}/{name}", exist_ok=True)
        while os.path.exists(f"{out}/{name}/hold"):
            time.sleep(0.1)
        found = sorted(list(row) for row in batch.collect())
        with open(f"{out}/{name}/.{number}", "w") as file:
            json.dump(found, file)
        os.rename(f"{out}/{name}/.{number}", f"{out}/{name}/{number}.json")

    writer = frame.writeStream.queryName(name).outputMode(mode).foreachBatch(write)
    if "--now" in sys.argv:
        writer = writer.trigger(availableNow=True)
    return writer.start()


spark.conf.set(PROVIDER, f"{STORES}.HDFSBackedStateStoreProvider")
start("counts", rows().groupBy("k").count(), "update")

spark.conf.set(PROVIDER, f"{STORES}.RocksDBStateStoreProvider")
# Spark 4.1 and later: one store with the schemas of its column families in files of their own.
spark.conf.set("spark.sql.streaming.join.stateFormatVersion", "3")
left, right = rows(), rows().selectExpr("id as id2", "j")
start("pairs", left.join(right, "j").select("id", "id2"), "append")

for query in spark.streams.active:
    query.awaitTermination()
