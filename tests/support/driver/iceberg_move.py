"""Moves tables of Iceberg to another warehouse, as its documentation says, and removes the old one.

Usage: iceberg_move.py OLD NEW TABLE... The session has the catalog ``ice`` in OLD.
"""

from __future__ import annotations

import csv
import shutil
import sys
from pathlib import Path

from pyspark.sql import SparkSession

old, new, *tables = sys.argv[1:]
spark = SparkSession.builder.appName("move").getOrCreate()
for table in tables:
    (row,) = spark.sql(
        f"CALL ice.system.rewrite_table_path(table => '{table}', source_prefix => '{old}', "
        f"target_prefix => '{new}', staging_location => '{new}-staging/{table}')"
    ).collect()
    with Path(row["file_list_location"].removeprefix("file:")).open(newline="") as lines:
        for source, target in csv.reader(lines):
            Path(target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.removeprefix("file:"), target)
spark.stop()
shutil.rmtree(old)
