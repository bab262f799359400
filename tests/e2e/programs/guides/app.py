"""A program with an aggregation and a state of its own: totals and visits by key.

Usage: app.py [--input DIRECTORY] [--db-password PASSWORD]
"""

import argparse

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flinkish import uid

parser = argparse.ArgumentParser()
parser.add_argument("--input", default="in")
parser.add_argument("--db-password")
arguments = parser.parse_args()

spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("k string, v long").json(arguments.input)
totals = rows.groupBy("k").agg(F.sum("v").alias("total")).transform(uid("totals"))
totals.writeStream.queryName("totals").outputMode("update").format("noop").start()


def count(key, frames, state):
    visits = sum(map(len, frames)) + (state.get[0] if state.exists else 0)
    state.update((visits,))
    yield pd.DataFrame({"k": [key[0]], "visits": [visits]})


visits = rows.groupBy("k").applyInPandasWithState(
    count, "k string, visits long", "visits int", "update", "NoTimeout"
)
visits = visits.transform(uid("visits"))
visits.writeStream.queryName("visits").outputMode("update").format("noop").start()
spark.streams.awaitAnyTermination()
