"""The program of "Check before you touch anything": a sum by key, and each key's first row."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flinkish import uid

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("k string, v long, w long").json("in").transform(uid("rows"))
totals = rows.groupBy("k").agg(F.sum("v").alias("total")).transform(uid("totals"))
totals.writeStream.queryName("totals").outputMode("update").format("noop").start()
first = rows.dropDuplicates(["k"]).transform(uid("first"))
first.writeStream.queryName("first").format("parquet").start("out")
spark.streams.awaitAnyTermination()
