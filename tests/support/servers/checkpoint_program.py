"""A driver that runs one query per checkpoint, for ``test_spark.py``.

``checkpoints.py REQUEST``, which is JSON: the Spark settings, the directory of the input (JSON
lines), and the state store provider by checkpoint. Prints {checkpoint: {key: count}} of what the
queries put out in this run.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery


def start(
    spark: SparkSession, source: str, checkpoint: str, provider: str
) -> tuple[StreamingQuery, dict[str, int]]:
    """Start to count the input by key, as far as it goes now; returns the output to come, too."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    output: dict[str, int] = {}

    def keep(batch: DataFrame, _: int) -> None:
        output.update({row["key"]: row["count"] for row in batch.collect()})

    query = (
        spark.readStream.schema("key string")
        .json(source)
        .groupBy("key")
        .count()
        .writeStream.outputMode("update")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .foreachBatch(keep)
        .start()
    )
    return query, output


def main(request: dict[str, Any]) -> None:
    builder = SparkSession.builder.master("local[2]").appName("checkpoints")
    for key, value in request["settings"].items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    # All at once: they mostly wait for their servers.
    started = {
        checkpoint: start(spark, request["input"], checkpoint, provider)
        for checkpoint, provider in request["checkpoints"].items()
    }
    for query, _ in started.values():
        query.awaitTermination()
    print(json.dumps({checkpoint: output for checkpoint, (_, output) in started.items()}))
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
