"""Load the classes that tests need, for the archive of :mod:`tests.support.jvm`. Run as a program.

It runs a stateful query on each state store, with a join and a Python sink, plans without running,
and ends its JVM before itself: the archive is written by the JVM when it exits.
"""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Any

os.environ["PYSPARK_PYTHON"] = sys.executable
STORES = "org.apache.spark.sql.execution.streaming.state"
PROVIDERS = ("HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider")


def main() -> None:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as directory:
        spark.range(20).withColumn("ts", F.timestamp_seconds("id")).write.parquet(f"{directory}/in")
        for provider in PROVIDERS:
            spark.conf.set("spark.sql.streaming.stateStore.providerClass", f"{STORES}.{provider}")
            for name, query in _queries(spark, directory).items():
                place = f"{directory}/{provider}-{name}"
                started = (
                    query.writeStream.outputMode("append")
                    .option("checkpointLocation", f"{place}-checkpoint")
                    .trigger(availableNow=True)
                )
                if name == "join":
                    started = started.format("parquet").option("path", place)
                else:
                    started = started.foreachBatch(lambda frame, _: frame.collect())
                started.start().awaitTermination()
        spark.read.parquet(f"{directory}/in").groupBy("id").count().orderBy("id").toPandas()
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    gateway.proc.stdin.close()  # Spark's gateway ends with its standard input
    gateway.proc.wait()


def _queries(spark: Any, directory: str) -> dict[str, Any]:
    from pyspark.sql import functions as F

    def stream() -> Any:
        read = spark.readStream.schema("id long, ts timestamp").parquet(f"{directory}/in")
        return read.withWatermark("ts", "1 second")

    windows = stream().groupBy(F.window("ts", "5 seconds")).agg(F.count("*"), F.sum("id"))
    left, right = stream().alias("l"), stream().alias("r")
    joined = left.join(right, F.expr("l.id = r.id and l.ts <= r.ts"), "inner")
    distinct = stream().dropDuplicates(["id", "ts"])
    return {"windows": windows, "join": joined.select("l.id"), "distinct": distinct}


if __name__ == "__main__":
    main()
