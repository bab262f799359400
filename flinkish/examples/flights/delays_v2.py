"""How late do New York's flights leave? Per airline and quarter of a day, from a stream of files.

The next version of ``delays_v1.py``, which takes over its state: the mean delay is correct, and two
columns are new, the number of cancelled flights and the airline's name. The steps from the source
to the aggregation are unchanged, and so are the aggregates and the order in which the result first
uses them. The state depends on exactly these.

An ordinary PySpark program: it knows nothing of flinkish. Run it with ``flinkish run``, or with
``spark-submit`` and the option ``--checkpoint``::

    delays_v2.py INPUT OUTPUT [--files-per-trigger N] [--every INTERVAL] [--checkpoint DIR]

INPUT is the directory that ``flinkish.examples.flights.data`` writes. OUTPUT gets one directory
of parquet per batch, so a batch that runs twice replaces what it wrote the first time.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

SCHEMA = (
    "departed TIMESTAMP, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, "
    "distance INT, dep_delay INT, arr_delay INT"
)


def delays(flights: DataFrame, airlines: DataFrame) -> DataFrame:
    """Return the query, the same for a stream of flights and for a table of them."""
    return (
        flights.withWatermark("departed", "1 day")
        # The feed delivers some rows twice.
        .dropDuplicates(["departed", "carrier", "flight", "origin"])
        .groupBy(F.window("departed", "6 hours").alias("quarter"), "carrier")
        .agg(
            F.count("*").alias("flights"),
            F.count("dep_delay").alias("left"),
            F.sum("dep_delay").alias("minutes"),
        )
        .select(
            F.col("quarter.start").alias("start"),
            "carrier",
            "flights",
            "left",
            "minutes",
            F.try_divide("minutes", "left").alias("mean_delay"),
            (F.col("flights") - F.col("left")).alias("cancelled"),
        )
        .join(F.broadcast(airlines), "carrier", "left")
    )


def read_airlines(spark: SparkSession, directory: str) -> DataFrame:
    """Return the static table of carrier codes and airlines' names."""
    names = spark.read.schema("carrier STRING, name STRING")
    return names.csv(f"{directory}/airlines.csv", header=True).withColumnRenamed("name", "airline")


def start(spark: SparkSession, options: argparse.Namespace) -> StreamingQuery:
    """Start the query on a stream of the input's day files."""
    flights = (
        spark.readStream.schema(SCHEMA)
        .option("header", True)
        .option("maxFilesPerTrigger", options.files_per_trigger)
        .csv(f"{options.input}/departures")
    )
    airlines = read_airlines(spark, options.input)

    def write(batch: DataFrame, batch_id: int) -> None:
        batch.coalesce(1).write.mode("overwrite").parquet(f"{options.output}/batch={batch_id:06}")

    writer = (
        delays(flights, airlines)
        .writeStream.queryName("delays")
        .outputMode("append")
        .trigger(processingTime=options.every)
        .foreachBatch(write)
    )
    if options.checkpoint:
        writer = writer.option("checkpointLocation", options.checkpoint)
    return writer.start()


def main() -> None:
    """Read the command line, start the query, run until stopped."""
    parser = argparse.ArgumentParser()
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("--files-per-trigger", type=int, default=7)
    parser.add_argument("--every", default="1 second", help="start a batch this often")
    parser.add_argument("--checkpoint", help="checkpoint directory, when flinkish gives none")
    options = parser.parse_args()
    spark = (
        SparkSession.builder.appName("delays")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    start(spark, options).awaitTermination()


if __name__ == "__main__":
    main()
