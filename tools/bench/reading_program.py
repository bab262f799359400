"""Spark's own way to state as data: ``reading_program.py CHECKPOINT TARGET [ROWS PARTITIONS]``.

Writes what the ``statestore`` reader reads as Parquet. With ROWS the checkpoint is made instead.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from tools.bench.engine_program import SETTINGS, make_state


def main(checkpoint: str, target: str, *sizes: str) -> None:
    builder = SparkSession.builder.master("local[2]").appName("reading")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if sizes:
        make_state(spark, Path(checkpoint).parent, *map(int, sizes))
    else:
        rows = spark.read.format("statestore").load(checkpoint)
        # Aggregates have several columns of one name, which Parquet refuses.
        struct = rows.schema["value"].dataType
        assert isinstance(struct, StructType)
        fields = struct.fields
        names = [f"{field.name}_{number}" for number, field in enumerate(fields)]
        renamed = StructType(
            [StructField(name, field.dataType) for name, field in zip(names, fields, strict=True)]
        )
        rows.withColumn("value", rows["value"].cast(renamed)).write.parquet(target)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
