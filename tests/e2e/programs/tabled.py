"""A user's program that reads numbered rows and writes to a table of Delta Lake or Iceberg.

Usage: tabled.py FORMAT SOURCE TARGET [--keys] [--fail-after N] [--now] [--version V]. SOURCE is a
directory of JSON files, ``delta:PATH``, ``iceberg:NAME`` or ``kafka:HOST:PORT/TOPIC``; TARGET is a
path, or ``table:NAME``. With ``--keys`` each id is written once only (state). ``--fail-after``
makes the batch fail that has an id above N.
"""

import argparse

from pyspark.sql import SparkSession, functions
from pyspark.sql.functions import udf

from flinkish import uid

parser = argparse.ArgumentParser()
parser.add_argument("format")
parser.add_argument("source")
parser.add_argument("target")
parser.add_argument("--keys", action="store_true")
parser.add_argument("--now", action="store_true")
parser.add_argument("--fail-after", type=int)
parser.add_argument("--version", type=int, default=1)
given = parser.parse_args()

spark = SparkSession.builder.appName("tabled").getOrCreate()
spark.sparkContext.setLogLevel("WARN")
kind, _, place = given.source.partition(":")
if kind == "delta":
    lines = spark.readStream.format("delta").option("maxFilesPerTrigger", 1)
    rows = lines.load(place).select("id")
elif kind == "iceberg":
    lines = spark.readStream.format("iceberg").option("streaming-max-files-per-micro-batch", 1)
    rows = lines.load(place).select("id")
elif kind == "kafka":
    broker, _, topic = place.partition("/")
    lines = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker)
    lines = lines.option("subscribe", topic).option("startingOffsets", "earliest")
    lines = lines.option("maxOffsetsPerTrigger", 1)
    rows = lines.load().selectExpr("cast(cast(value as string) as long) as id")
else:
    lines = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1)
    rows = lines.json(given.source)
if given.keys:
    rows = rows.dropDuplicates(["id"]).transform(uid("ids"))
if given.fail_after is not None:

    @udf("long")
    def checked(value):
        if value > given.fail_after:
            raise ValueError(f"{value} is too much")
        return value

    rows = rows.select(checked("id").alias("id"))
rows = rows.select("id", functions.lit(given.version).alias("version"))
writer = rows.writeStream.queryName("tabled").format(given.format)
writer = writer.trigger(
    **({"availableNow": True} if given.now else {"processingTime": "0 seconds"})
)
if given.target.startswith("table:"):
    query = writer.toTable(given.target.removeprefix("table:"))
else:
    query = writer.start(given.target)
query.awaitTermination()
