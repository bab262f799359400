"""Runs queries with a connector, in a Spark's own environment: ``worker.py RUNS.json``.

RUNS.json has the ``session``'s settings, ``timeout`` (seconds) and ``runs``, each with its
``connector``, ``role``, ``phase`` (``begin`` or ``resume``), ``directory`` with all that it has,
Kafka's ``bootstrap`` and ``topic``, and where its ``result`` goes: JSON with the ids of the
``rows`` in the sink (not for Kafka's), the number of ``batches`` that the checkpoint has, and
``errors``. Nothing of flinkish is used here.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tools.compatmatrix.connectors.artifacts import DELTA, ICEBERG, KAFKA, SINK, SOURCE
from tools.compatmatrix.connectors.rows import FILES, ROWS, TABLE, ids
from tools.compatmatrix.worker import causes

_SCHEMA = "id long"


class _Run:
    def __init__(self, spark: SparkSession, spec: dict[str, Any]) -> None:
        self._session = spark.newSession()
        self._spec = spec
        self._place = Path(spec["directory"])
        # Makes it the active session, whose settings name the catalogs (SQLConf.get).
        self._session.createDataFrame([(0,)], _SCHEMA)
        if spec["connector"] == ICEBERG:
            catalog = "spark.sql.catalog.ice"
            self._session.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
            self._session.conf.set(f"{catalog}.type", "hadoop")
            self._session.conf.set(f"{catalog}.warehouse", str(self._place / "warehouse"))

    def go(self, timeout: float) -> dict[str, Any]:
        """Prepare, run the query to the end of its input, and read what is in the sink."""
        begins = self._spec["phase"] == "begin"
        if begins and self._spec["connector"] == ICEBERG:
            self._session.sql(f"create table {TABLE} ({_SCHEMA}) using iceberg")
        is_table = self._spec["role"] == SOURCE and self._spec["connector"] != KAFKA
        if begins and is_table:
            self._write_table(0)
        errors = self._query(timeout)
        if errors:
            return {"errors": errors}
        if begins and is_table:
            self._write_table(1)
        return {"errors": [], "rows": self._rows(), "batches": self._batches()}

    def _query(self, timeout: float) -> list[str]:
        frame = self._source()
        writer: Any = frame.writeStream.option(
            "checkpointLocation", str(self._place / "checkpoint")
        )
        writer = writer.trigger(availableNow=True)
        if self._spec["role"] == SOURCE:
            query = writer.format("json").start(str(self._place / "out"))
        elif self._spec["connector"] == KAFKA:
            writer = writer.format("kafka").option("topic", self._spec["topic"])
            query = writer.option("kafka.bootstrap.servers", self._spec["bootstrap"]).start()
        elif self._spec["connector"] == DELTA:
            query = writer.format("delta").start(str(self._place / "table"))
        else:
            query = writer.format("iceberg").toTable(TABLE)
        try:
            ended = query.awaitTermination(timeout)
        except Exception as error:  # noqa: BLE001 - the Java exception says it in full
            return causes(query) or [f"{type(error).__name__}: {error}"]
        if not ended:
            query.stop()
            return [f"the query did not end within {timeout:g} s, and reports no error"]
        return causes(query)

    def _source(self) -> DataFrame:
        reader = self._session.readStream
        connector = self._spec["connector"]
        if self._spec["role"] == SINK:
            files = reader.schema(_SCHEMA).option("maxFilesPerTrigger", 1)
            frame = files.json(str(self._place / "in"))
            return frame.selectExpr("cast(id as string) as value") if connector == KAFKA else frame
        if connector == KAFKA:
            reader = reader.format("kafka").option("subscribe", self._spec["topic"])
            reader = reader.option("kafka.bootstrap.servers", self._spec["bootstrap"])
            reader = reader.option("startingOffsets", "earliest")
            frame = reader.option("maxOffsetsPerTrigger", ROWS).load()
            return frame.selectExpr("cast(cast(value as string) as long) as id")
        if connector == DELTA:
            reader = reader.format("delta").option("maxFilesPerTrigger", 1)
            return reader.load(str(self._place / "table"))
        reader = reader.format("iceberg").option("streaming-max-files-per-micro-batch", 1)
        return reader.load(TABLE)

    def _write_table(self, half: int) -> None:
        """Put a half of the input into the table, a commit for each file."""
        for number in range(half * FILES, (half + 1) * FILES):
            frame = self._session.createDataFrame([(one,) for one in ids(number)], _SCHEMA)
            if self._spec["connector"] == ICEBERG:
                frame.coalesce(1).writeTo(TABLE).append()
            else:
                path = str(self._place / "table")
                frame.coalesce(1).write.format("delta").mode("append").save(path)

    def _rows(self) -> list[int] | None:
        if self._spec["role"] == SOURCE:
            frame = self._session.read.schema(_SCHEMA).json(str(self._place / "out"))
        elif self._spec["connector"] == KAFKA:
            return None
        elif self._spec["connector"] == DELTA:
            frame = self._session.read.format("delta").load(str(self._place / "table"))
        else:
            frame = self._session.table(TABLE)
        return sorted(row[0] for row in frame.collect())

    def _batches(self) -> int:
        return sum(
            1 for path in (self._place / "checkpoint" / "commits").iterdir() if path.name.isdigit()
        )


def _write(run: dict[str, Any], result: dict[str, Any]) -> None:
    path = Path(run["result"])
    building = path.with_suffix(".new")
    building.write_text(json.dumps(result))
    building.rename(path)


def main() -> None:
    """Run what the file says, one after the other."""
    spec = json.loads(Path(sys.argv[1]).read_text())
    builder = SparkSession.builder.master("local[2]").appName("compat-matrix")
    for name, value in spec["session"].items():
        builder = builder.config(name, value)
    spark: SparkSession | None = None
    for run in spec["runs"]:
        try:
            spark = spark or builder.getOrCreate()
            result = _Run(spark, run).go(spec["timeout"])
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the result
            result = {"errors": [f"{type(error).__name__}: {error}"]}
        _write(run, result)
    sys.stdout.flush()
    os._exit(0)  # a query that hangs would keep the session's end waiting


if __name__ == "__main__":
    main()
