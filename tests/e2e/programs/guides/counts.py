"""The program of "Uids": each flight once, then flights by carrier."""

from pyspark.sql import SparkSession

from flinkish import uid

spark = SparkSession.builder.getOrCreate()
flights = spark.readStream.schema("flight_id long, carrier string").json("in")
seen = flights.dropDuplicates(["flight_id"]).transform(uid("seen-flights"))
counts = seen.groupBy("carrier").count().transform(uid("counts"))
counts.writeStream.queryName("counts").outputMode("update").format("noop").start()
spark.streams.awaitAnyTermination()
