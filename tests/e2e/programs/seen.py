"""A user's program whose operators have uids: each user once, then counts by key.

Usage: seen.py INPUT [--no-dedup] [--uid NAME]
"""

import argparse

from pyspark.sql import SparkSession

from flinkish import uid

parser = argparse.ArgumentParser()
parser.add_argument("input")
parser.add_argument("--no-dedup", action="store_true")
parser.add_argument("--uid", default="seen")
arguments = parser.parse_args()

spark = SparkSession.builder.appName("seen").getOrCreate()
spark.sparkContext.setLogLevel("WARN")
lines = spark.readStream.schema("id long, k int").option("maxFilesPerTrigger", 1)
rows = lines.json(arguments.input)
if not arguments.no_dedup:
    rows = rows.dropDuplicates(["id"]).transform(uid(arguments.uid))
counts = rows.groupBy("k").count().transform(uid("counts"))
writer = counts.writeStream.queryName("counts").outputMode("update").format("noop")
writer.start().awaitTermination()
