"""One small streaming program for every stateful operator Spark has, and their common input.

Each takes a session and the input directory and returns (DataFrame, output mode). All read a
bounded file source, one file a batch, so an interrupted run and an uninterrupted one see the
same batches.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SCHEMA = (
    "id long, k int, name string, amt decimal(12,2), big decimal(30,5), ts timestamp, "
    "d double, tags array<string>, dup int"
)
FILES = 6
ROWS = 60
#: Programs that only exist from Spark 4.0 on and only on RocksDB.
ROCKSDB_ONLY = frozenset({"transform_with_state"})

#: Of pandas' way to name versions, on Spark 3.5.
OF_PANDAS = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore:distutils:DeprecationWarning"
)

Program = Callable[[SparkSession, str], tuple[DataFrame, str]]


def write_input(directory: str, first: int = 0, last: int = FILES) -> None:
    """Write input files ``first`` to ``last - 1`` of streams a and b (deterministic)."""
    for stream, seed in (("a", 11), ("b", 23)):
        os.makedirs(os.path.join(directory, stream), exist_ok=True)
        for number in range(first, last):
            rng = random.Random(seed * 1000 + number)
            lines = []
            for row in range(ROWS):
                # Two minutes a file, some rows up to 100 s late.
                second = number * 120 + row * 2 - (rng.randrange(100) if rng.random() < 0.2 else 0)
                second = max(second, 0)
                lines.append(
                    json.dumps(
                        {
                            "id": number * ROWS + row,
                            "k": rng.randrange(12),
                            "name": rng.choice(["ann", "bob", "cé", "dé " * 5, None]),
                            "amt": rng.randrange(-9999, 9999) / 100,
                            "big": rng.randrange(10**12) / 1000,
                            "ts": f"2024-03-01T{second // 3600:02d}:"
                            f"{second // 60 % 60:02d}:{second % 60:02d}Z",
                            "d": rng.choice([None, 0.0, rng.random()]),
                            "tags": [rng.choice("xyz") for _ in range(rng.randrange(3))],
                            "dup": rng.randrange(150),
                        }
                    )
                )
            path = os.path.join(directory, stream, f"f{number:03d}.json")
            with open(path + ".tmp", "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
            os.utime(path + ".tmp", (1.7e9 + number * 60, 1.7e9 + number * 60))
            os.rename(path + ".tmp", path)


def _read(spark: SparkSession, directory: str, stream: str = "a") -> DataFrame:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1")
    return reader.json(os.path.join(directory, stream, "*.json"))


def _timed(spark: SparkSession, directory: str, stream: str = "a") -> DataFrame:
    return _read(spark, directory, stream).withWatermark("ts", "2 minutes")


def stateless(spark: SparkSession, directory: str) -> tuple[DataFrame, str]:
    return _read(spark, directory).select("id", F.upper("name").alias("n")), "append"


def aggregation(spark: SparkSession, directory: str) -> tuple[DataFrame, str]:
    grouped = _read(spark, directory).groupBy("name")
    return (
        grouped.agg(
            F.count("*").alias("c"),
            F.sum("big").alias("s"),
            F.max("ts").alias("mx"),
            F.avg("d").alias("av"),
            F.first("tags").alias("ft"),
            F.max(F.struct("ts", "name")).alias("st"),
        ),
        "update",
    )


def global_count(spark: SparkSession, directory: str) -> tuple[DataFrame, str]:
    return _read(spark, directory).groupBy().agg(F.count("*").alias("c")), "update"


def complete_mode(spark: SparkSession, directory: str) -> tuple[DataFrame, str]:
    return _read(spark, directory).groupBy("k").agg(F.count("*").alias("c")), "complete"


def self_union(spark: SparkSession, directory: str) -> tuple[DataFrame, str]:
    """One DataFrame used twice: one source, two entries in the offset log."""
    frame = _read(spark, directory)
    return frame.union(frame).groupBy("k").agg(F.count("*").alias("c")), "update"


def window(spark: SparkSession, directory: str) -> tuple[DataFrame, str]:
    grouped = _timed(spark, directory).groupBy(F.window("ts", "3 minutes"), "name")
    return grouped.agg(F.count("*").alias("c"), F.sum("amt").alias("s")), "append"


def session_window(spark: SparkSession, directory: str) -> tuple[DataFrame, str]:
    grouped = _timed(spark, directory).groupBy(F.session_window("ts", "20 seconds"), "k")
    return grouped.agg(F.count("*").alias("c"), F.sum("d").alias("sd")), "append"


def dedup(spark: SparkSession, directory: str) -> tuple[DataFrame, str]:
    return _read(spark, directory).select("dup").dropDuplicates(["dup"]), "append"


def dedup_watermark(spark: SparkSession, directory: str) -> tuple[DataFrame, str]:
    return _timed(spark, directory).dropDuplicates(["k", "ts"]).select("k", "ts"), "append"


def dedup_within_watermark(spark: SparkSession, directory: str) -> tuple[DataFrame, str]:
    frame = _timed(spark, directory).dropDuplicatesWithinWatermark(["dup"])
    return frame.select("dup"), "append"


def _sides(spark: SparkSession, directory: str) -> tuple[DataFrame, DataFrame]:
    left = _timed(spark, directory).select(
        F.col("id").alias("aid"), F.col("k").alias("ak"), F.col("ts").alias("ats")
    )
    right = (
        _read(spark, directory, "b")
        .withWatermark("ts", "3 minutes")
        .select(F.col("id").alias("bid"), F.col("k").alias("bk"), F.col("ts").alias("bts"))
    )
    return left, right


_NEAR = "ak = bk and bts between ats - interval 30 seconds and ats + interval 30 seconds"


def join_inner(spark: SparkSession, directory: str) -> tuple[DataFrame, str]:
    left, right = _sides(spark, directory)
    return left.join(right, F.expr(_NEAR)), "append"


def join_left(spark: SparkSession, directory: str) -> tuple[DataFrame, str]:
    left, right = _sides(spark, directory)
    return left.join(right, F.expr(_NEAR.replace("30", "3")), "leftOuter"), "append"


def limit(spark: SparkSession, directory: str) -> tuple[DataFrame, str]:
    return _read(spark, directory).select("id", "k").limit(250), "append"


def chained(spark: SparkSession, directory: str) -> tuple[DataFrame, str]:
    inner = _timed(spark, directory).groupBy(F.window("ts", "1 minutes"), "k")
    counts = inner.agg(F.count("*").alias("c"))
    outer = counts.groupBy(F.window(F.window_time("window"), "4 minutes"))
    return outer.agg(F.sum("c").alias("c"), F.count("*").alias("n")), "append"


def pandas_with_state(spark: SparkSession, directory: str) -> tuple[DataFrame, str]:
    import pandas as pd

    def count(key: Any, frames: Any, state: Any) -> Any:
        if state.hasTimedOut:
            seen, last = state.get
            state.remove()
            yield pd.DataFrame({"k": [key[0]], "n": [-int(seen)], "last": [last]})
            return
        seen, last = state.getOption or (0, None)
        for frame in frames:
            seen += len(frame)
            last = str(frame["id"].max())
        state.update((seen, last))
        timeout = 60_000 * (1 + int(key[0]) % 5)
        state.setTimeoutTimestamp(int(state.getCurrentWatermarkMs()) + timeout)
        yield pd.DataFrame({"k": [key[0]], "n": [seen], "last": [last]})

    frame = (
        _timed(spark, directory)
        .groupBy("k")
        .applyInPandasWithState(
            count,
            "k int, n long, last string",
            "seen long, last string",
            "append",
            "EventTimeTimeout",
        )
    )
    return frame, "append"


def transform_with_state(spark: SparkSession, directory: str) -> tuple[DataFrame, str]:
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor

    class Counter(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.total = handle.getValueState("total", "n long")
            self.ids = handle.getListState("ids", "id long")
            self.tags = handle.getMapState("tags", "tag string", "n long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            seen = self.total.get()[0] if self.total.exists() else 0
            for frame in rows:
                for row in frame.itertuples():
                    seen += 1
                    self.ids.appendValue((int(row.id),))
                    for tag in row.tags if row.tags is not None else ():
                        before = self.tags.getValue((tag,))
                        self.tags.updateValue((tag,), ((before[0] if before else 0) + 1,))
            self.total.update((seen,))
            for timer in self.handle.listTimers():
                self.handle.deleteTimer(timer)
            self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 300_000)
            ids = sum(1 for _ in self.ids.get())
            tags = sum(v[0] for v in self.tags.values())
            yield pd.DataFrame({"k": [key[0]], "n": [seen], "what": [f"i{ids} t{tags}"]})

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
            yield pd.DataFrame({"k": [key[0]], "n": [-self.total.get()[0]], "what": ["timer"]})
            self.total.clear()
            self.ids.clear()

        def close(self) -> None:
            return

    frame = (
        _timed(spark, directory)
        .groupBy("k")
        .transformWithStateInPandas(Counter(), "k int, n long, what string", "append", "eventtime")
    )
    return frame, "append"


PROGRAMS: dict[str, Program] = {
    program.__name__: program
    for program in (
        stateless,
        aggregation,
        global_count,
        complete_mode,
        self_union,
        window,
        session_window,
        dedup,
        dedup_watermark,
        dedup_within_watermark,
        join_inner,
        join_left,
        limit,
        chained,
        pandas_with_state,
        transform_with_state,
    )
}

HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PREFIX = "spark.sql.streaming.stateStore"
BACKENDS: dict[str, dict[str, str]] = {
    "hdfs": {f"{_PREFIX}.providerClass": HDFS},
    "rocksdb": {f"{_PREFIX}.providerClass": ROCKSDB},
    "rocksdb-changelog": {
        f"{_PREFIX}.providerClass": ROCKSDB,
        f"{_PREFIX}.rocksdb.changelogCheckpointing.enabled": "true",
    },
    "rocksdb-format2": {
        f"{_PREFIX}.providerClass": ROCKSDB,
        f"{_PREFIX}.rocksdb.changelogCheckpointing.enabled": "true",
        f"{_PREFIX}.checkpointFormatVersion": "2",
    },
}
