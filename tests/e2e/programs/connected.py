"""A program with a Spark Connect session whose server is its own: ``connected.py INPUT OUTPUT``.

With a third word the windows of its query have lost an aggregate.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import flinkish

source, out, *changed = sys.argv[1:]
spark = SparkSession.builder.config("spark.api.mode", "connect").appName("connected").getOrCreate()
assert spark.conf.get("spark.master") == "local[2]", "that of the launch"
assert type(spark).__module__.startswith("pyspark.sql.connect")

lines = spark.readStream.schema("id long, k int, t timestamp").option("maxFilesPerTrigger", 1)
rows = lines.json(source).withWatermark("t", "1 hour")
most = [] if changed else [F.max("id").alias("most")]
windows = rows.groupBy(F.window("t", "5 minutes"), "k").agg(*most, F.count("*").alias("n"))
windows = windows.transform(flinkish.uid("windows"))
counts = windows.withColumn("start", F.unix_timestamp("window.start")).drop("window")
seen = rows.dropDuplicates(["id", "t"]).select("id")

for name, frame in (("counts", counts), ("seen", seen)):
    writer = frame.writeStream.queryName(name).format("parquet").outputMode("append")
    writer.start(f"{out}/{name}")
assert all(query.isActive for query in spark.streams.active)
spark.streams.awaitAnyTermination()
