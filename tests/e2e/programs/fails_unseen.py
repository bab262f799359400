"""A query that fails while its program only polls isActive, and ends with spark.stop()."""

import time

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()


def boom(frame, batch):
    raise RuntimeError("cannot reach postgresql://bob:s3cret@db/x")


rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
query = rows.writeStream.queryName("q").foreachBatch(boom).start()
while query.isActive:
    time.sleep(0.1)
spark.stop()
