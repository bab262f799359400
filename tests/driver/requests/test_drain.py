"""``stop --drain``: all that waits for the watermark is in the sink, as a batch computes it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flinkish.checkpoint.cut import newest_committed_batch, newest_entries
from flinkish.checkpoint.format.logs import MAX_WATERMARK_MS
from flinkish.driver.spark.jvm import configured
from flinkish.errors import FlinkishError
from flinkish.launch.restart_strategy import may_restart
from flinkish.messages.launch import RestoreSpec
from flinkish.registry.jobs import JobState, RequestKind
from flinkish.savepoint.format.reader import FULL, check_files, describe, open_savepoint
from tests.driver.test_gate import rate, rate_key
from tests.support.driver.in_process_job import InProcessJob
from tests.support.driver.operator_programs import BACKENDS

pytestmark = pytest.mark.spark

NewJob = Callable[..., InProcessJob]
SCHEMA = "side string, k string, t timestamp, v long"
#: Minutes of the events: two windows are past the watermark of 10 minutes, the rest is open.
MINUTES = (0, 3, 12, 14, 31, 33, 34, 55, 58)


def write_input(directory: Path) -> None:
    """A file a row, so that several batches have them."""
    directory.mkdir()
    for number, minute in enumerate(MINUTES):
        rows = [
            {
                "side": side,
                "k": "ab"[(number + shift) % 2],
                "t": f"2026-01-01T00:{minute:02}:00Z",
                "v": number,
            }
            for side, shift in (("left", 0), ("right", number % 3))
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        path = directory / f"{number}.json"
        path.write_text(text)
        os.utime(path, (1_700_000_000 + number,) * 2)  # Spark reads them by age


def windows(frame: Any) -> Any:
    from pyspark.sql import functions as F

    keyed = frame.groupBy(F.window("t", "10 minutes"), "k")
    return keyed.agg(F.count("*").alias("n"), F.sum("v").alias("s")).select(
        F.col("window.start").cast("string").alias("a"), "k", "n", "s"
    )


def sessions(frame: Any) -> Any:
    from pyspark.sql import functions as F

    keyed = frame.groupBy(F.session_window("t", "5 minutes"), "k")
    return keyed.agg(F.count("*").alias("n"), F.sum("v").alias("s")).select(
        F.col("session_window.start").cast("string").alias("a"), "k", "n", "s"
    )


def outer_join(frame: Any) -> Any:
    from pyspark.sql import functions as F

    left = frame.where("side = 'left'").select(F.col("k"), F.col("t"), F.col("v"))
    right = frame.where("side = 'right' AND v % 2 = 0").select(
        F.col("k").alias("rk"), F.col("t").alias("rt"), F.col("v").alias("rv")
    )
    near = F.expr("k = rk AND rt BETWEEN t - INTERVAL 2 MINUTES AND t + INTERVAL 2 MINUTES")
    joined = left.join(right, near, "leftOuter")
    return joined.select(F.col("t").cast("string").alias("a"), "k", "v", "rv")


def timers(frame: Any) -> Any:
    """Rows and sum of each key, put out an hour after its last event."""
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor

    class Totals(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle
            self.totals = handle.getValueState("totals", "n long, s long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            n, s = self.totals.get() if self.totals.exists() else (0, 0)
            last = 0
            for part in rows:
                n, s = n + len(part), s + int(part["v"].sum())
                last = max(last, int(part["t"].max().timestamp() * 1000))
            self.totals.update((n, s))
            for timer in list(self.handle.listTimers()):
                self.handle.deleteTimer(timer)
            self.handle.registerTimer(last + 3_600_000)
            return iter([])

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
            n, s = self.totals.get()
            self.totals.clear()
            yield pd.DataFrame({"k": [key[0]], "n": [n], "s": [s]})

        def close(self) -> None:
            pass

    keyed = frame.groupBy("k")
    return keyed.transformWithStateInPandas(
        Totals(), "k string, n long, s long", "append", "eventtime"
    )


def totals(frame: Any) -> Any:
    from pyspark.sql import functions as F

    return frame.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("s"))


PROGRAMS = {
    "windows": windows,
    "sessions": sessions,
    "outer_join": outer_join,
    "timers": timers,
}
#: What a batch computes in place of programs that it cannot run.
ORACLES = {"timers": totals}


@pytest.fixture
def backend(request: pytest.FixtureRequest, spark: Any) -> Iterator[str]:
    with configured(spark, BACKENDS[request.param]):
        yield request.param


#: transformWithState keeps its state in RocksDB only. One case is proven at every run.
CASES = [
    ("windows", "hdfs"),
    *(pytest.param(name, "hdfs", marks=pytest.mark.deep) for name in ("outer_join", "sessions")),
    *(pytest.param(name, "rocksdb", marks=pytest.mark.deep) for name in PROGRAMS),
]


@pytest.mark.parametrize(("name", "backend"), CASES, indirect=["backend"])
def test_the_output_is_that_of_the_batch(
    spark: Any, new_job: NewJob, tmp_path: Path, backend: str, name: str
) -> None:
    if name == "timers" and spark.version < "4":
        pytest.skip("transformWithState came with Spark 4")
    source, out = tmp_path / "in", tmp_path / "out"
    write_input(source)
    make = PROGRAMS[name]

    def program() -> None:
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        frame = make(reader.json(str(source)).withWatermark("t", "10 minutes"))
        writer = frame.writeStream.queryName("q").format("parquet").outputMode("append")
        writer.option("path", str(out)).start()
        spark.streams.awaitAnyTermination()

    job = new_job().start(program)
    job.wait_until(lambda: job.batch() >= len(MINUTES) - 1)
    job.wait_for_heartbeats(1)
    result = job.request(RequestKind.STOP, str(tmp_path / "sp"), drain=True)
    assert job.wait().state is JobState.FINISHED

    expected = ORACLES.get(name, make)(spark.read.schema(SCHEMA).json(str(source)))
    found = spark.read.parquet(str(out))
    assert sorted(map(tuple, found.collect()), key=repr) == sorted(
        map(tuple, expected.collect()), key=repr
    )
    savepoint = open_savepoint(result["savepoint"]["path"])
    check_files(savepoint, FULL)
    (query,) = describe(savepoint)["savepoint"]["queries"]
    assert query["drained"] is True
    (facts,) = job.runtime.queries()
    assert query["batch_id"] == newest_committed_batch(facts.checkpoint)

    # A restore of it says what that means.
    again = new_job(restore=RestoreSpec(path=savepoint.path)).start(program)
    again.wait_until(lambda: len(again.runtime.queries()) == 1)
    (plan,) = (query.plan for query in again.runtime.queries())
    assert plan is not None
    assert [check.id for check in plan.checks] == ["drained"]
    again.request(RequestKind.CANCEL)
    again.wait()


def test_input_that_comes_meanwhile_stays(spark: Any, new_job: NewJob, tmp_path: Path) -> None:
    source = tmp_path / "in"
    write_input(source)

    def program() -> None:
        frame = spark.readStream.schema(SCHEMA).json(str(source)).withWatermark("t", "10 minutes")
        writer = windows(frame).writeStream.queryName("q").format("noop").outputMode("append")
        writer.trigger(processingTime="1 hour").start()
        spark.streams.awaitAnyTermination()

    job = new_job().start(program)
    job.wait_until(lambda: job.batch() >= 0)
    (query,) = job.runtime.queries()
    before = newest_entries(query.checkpoint)
    assert before is not None
    (source / "late.json").write_text((source / "0.json").read_text())
    job.request(RequestKind.STOP, str(tmp_path / "sp"), drain=True)
    assert job.wait().state is JobState.FINISHED
    after = newest_entries(query.checkpoint)
    assert after is not None
    assert after[0].offsets == before[0].offsets
    assert after[0].watermark_ms == after[1].next_watermark_ms == MAX_WATERMARK_MS


def test_a_query_without_a_watermark_is_saved_as_it_is(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    def program() -> None:
        frame = rate(spark).groupBy(rate_key()).count()
        frame.writeStream.queryName("q").outputMode("update").format("noop").start()
        spark.streams.awaitAnyTermination()

    job = new_job().start(program)
    job.wait_until(lambda: job.batch() >= 1)
    result = job.request(RequestKind.STOP, str(tmp_path / "sp"), drain=True)
    assert job.wait().state is JobState.FINISHED
    (query,) = describe(open_savepoint(result["savepoint"]["path"]))["savepoint"]["queries"]
    assert query["drained"] is False


def test_a_sink_that_fails_while_draining_fails_the_job(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    source = tmp_path / "in"
    write_input(source)

    def broken(frame: Any, batch: int) -> None:
        if batch > 0:
            raise ValueError("the sink is full")
        frame.count()

    def program() -> None:
        frame = spark.readStream.schema(SCHEMA).json(str(source)).withWatermark("t", "10 minutes")
        writer = windows(frame).writeStream.queryName("q").outputMode("append")
        writer.foreachBatch(broken).trigger(processingTime="1 hour").start()
        spark.streams.awaitAnyTermination()

    job = new_job().start(program)
    job.wait_until(lambda: job.batch() >= 0)
    with pytest.raises(FlinkishError, match="the last batch of query 'q' failed"):
        job.request(RequestKind.STOP, str(tmp_path / "sp"), drain=True)
    failed = job.wait()
    assert failed.state is JobState.FAILED
    assert failed.failure is not None
    assert "cannot continue after that" in failed.failure["message"]
    assert not may_restart(failed.failure, has_run=True)
    assert not list((tmp_path / "sp").glob("savepoint-*"))
