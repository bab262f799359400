"""A user's program whose state has a field more, and a wider one, in its second version.

Usage: evolving.py INPUT OUTPUT v1|v2. Puts out for each key how many rows there were, and (v2) the
newest id before: -1 for keys that have not come since the upgrade.
"""

import sys
from typing import Any

import pandas as pd
from pyspark.sql import SparkSession

NEW = sys.argv[3] == "v2"

spark = SparkSession.builder.appName("evolving").getOrCreate()
spark.sparkContext.setLogLevel("WARN")


def count(key, frames, state):
    seen: Any = state.get if state.exists else ((0, None) if NEW else (0,))
    rows, before = seen[0], seen[1] if NEW else None
    last = before
    for frame in frames:
        rows += len(frame)
        last = int(frame["id"].max())
    state.update((rows, last) if NEW else (rows,))
    yield pd.DataFrame(
        {"k": [key[0]], "count": [rows], "before": [-1 if before is None else before]}
    )


def write(frame, batch):
    frame.coalesce(1).write.mode("overwrite").parquet(f"{sys.argv[2]}/batch={batch}")


lines = spark.readStream.schema("id long, k int").option("maxFilesPerTrigger", 1).json(sys.argv[1])
grouped = lines.groupBy("k").applyInPandasWithState(
    count,
    "k int, count long, before long",
    "rows long, last long" if NEW else "rows int",
    "update",
    "NoTimeout",
)
writer = grouped.writeStream.queryName("evolving").outputMode("update").foreachBatch(write)
writer.trigger(availableNow=True).start().awaitTermination()
