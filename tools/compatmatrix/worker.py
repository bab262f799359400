"""Runs queries to the end of their input, in a Spark's own environment: ``worker.py RUNS.json``.

RUNS.json has ``parallel``, ``timeout`` (seconds) and ``runs``, each with the name of its ``query``,
its ``input`` and ``checkpoint`` directories, the ``settings`` of its session and where its
``result`` goes: JSON with the ``rows`` it gave and ``errors`` (Spark's exception and its causes, or
none). Nothing of flinkish is used here.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tools.compatmatrix.queries import QUERIES

#: Exit code when a query hangs: what was not begun is for another process.
HUNG = 3
#: How often the cause of a cause is looked at.
_DEPTH = 12


class _Runner:
    def __init__(self, spark: SparkSession, timeout: float) -> None:
        self._spark = spark
        self._timeout = timeout
        self.hung = threading.Event()

    def run(self, run: dict[str, Any]) -> None:
        """One run, with its result; nothing once a query hangs."""
        if self.hung.is_set():
            return
        started = time.monotonic()
        rows: list[list[Any]] = []
        try:
            errors = self._errors(run, rows)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the result
            errors = [f"{type(error).__name__}: {error}"]
        result = {
            "rows": rows,
            "errors": errors,
            "seconds": round(time.monotonic() - started, 2),
        }
        path = Path(run["result"])
        building = path.with_suffix(".new")
        building.write_text(json.dumps(result))
        building.rename(path)

    def _errors(self, run: dict[str, Any], rows: list[list[Any]]) -> list[str]:
        session = self._spark.newSession()
        for name, value in run["settings"].items():
            session.conf.set(name, value)

        def keep(batch: DataFrame, _number: int) -> None:
            rows.extend(list(row) for row in batch.collect())

        make, mode = QUERIES[run["query"]]
        writer = make(session, run["input"]).writeStream.foreachBatch(keep).outputMode(mode)
        writer = writer.option("checkpointLocation", run["checkpoint"]).trigger(availableNow=True)
        query: Any = writer.start()
        try:
            ended = query.awaitTermination(self._timeout)
        except Exception as error:  # noqa: BLE001 - the Java exception says it in full
            return causes(query) or [f"{type(error).__name__}: {error}"]
        if not ended:
            self.hung.set()
            return [f"the query did not end within {self._timeout:g} s, and reports no error"]
        return causes(query)


def causes(query: Any) -> list[str]:
    """The exception of a query and what caused it; Spark wraps some errors several times."""
    found = query._jsq.exception()
    errors: list[str] = []
    cause = found.get() if found.isDefined() else None
    while cause is not None and len(errors) < _DEPTH:
        errors.append(f"{cause.getClass().getName()}: {cause.getMessage()}")
        cause = cause.getCause()
    return errors


def main() -> int:
    """Run what the file says; returns the exit code."""
    spec = json.loads(Path(sys.argv[1]).read_text())
    builder = SparkSession.builder.master("local[2]").appName("compat-matrix")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.pollingDelay": "10ms",
        "spark.sql.streaming.numRecentProgressUpdates": "2",
        "spark.driver.memory": "1g",
        # Short lives: the second compiler and the parallel collector cost more than they bring.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    runner = _Runner(spark, spec["timeout"])
    with ThreadPoolExecutor(spec["parallel"]) as pool:
        list(pool.map(runner.run, spec["runs"]))
    code = HUNG if runner.hung.is_set() else 0
    if code:
        # A hung query's thread would keep stop() waiting.
        sys.stdout.flush()
        os._exit(code)
    spark.stop()
    return code


if __name__ == "__main__":
    sys.exit(main())
