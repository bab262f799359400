"""The measured queries, the same ones for every Spark from 3.5 on.

They run where only PySpark is installed, so this imports nothing else of the checkout but the plain
:mod:`tools.compatmatrix.data`, which says what each gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tools.compatmatrix.data import (
    GAP,
    JOIN_DELAY,
    LIMIT,
    NEAR,
    SCHEMA,
    SESSION_DELAY,
    START,
    TIMER,
    TIMER_DELAY,
    WINDOW,
    WINDOW_DELAY,
)

_DELAY = "10 minutes"
_PROCESSED = "k int, n long, listed long, mapped long"


def _read(spark: SparkSession, directory: str, side: str = "a") -> DataFrame:
    """One side of the input, a file a batch."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.json(f"{directory}/{side}")


def _timed(spark: SparkSession, directory: str, seconds: int, side: str = "a") -> DataFrame:
    return _read(spark, directory, side).withWatermark("ts", f"{seconds} seconds")


def _stateless(spark: SparkSession, directory: str) -> DataFrame:
    return _read(spark, directory).filter("v % 2 = 0").selectExpr("id", "v * 2 as twice")


def _aggregate(spark: SparkSession, directory: str) -> DataFrame:
    grouped = _read(spark, directory).groupBy("k")
    return grouped.agg(F.count("*").alias("n"), F.sum("v").alias("total"))


def _windows(spark: SparkSession, directory: str) -> DataFrame:
    timed = _timed(spark, directory, WINDOW_DELAY)
    grouped = timed.groupBy(F.window("ts", f"{WINDOW} seconds"), "k")
    counted = grouped.agg(F.count("*").alias("n"), F.sum("v").alias("total"))
    return counted.selectExpr("cast(window.start as long) as start", "k", "n", "total")


def _sessions(spark: SparkSession, directory: str) -> DataFrame:
    timed = _timed(spark, directory, SESSION_DELAY)
    grouped = timed.groupBy(F.session_window("ts", f"{GAP} seconds"), "k")
    counted = grouped.agg(F.count("*").alias("n"))
    return counted.selectExpr("cast(session_window.start as long) as start", "k", "n")


def _distinct(spark: SparkSession, directory: str) -> DataFrame:
    return _read(spark, directory).dropDuplicates(["id"]).select("id", "v")


def _distinct_within_watermark(spark: SparkSession, directory: str) -> DataFrame:
    timed = _read(spark, directory).withWatermark("ts", _DELAY)
    return timed.dropDuplicatesWithinWatermark(["id"]).select("id", "v")


def _limit(spark: SparkSession, directory: str) -> DataFrame:
    return _read(spark, directory).limit(LIMIT).select("f")


def _joined(spark: SparkSession, directory: str, how: str) -> DataFrame:
    left = _timed(spark, directory, JOIN_DELAY).selectExpr("id as lid", "v as lv", "ts as lts")
    right = _timed(spark, directory, JOIN_DELAY, "b").selectExpr(
        "id as rid", "v as rv", "ts as rts"
    )
    near = f"interval {NEAR} seconds"
    condition = F.expr(f"lid = rid and rts between lts - {near} and lts + {near}")
    return left.join(right, condition, how).select("lid", "lv", "rv")


def _join_inner(spark: SparkSession, directory: str) -> DataFrame:
    return _joined(spark, directory, "inner")


def _join_left(spark: SparkSession, directory: str) -> DataFrame:
    return _joined(spark, directory, "leftOuter")


def _sum_up(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
    import pandas as pd

    n, total = state.get if state.exists else (0, 0)
    for frame in frames:
        n, total = n + len(frame), total + int(frame["v"].sum())
    state.update((n, total))
    yield pd.DataFrame({"k": [key[0]], "n": [n], "total": [total]})


def _pandas_with_state(spark: SparkSession, directory: str) -> DataFrame:
    grouped = _read(spark, directory).groupBy("k")
    return grouped.applyInPandasWithState(
        _sum_up, "k int, n long, total long", "n long, total long", "update", "NoTimeout"
    )


def _processor(of_rows: bool) -> Any:
    """A processor with every kind of state variable and a timer, for rows or for pandas."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    def give(*values: int) -> Any:
        names = ("k", "n", "listed", "mapped")
        if of_rows:
            from pyspark.sql import Row

            return Row(**dict(zip(names, values, strict=True)))
        import pandas as pd

        return pd.DataFrame({name: [value] for name, value in zip(names, values, strict=True)})

    class Processor(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._handle = handle
            self._total = handle.getValueState("total", "n long")
            self._values = handle.getListState("seen", "v long")
            self._files = handle.getMapState("files", "f int", "n long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            pairs: list[tuple[int, int]] = []
            for some in rows:
                if of_rows:
                    pairs.append((some.v, some.f))
                else:
                    pairs += [(int(v), int(f)) for v, f in zip(some["v"], some["f"], strict=True)]
            before = self._total.get()[0] if self._total.exists() else 0
            if not before:
                self._handle.registerTimer((START + TIMER) * 1000)
            n = before + len(pairs)
            self._total.update((n,))
            self._values.appendList([(v,) for v, _ in pairs])
            for f in {f for _, f in pairs}:
                self._files.updateValue((f,), (1,))
            yield give(key[0], n, len(list(self._values.get())), len(list(self._files.keys())))

        def handleExpiredTimer(
            self, key: Any, timerValues: Any, expiredTimerInfo: Any
        ) -> Iterator[Any]:
            yield give(key[0], -1, sum(value[0] for value in self._values.get()), 0)

        def close(self) -> None:
            pass

    return Processor()


def _processor_in_pandas(spark: SparkSession, directory: str) -> DataFrame:
    grouped = _timed(spark, directory, TIMER_DELAY).groupBy("k")
    return grouped.transformWithStateInPandas(
        _processor(of_rows=False), _PROCESSED, "Update", "EventTime"
    )


def _processor_in_rows(spark: SparkSession, directory: str) -> DataFrame:
    grouped = _timed(spark, directory, TIMER_DELAY).groupBy("k")
    return grouped.transformWithState(_processor(of_rows=True), _PROCESSED, "Update", "EventTime")


def _distinct_counts(spark: SparkSession, directory: str) -> DataFrame:
    return _read(spark, directory).dropDuplicates(["id"]).groupBy("k").count()


#: By name: what makes the query, and its output mode.
QUERIES: dict[str, tuple[Callable[[SparkSession, str], DataFrame], str]] = {
    "stateless": (_stateless, "append"),
    "aggregate": (_aggregate, "update"),
    "windows": (_windows, "append"),
    "sessions": (_sessions, "append"),
    "distinct": (_distinct, "append"),
    "distinct_within_watermark": (_distinct_within_watermark, "append"),
    "limit": (_limit, "append"),
    "join_inner": (_join_inner, "append"),
    "join_left": (_join_left, "append"),
    "pandas_with_state": (_pandas_with_state, "update"),
    "processor_in_pandas": (_processor_in_pandas, "update"),
    "processor_in_rows": (_processor_in_rows, "update"),
    "distinct_counts": (_distinct_counts, "update"),
}
