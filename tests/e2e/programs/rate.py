"""A user's program that never runs out of input and keeps state."""

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
query = (
    rows.selectExpr("value % 7 as k")
    .groupBy("k")
    .count()
    .writeStream.queryName("rate")
    .outputMode("update")
    .format("noop")
    .trigger(processingTime="200 milliseconds")
    .start()
)
query.awaitTermination()
