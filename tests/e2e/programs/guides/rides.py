"""The program of the README: rides by kind. Usage: rides.py [INPUT OUTPUT]."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flinkish import uid

source, output = sys.argv[1:] or ("in", "out")
spark = SparkSession.builder.getOrCreate()
rides = spark.readStream.schema("flight_id long, k string, v long").json(source)
counts = rides.groupBy("k").agg(F.count("*").alias("rides")).transform(uid("rides"))


def write(frame, batch):
    frame.coalesce(1).write.mode("overwrite").parquet(f"{output}/batch={batch}")


counts.writeStream.queryName("rides").outputMode("update").foreachBatch(write).start()
spark.streams.awaitAnyTermination()
