"""The queries of :mod:`.resuming_program` that no other module has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.checkpoints import streaming_queries as cases


def frame(spark: Any, query: str, source: str) -> tuple[Any, str]:
    """The queries that ``streaming_queries`` does not have."""
    from pyspark.sql import functions as F

    def events() -> Any:
        return (
            spark.readStream.schema("ts timestamp, k string, v long")
            .option("maxFilesPerTrigger", 1)
            .json(source)
            .withWatermark("ts", "1 minute")
        )

    if query == "within":
        return events().dropDuplicatesWithinWatermark(["k", "v"]), "append"
    if query == "outer":
        # A side without partner waits until the watermark is past it, and comes out then.
        left = events().where("v % 3 != 0").selectExpr("ts AS lts", "k AS lk", "v AS lv")
        right = events().where("v % 4 != 0").selectExpr("ts AS rts", "k AS rk", "v AS rv")
        condition = (
            "lk = rk AND lv = rv AND rts BETWEEN lts - INTERVAL 2 MINUTES "
            "AND lts + INTERVAL 2 MINUTES"
        )
        return left.join(right, F.expr(condition), "full_outer"), "append"
    if query == "windows":
        # The join key is the event time, as is that of the rows: the end of the window.
        window = F.window("ts", "30 seconds")
        left = events().where("v % 3 != 0").select(window.alias("lw"), "k", F.col("v").alias("lv"))
        right = events().where("v % 4 != 0").select(window.alias("rw"), F.col("k").alias("rk"), "v")
        return left.join(right, F.expr("lw = rw AND k = rk AND lv = v"), "full_outer"), "append"
    if query == "inner":
        left = events().selectExpr("ts AS lts", "k AS lk", "v AS lv")
        right = events().selectExpr("ts AS rts", "k AS rk", "v AS rv")
        condition = "lk = rk AND rts BETWEEN lts - INTERVAL 1 MINUTE AND lts + INTERVAL 1 MINUTE"
        return left.join(right, F.expr(condition), "inner"), "append"
    if query == "timeouts":
        schemas = "v long, n long", "n long, t string"
        grouped = events().groupBy("v")
        return grouped.applyInPandasWithState(
            _with_timeouts, *schemas, "update", "EventTimeTimeout"
        ), "update"
    if query == "timeless":
        rows = spark.readStream.schema("ts timestamp, k string, v long")
        rows = rows.option("maxFilesPerTrigger", 1).json(source)
        left = rows.where("v % 3 != 0").selectExpr("k AS lk", "v % 7 AS lv", "v AS lw")
        right = rows.where("v % 4 != 0").selectExpr("k AS rk", "v % 7 AS rv", "v AS rw")
        return left.join(right, F.expr("lk = rk AND lv = rv"), "inner"), "append"
    if query == "types":
        keys = {
            "t_text": "IF(v % 7 = 0, NULL, repeat('é€😀a', CAST(v % 6 AS int)))",
            "t_double": "CASE WHEN v % 8 = 1 THEN DOUBLE('NaN') WHEN v % 8 = 2 THEN -0.0D "
            "ELSE (v % 8) / 7D END",
            "t_float": "IF(v % 8 = 3, CAST('-0.0' AS float), CAST(v % 8 AS float))",
            "t_dec": "CAST(v % 8 AS decimal(10, 2))",
            "t_big": "IF(v % 5 = 0, NULL, CAST(v AS decimal(38, 4)))",
            "t_date": "CAST('2024-02-29' AS date)",
            "t_bin": "CAST(repeat(k, CAST(v % 9 AS int)) AS binary)",
            "t_struct": "IF(v = 4, NULL, named_struct('a', v, 'b', named_struct('d', k)))",
            "t_array": "array(k, NULL, CAST(v AS string))",
            "t_small": "named_struct('b', v % 2 = 0, 'y', CAST(v % 99 AS byte), 's', "
            "CAST(-(v % 999) AS short))",
            "t_day": "make_dt_interval(0, 0, 0, v)",
        }
        columns = [F.expr(text).alias(name) for name, text in keys.items()]
        sums = [F.sum("v"), F.avg("v"), F.max("t_struct"), F.sum("t_big"), F.collect_list("k")]
        return events().select("*", *columns).groupBy(*keys).agg(*sums), "update"
    if query in {"tws", "ttl"}:
        grouped = events().groupBy("k", "other") if query == "ttl" else events().groupBy("k")
        if query == "ttl":
            grouped = events().selectExpr("*", "k || '!' AS other").groupBy("k", "other")
        return (
            grouped.transformWithStateInPandas(
                _WithTtl() if query == "ttl" else _Everything(),
                "k string, text string",
                "Update",
                "ProcessingTime" if query == "ttl" else "EventTime",
            ),
            "update",
        )
    return cases.frame(spark, query, source)


def _with_timeouts(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
    import pandas as pd

    count, text = state.get if state.exists else (0, "")
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"v": [key[0]], "n": [-count]})
        return
    count += sum(map(len, frames))
    state.update((count, text + "x"))
    state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 60_000 + 1000 * int(key[0]))
    yield pd.DataFrame({"v": [key[0]], "n": [count * 1000 + len(text)]})


class _Everything:
    """State of each kind; puts out all that it has."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", "n long")
        self.values = handle.getListState("values", "v long, t string")
        self.seen = handle.getMapState("seen", "v long", "n long, t string")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        import pandas as pd

        count = self.count.get()[0] if self.count.exists() else 0
        for values in rows:
            for value in values.v.tolist():
                count += 1
                self.values.appendValue((value, "x" * (value % 11)))
                self.seen.updateValue((value,), (count, "y" * (count % 5)))
        self.count.update((count,))
        timers = sorted(self.handle.listTimers())
        if len(timers) < 3:
            self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 60_000 + count)
        listed = sorted(map(tuple, self.values.get()))
        mapped = sorted((tuple(k), tuple(v)) for k, v in self.seen.iterator())
        yield pd.DataFrame({"k": [key[0]], "text": [str((count, listed, mapped, timers))]})

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Any]:
        import pandas as pd

        at = expiredTimerInfo.getExpiryTimeInMs()
        yield pd.DataFrame({"k": [key[0]], "text": [f"timer {at}"]})

    def close(self) -> None:
        return


class _WithTtl:
    """State that expires, though not during the test; puts out all that it has."""

    def init(self, handle: Any) -> None:
        self.last = handle.getValueState("last", "v long", 3_600_000)
        self.recent = handle.getListState("recent", "v long", 3_600_000)
        self.by = handle.getMapState("by", "v long", "t string", 3_600_000)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        import pandas as pd

        before = self.last.get()[0] if self.last.exists() else -1
        for values in rows:
            for value in values.v.tolist():
                self.recent.appendValue((value,))
                self.last.update((value,))
                self.by.updateValue((value % 7,), (str(value),))
        recent = sorted(v[0] for v in self.recent.get())
        by = sorted((k[0], v[0]) for k, v in self.by.iterator())
        yield pd.DataFrame({"k": [key[0]], "text": [str((before, recent, by))]})

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Any]:
        return iter(())

    def close(self) -> None:
        return
