"""A user's program: every call of its foreachBatch function is noted, with the history batch.

Usage: numbered.py INPUT DATABASE NAME FILES [--die-at BATCH]: takes FILES files into a batch; dies
once after it has noted BATCH, which is not committed then.
"""

import os
import signal
import sqlite3
import sys

from pyspark.sql import SparkSession

import flinkish

INPUT, DATABASE, NAME, FILES = sys.argv[1:5]
DIES_AT = int(sys.argv[6]) if "--die-at" in sys.argv else None

spark = SparkSession.builder.appName("numbered").getOrCreate()
spark.sparkContext.setLogLevel("WARN")


def write(frame, batch):
    ids = sorted(row.id for row in frame.collect())
    number = flinkish.history_batch(batch)
    with sqlite3.connect(DATABASE, timeout=60) as database:
        database.execute("create table if not exists calls (name, number, batch, ids)")
        row = (NAME, number, batch, ",".join(map(str, ids)))
        database.execute("insert into calls values (?, ?, ?, ?)", row)
    database.close()
    if batch == DIES_AT and not os.path.exists(DATABASE + ".died"):
        open(DATABASE + ".died", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)


(
    spark.readStream.schema("id long")
    .option("maxFilesPerTrigger", FILES)
    .json(INPUT)
    .writeStream.queryName("numbered")
    .foreachBatch(write)
    .start()
    .awaitTermination()
)
