"""How often does each aircraft leave New York, and how late? Running statistics, with typed state.

The state of an aircraft is an object of a class that the program defines. flinkish keeps a snapshot
of the serializer in every savepoint, so that class may have other fields in the next version of the
program, ``aircraft_v2.py``. Rows that the feed delivers twice count twice.

Run it with ``flinkish run``, or with ``spark-submit`` and the option ``--checkpoint``::

    aircraft_v1.py INPUT OUTPUT [--files-per-trigger N] [--every INTERVAL] [--checkpoint DIR]

INPUT is the directory that ``flinkish.examples.flights.data`` writes. OUTPUT gets one directory
of parquet per batch, with a row for each aircraft that the batch has changed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flinkish import uid
from flinkish.state import TypedGroupState, ValueStateDescriptor, apply_in_pandas_with_state

SCHEMA = (
    "departed TIMESTAMP, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, "
    "distance INT, dep_delay INT, arr_delay INT"
)
OUTPUT = "tailnum STRING, flights LONG, minutes LONG, miles LONG"


@dataclass(frozen=True)
class AircraftStats:
    """The state of one aircraft: departures, minutes of delay, miles."""

    flights: int = 0
    minutes: int = 0
    miles: int = 0


STATS = ValueStateDescriptor("stats", AircraftStats)


def update(
    key: tuple[str], frames: Iterator[pd.DataFrame], state: TypedGroupState
) -> Iterator[pd.DataFrame]:
    """Add a batch's departures of one aircraft to its state."""
    stats_state = state.get_value_state(STATS)
    stats = stats_state.value() or AircraftStats()
    for flights in frames:
        stats = AircraftStats(
            stats.flights + len(flights),
            stats.minutes + int(flights.dep_delay.sum()),
            stats.miles + int(flights.distance.sum()),
        )
    stats_state.update(stats)
    row = {"tailnum": key[0], "flights": stats.flights, "minutes": stats.minutes}
    yield pd.DataFrame([{**row, "miles": stats.miles}])


def aircraft(flights: DataFrame) -> DataFrame:
    """Return the running statistics of those flights of a stream that did leave."""
    left = flights.where("dep_delay IS NOT NULL AND tailnum IS NOT NULL")
    grouped = left.select("tailnum", "dep_delay", "distance").groupBy("tailnum")
    stats: DataFrame = apply_in_pandas_with_state(grouped, update, OUTPUT, [STATS], "update")
    return stats.transform(uid("per-aircraft"))


def start(spark: SparkSession, options: argparse.Namespace) -> Any:
    """Start the query on a stream of the input's day files."""
    flights = (
        spark.readStream.schema(SCHEMA)
        .option("header", True)
        .option("maxFilesPerTrigger", options.files_per_trigger)
        .csv(f"{options.input}/departures")
    )

    def write(batch: DataFrame, batch_id: int) -> None:
        rows = batch.withColumn("version", F.lit(1)).coalesce(1)
        rows.write.mode("overwrite").parquet(f"{options.output}/batch={batch_id:06}")

    writer = (
        aircraft(flights)
        .writeStream.queryName("aircraft")
        .outputMode("update")
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
    start(SparkSession.builder.appName("aircraft").getOrCreate(), options).awaitTermination()


if __name__ == "__main__":
    main()
