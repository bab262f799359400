"""A user's program from Kafka to Kafka: the rows that were not seen yet, and counts by key.

Usage: kafka_job.py SERVERS INPUT OUTPUT [NAME=VALUE...] [--v2] [--rate N]. The rows are JSON with
``id`` and ``k``; NAME=VALUE are options of the source. OUTPUT has a suffix for each query: ``-new``
and ``-counts``. ``--v2`` is the changed program, and ``--rate`` the most rows of a batch.
"""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flinkish import uid

parser = argparse.ArgumentParser()
parser.add_argument("servers")
parser.add_argument("input")
parser.add_argument("output")
parser.add_argument("options", nargs="*")
parser.add_argument("--v2", action="store_true")
parser.add_argument("--rate", default="20")
given = parser.parse_intermixed_args()

spark = SparkSession.builder.appName("kafka_job").getOrCreate()
spark.sparkContext.setLogLevel("WARN")


def rows():
    reader = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", given.servers)
        .option("subscribe", given.input)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", given.rate)
    )
    for option in given.options:
        reader = reader.option(*option.split("=", 1))
    rows = reader.load().transform(uid("input"))
    rows = rows.selectExpr("from_json(string(value), 'id long, k int') AS row").select("row.*")
    return rows.withColumn("two", F.lit(2)) if given.v2 else rows


def start(name, rows, mode):
    values = rows.select(F.to_json(F.struct(*rows.columns)).alias("value"))
    writer = (
        values.writeStream.queryName(name)
        .format("kafka")
        .option("kafka.bootstrap.servers", given.servers)
        .option("topic", f"{given.output}-{name}")
        .outputMode(mode)
    )
    writer.start()


start("new", rows().dropDuplicates(["id"]).transform(uid("seen")), "append")
counts = rows().groupBy("k").agg(F.count("*").alias("n"), F.sum("id").alias("ids"))
start("counts", counts.transform(uid("counts")), "update")
spark.streams.awaitAnyTermination()  # a failure of either fails the job
