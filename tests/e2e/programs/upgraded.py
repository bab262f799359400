"""Versions of a program: ``upgraded.py INPUT OUTPUT VERSION``.

Every version has the query ``totals``, a sum by key, and ``first``, the first row of each key in
files. ``logic`` changes what is summed up, ``more`` and ``key`` change the state, ``less`` leaves
the second query out.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flinkish import uid

source, output, version = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
rows = (
    spark.readStream.schema("k string, v long, w long")
    .option("maxFilesPerTrigger", "1")
    .json(source)
    .transform(uid("rows"))
)
if version == "logic":
    rows = rows.withColumn("v", F.col("v") * 2)
aggregates = [F.sum("v").alias("total")]
if version == "more":
    aggregates.append(F.max("w").alias("most"))
totals = rows.groupBy("w" if version == "key" else "k").agg(*aggregates).transform(uid("totals"))
totals.writeStream.queryName("totals").outputMode("update").format("noop").start()
if version != "less":
    first = rows.dropDuplicates(["k"]).transform(uid("first"))
    first.writeStream.queryName("first").format("parquet").start(output)
spark.streams.awaitAnyTermination()
