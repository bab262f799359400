"""Definitions of a pipeline: windows counted by key, and rows whose id is seen for the first time.

``PIPELINE_INPUT`` is the directory of the rows. With ``PIPELINE_CHANGED`` the windows have lost an
aggregate, which Spark cannot go on with. With ``PIPELINE_DEPENDENT`` a third flow reads a table of
another. With ``PIPELINE_ATTACHED`` flinkish is asked to serve the pipeline.
"""

import os

from pyspark import pipelines as dp
from pyspark.sql import functions as F

import flinkish

if os.environ.get("PIPELINE_ATTACHED"):
    flinkish.attach()

spark = globals()["spark"]  # given by Spark
MOST = [] if os.environ.get("PIPELINE_CHANGED") else [F.max("id").alias("most")]


def rows():
    lines = spark.readStream.schema("id long, k int, t timestamp").option("maxFilesPerTrigger", 1)
    return lines.json(os.environ["PIPELINE_INPUT"]).withWatermark("t", "1 hour")


@dp.table
def counts():
    windows = rows().groupBy(F.window("t", "5 minutes"), "k").agg(*MOST, F.count("*").alias("n"))
    named = windows.transform(flinkish.uid("windows"))
    return named.withColumn("start", F.unix_timestamp("window.start")).drop("window")


@dp.table
def seen():
    return rows().dropDuplicates(["id", "t"]).select("id")


if os.environ.get("PIPELINE_DEPENDENT"):

    @dp.table
    def again():
        return spark.readStream.table("seen").dropDuplicates(["id"])
