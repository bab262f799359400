"""A user's program whose state newer Sparks have in formats that older ones do not read.

Usage: downgraded.py INPUT OUTPUT QUERY... [--now]. The queries: ``counts`` by key, ``pairs`` of
rows of a join, ``lists`` of what each key had (Spark 4.0 and later), ``plain`` without state.
"""

import json
import os
import sys

from pyspark.sql import SparkSession

from flinkish import uid

source, out, *names = sys.argv[1:]
now = "--now" in names
spark = SparkSession.builder.appName("downgraded").getOrCreate()
spark.sparkContext.setLogLevel("WARN")


def rows():
    lines = spark.readStream.schema("id long, k int, j int").option("maxFilesPerTrigger", 1)
    return lines.json(source)


def counts():
    return rows().groupBy("k").count().transform(uid("counts")), "update"


def pairs():
    left, right = rows(), rows().selectExpr("id as id2", "j")
    return left.join(right, "j").transform(uid("pairs")).select("id", "id2"), "append"


def plain():
    return rows().select("id"), "append"


def lists():
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor

    class Collect(StatefulProcessor):
        def init(self, handle):
            self.ids = handle.getListState("ids", "id long")

        def handleInputRows(self, key, frames, timers):
            for frame in frames:
                for value in frame["id"]:
                    self.ids.appendValue((int(value),))
            found = sorted(row[0] for row in self.ids.get())
            yield pd.DataFrame({"k": [key[0]], "ids": [json.dumps(found)]})

        def close(self):
            pass

    grouped = rows().groupBy("k")
    schema = "k int, ids string"
    made = grouped.transformWithStateInPandas(Collect(), schema, "append", "None")
    return made.transform(uid("lists")), "append"


def start(name, frame, mode):
    def write(batch, number):
        """One file a batch: written again, it is the same."""
        os.makedirs(f"{out}/{name}", exist_ok=True)
        found = sorted(list(row) for row in batch.collect())
        with open(f"{out}/{name}/.{number}", "w") as file:
            json.dump(found, file)
        os.rename(f"{out}/{name}/.{number}", f"{out}/{name}/{number}.json")

    writer = frame.writeStream.queryName(name).outputMode(mode).foreachBatch(write)
    if now:
        writer = writer.trigger(availableNow=True)
    return writer.start()


for make in (plain, counts, pairs, lists):
    if make.__name__ in names:
        start(make.__name__, *make())
for query in spark.streams.active:
    query.awaitTermination()
