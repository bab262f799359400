"""Spark in a process of its own, which reads rows from their bytes and writes them anew.

``python -m tests.support.engine.spark_rows_worker`` answers lines of JSON on its input with such
lines; it needs nothing but PySpark (3.5 or 4). :class:`tests.support.engine.random_rows.SparkRows`
talks to it. Requests:

- ``{"schema", "rows"}``: the rows' bytes (hexadecimal) become UnsafeRows of a DataFrame. Answer:
  ``rows`` as Spark encodes them from the values that it found in them (through its external
  ``Row``), ``values`` as its Python collects them (by
  :func:`tests.support.engine.golden_rows.plain`), ``hashes`` with ``hash`` of each column and,
  last, of all columns, ``partitions`` of the latter. What has no hash (a variant) has None there.
- ``{"checkpoint"}``: answer ``rows`` [key, value] that Spark's reader of state finds in it.

An answer is ``{"error"}`` where Spark fails.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from typing import Any

from tests.support.engine.golden_rows import plain

PARTITIONS = 7
#: A type -> one with the same bytes, of which Python has values.
_SHOWN = {"interval": "binary", "interval year to month": "integer"}


def make_session(work: str) -> Any:
    """A small session in which every type is allowed."""
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": f"{work}/warehouse",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.timeType.enabled": "true",
        "spark.sql.datetime.java8API.enabled": "true",
        "spark.sql.legacy.allowHashOnMapType": "true",
    }
    builder = SparkSession.builder.master("local[2]").appName("flinkish-tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def _frame(spark: Any, schema: Any, rows: list[bytes]) -> Any:
    """A DataFrame (of the JVM) whose rows are these bytes, as they are."""
    jvm = spark._jvm
    unsafe = jvm.java.util.ArrayList()
    for data in rows:
        row = jvm.org.apache.spark.sql.catalyst.expressions.UnsafeRow(len(schema["fields"]))
        row.pointTo(data, len(data))
        unsafe.add(row)
    rdd = spark._jsc.parallelize(unsafe, 1).rdd()
    return spark._jsparkSession.internalCreateDataFrame(rdd, _type(spark, schema), False)


def _type(spark: Any, schema: Any) -> Any:
    return spark._jsparkSession.parseDataType(json.dumps(schema))


def _collect(frame: Any) -> list[Any]:
    return list(frame.queryExecution().executedPlan().executeCollect())


def shown(data_type: Any) -> Any:
    """The schema with types of which Python has values in place of those of which it has none."""
    if isinstance(data_type, str):
        return _SHOWN.get(data_type, data_type)
    if isinstance(data_type, list):
        return [shown(part) for part in data_type]
    if isinstance(data_type, dict):
        types = {"type", "fields", "elementType", "keyType", "valueType"}
        return {k: shown(v) if k in types else v for k, v in data_type.items()}
    return data_type


def _answer(spark: Any, schema: Any, rows: list[bytes]) -> dict[str, Any]:
    from pyspark.sql import DataFrame

    found = _frame(spark, schema, rows)
    again = spark._jsparkSession.createDataFrame(found.toJavaRDD(), _type(spark, schema))
    names = [f"c{i}" for i in range(len(schema["fields"]))]
    values = DataFrame(_frame(spark, shown(schema), rows), spark).toDF(*names).collect()
    fields = zip(names, schema["fields"])  # noqa: B905 - runs in any Python
    chosen = [name for name, field in fields if '"variant"' not in json.dumps(field)]
    every = ", ".join(chosen)
    texts = [f"hash({name}) AS {name}" if name in chosen else "NULL" for name in names]
    if every:
        texts += [f"hash({every}) AS h", f"pmod(hash({every}), {PARTITIONS}) AS p"]
    hashes = DataFrame(found, spark).toDF(*names).selectExpr(*texts).collect()
    columns = [list(column) for column in zip(*hashes)]  # noqa: B905
    return {
        "rows": [bytes(row.getBytes()).hex() for row in _collect(again)],
        "values": [plain(tuple(row)) for row in values],
        "hashes": columns[: len(names) + 1] if every else columns,
        "partitions": columns[-1] if every else [],
    }


def _state(spark: Any, checkpoint: str) -> dict[str, Any]:
    state = spark.read.format("statestore").load(checkpoint).select("key", "value")
    widths = [len(state.schema[name].dataType.fields) for name in ("key", "value")]
    rows = []
    for row in _collect(state._jdf):
        parts = [row.getStruct(i, width) for i, width in enumerate(widths)]
        rows.append([bytes(part.getBytes()).hex() for part in parts])
    return {"rows": rows}


def main() -> None:
    """Answer requests until the input ends; the first line says which Spark it is."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # What else is printed in this process must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory() as work:
        spark = make_session(work)
        print(json.dumps({"spark": spark.version}), file=answers, flush=True)
        for line in sys.stdin:
            request = json.loads(line)
            try:
                if "checkpoint" in request:
                    answer = _state(spark, request["checkpoint"])
                else:
                    rows = [bytes.fromhex(text) for text in request["rows"]]
                    answer = _answer(spark, request["schema"], rows)
            except Exception:  # noqa: BLE001 - the test shows it
                answer = {"error": traceback.format_exc()}
            print(json.dumps(answer), file=answers, flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
