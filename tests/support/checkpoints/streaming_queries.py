"""Real streaming queries whose checkpoints the tests cut, copy and resume. Run as a program.

``python -m tests.support.checkpoints.streaming_queries roundtrip DIR [CASE...]`` runs every case in
one Spark session: a query over a bounded file source, saved in the middle by ``write_savepoint``,
carried to another place, materialised there with the original deleted, and resumed. It writes
``DIR/results.json``: case -> the rows of every batch of the uninterrupted and of the resumed run.

``python -m tests.support.checkpoints.streaming_queries record DIR`` writes the small recorded
checkpoints of ``tests/data/checkpoints``; DIR must be the neutral place their absolute paths then
name.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

STORE = "spark.sql.streaming.stateStore."
PROVIDERS = "org.apache.spark.sql.execution.streaming.state."
JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"

BACKENDS: dict[str, dict[str, str]] = {
    "hdfs": {f"{STORE}providerClass": f"{PROVIDERS}HDFSBackedStateStoreProvider"},
    "rocksdb": {f"{STORE}providerClass": f"{PROVIDERS}RocksDBStateStoreProvider"},
    "changelog": {
        f"{STORE}providerClass": f"{PROVIDERS}RocksDBStateStoreProvider",
        f"{STORE}rocksdb.changelogCheckpointing.enabled": "true",
    },
    "ids": {
        f"{STORE}providerClass": f"{PROVIDERS}RocksDBStateStoreProvider",
        f"{STORE}rocksdb.changelogCheckpointing.enabled": "true",
        f"{STORE}checkpointFormatVersion": "2",
    },
    "ids-long": {
        # No snapshot ever: a chain of changelogs longer than the commits that name their ids.
        f"{STORE}providerClass": f"{PROVIDERS}RocksDBStateStoreProvider",
        f"{STORE}rocksdb.changelogCheckpointing.enabled": "true",
        f"{STORE}checkpointFormatVersion": "2",
        f"{STORE}minDeltasForSnapshot": "100",
    },
    "ids-zip": {
        f"{STORE}providerClass": f"{PROVIDERS}RocksDBStateStoreProvider",
        f"{STORE}checkpointFormatVersion": "2",
    },
}
#: Settings a case may set: unset between cases.
SETTINGS = sorted({key for confs in BACKENDS.values() for key in confs} | {JOIN_FORMAT})

#: "planned": saved while batch CUT + 1 runs; "quiet": saved while no batch runs, then started anew.
CASES: dict[str, str] = {
    "hdfs/agg": "planned",
    "hdfs/dedup": "quiet",
    "hdfs/join": "planned",
    "hdfs/keyless": "planned",
    "hdfs/limit": "quiet",
    "hdfs/stateless": "planned",
    "hdfs/pandas": "planned",
    "rocksdb/agg": "quiet",
    "rocksdb/dedup": "planned",
    "rocksdb/join": "planned",
    "rocksdb/session": "planned",
    "rocksdb/tws": "planned",
    "rocksdb/chained": "quiet",
    "changelog/agg": "planned",
    "changelog/join": "quiet",
    "changelog/join3": "planned",
    "ids/agg": "planned",
    "ids/dedup": "quiet",
    "ids/join": "planned",
    "ids/tws": "quiet",
    "ids-long/agg": "planned",
    "ids-zip/agg": "planned",
}
SPARK4_ONLY = ("tws", "join3", "ids")

FILES = 7
#: The batch during which a "planned" case is saved; a "quiet" one has this many before.
CUT = 4


@dataclass
class Collected:
    """Rows of every batch, sorted, as text."""

    batches: dict[int, list[str]]


def write_inputs(directory: str, numbers: range, clock: int = 1_700_000_000) -> None:
    """JSON files of 20 rows; modification times order them for the file source."""
    os.makedirs(directory, exist_ok=True)
    for i in numbers:
        hidden, path = f"{directory}/.{i:03}.json", f"{directory}/{i:03}.json"
        with open(hidden, "w", encoding="utf-8") as file:
            for j in range(20):
                row = {
                    "ts": f"2024-01-01T00:{i:02}:{j:02}",
                    "k": f"k{j % 5}",
                    "v": (i * 7 + j) % 40,
                }
                file.write(json.dumps(row) + "\n")
        os.utime(hidden, (clock + i, clock + i))
        os.rename(hidden, path)


#: Trim and compact early: the cut has to find its way through what is left.
SESSION = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.fileSource.log.compactInterval": "3",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "1ms",
    f"{STORE}minDeltasForSnapshot": "2",
}


def make_session(work: str) -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("flinkish-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.warehouse.dir", f"{work}/warehouse")
        .config(f"{STORE}maintenanceInterval", "300ms")
    )
    for key, value in SESSION.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def frame(spark: Any, operator: str, source: str) -> tuple[Any, str]:
    """The query of an operator and its output mode."""
    from pyspark.sql import functions as F

    def events() -> Any:
        return (
            spark.readStream.schema("ts timestamp, k string, v long")
            .option("maxFilesPerTrigger", 1)
            .json(source)
            .withWatermark("ts", "1 minute")
        )

    same = "a.k = b.k AND a.v = b.v AND a.ts = b.ts"
    frames: dict[str, Callable[[], tuple[Any, str]]] = {
        "agg": lambda: (
            events().groupBy(F.window("ts", "2 minutes"), "k").agg(F.sum("v"), F.count("*")),
            "append",
        ),
        "dedup": lambda: (events().dropDuplicates(["k", "v"]), "append"),
        "join": lambda: (events().alias("a").join(events().alias("b"), F.expr(same)), "append"),
        "join3": lambda: (events().alias("a").join(events().alias("b"), F.expr(same)), "append"),
        "stateless": lambda: (events().select("k", "v"), "append"),
        "limit": lambda: (events().select("k", "v").limit(130), "append"),
        "keyless": lambda: (events().groupBy().agg(F.count("*"), F.sum("v")), "complete"),
        "session": lambda: (
            events().groupBy(F.session_window("ts", "30 seconds"), "k").count(),
            "append",
        ),
        "chained": lambda: (
            events()
            .groupBy(F.window("ts", "1 minute"), "k")
            .count()
            .groupBy(F.window("window", "2 minutes"))
            .agg(F.sum("count")),
            "append",
        ),
        "pandas": lambda: (
            events()
            .groupBy("k")
            .applyInPandasWithState(
                _count_rows, "k string, n long", "n long", "update", "NoTimeout"
            ),
            "update",
        ),
        "tws": lambda: (
            events()
            .groupBy("k")
            .transformWithStateInPandas(_processor(), "k string, n long", "Update", "None"),
            "update",
        ),
    }
    return frames[operator]()


def _count_rows(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
    import pandas as pd

    count = state.get[0] if state.exists else 0
    count += sum(len(rows) for rows in frames)
    state.update((count,))
    yield pd.DataFrame({"k": [key[0]], "n": [count]})


def _processor() -> Any:
    from pyspark.sql.streaming import StatefulProcessor

    class Counter(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("count", "n long")
            self.values = handle.getListState("values", "v long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            import pandas as pd

            count = self.count.get()[0] if self.count.exists() else 0
            for values in rows:
                count += len(values)
                for value in values.v.tolist():
                    self.values.appendValue((value,))
            self.count.update((count,))
            stored = sum(1 for _ in self.values.get())
            yield pd.DataFrame({"k": [key[0]], "n": [count * 1000 + stored]})

        def close(self) -> None:
            return

    return Counter()


def run_query(
    spark: Any,
    operator: str,
    source: str,
    checkpoint: str,
    at_batch: Callable[[int], None] = lambda batch: None,
) -> dict[int, list[str]]:
    """Run a query over what is in ``source`` to its end; rows by batch."""
    batches: dict[int, list[str]] = {}

    def collect(rows: Any, batch: int) -> None:
        batches[batch] = sorted(str(row) for row in rows.collect())
        at_batch(batch)

    query_frame, mode = frame(spark, operator, source)
    query = (
        query_frame.writeStream.outputMode(mode)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .foreachBatch(collect)
        .start()
    )
    if not query.awaitTermination(120):
        query.stop()
        raise TimeoutError(f"{operator} did not end")
    return batches


def configure(spark: Any, case: str) -> str:
    """Set what a case needs; its operator."""
    backend, operator = case.split("/")
    for key in SETTINGS:
        spark.conf.unset(key)
    spark.conf.set(f"{STORE}minDeltasForSnapshot", "2")
    for key, value in BACKENDS[backend].items():
        spark.conf.set(key, value)
    if operator == "join3":
        spark.conf.set(JOIN_FORMAT, "3")
    return operator


def roundtrip(spark: Any, case: str, work: str) -> dict[str, Any]:
    """Save in the middle, delete the original, resume elsewhere; both runs' rows and facts."""
    from flinkish.checkpoint.cut import read_cut
    from flinkish.restore.materialize.new_checkpoint import make_checkpoint
    from flinkish.restore.recipe import OriginCheckpoint, Recipe
    from flinkish.savepoint.format.contents import QuerySource, SavepointJob
    from flinkish.savepoint.format.reader import check_files, open_savepoint
    from flinkish.savepoint.reporter import SilentSavepointReporter
    from flinkish.savepoint.write.writer import write_savepoint

    operator = configure(spark, case)
    source, original = f"{work}/in", f"{work}/original"
    infos: list[Any] = []

    def save() -> None:
        infos.append(
            write_savepoint(
                f"{work}/savepoints",
                SavepointJob("0123456789abcdef" * 2, case, spark.version),
                [QuerySource(f"query {case}", original)],
                trigger="savepoint",
                reporter=SilentSavepointReporter(),
            )
        )

    if CASES[case] == "planned":
        write_inputs(source, range(FILES))
        whole = run_query(
            spark, operator, source, original, lambda batch: save() if batch == CUT else None
        )
    else:
        write_inputs(source, range(CUT))
        first = run_query(spark, operator, source, original)
        save()
        write_inputs(source, range(CUT, FILES))
        whole = {**first, **run_query(spark, operator, source, original)}
    [info] = infos
    moved = f"{work}/elsewhere/{os.path.basename(info.path)}"
    os.makedirs(os.path.dirname(moved))
    os.rename(info.path, moved)
    # By another name first: Spark's maintenance may still be writing into it.
    os.rename(original, f"{work}/gone")
    shutil.rmtree(f"{work}/gone", ignore_errors=True)
    savepoint = open_savepoint(moved)
    check_files(savepoint, "full")
    [query] = savepoint.queries
    resumed = f"{work}/resumed"
    files = tuple(record.path for record in savepoint.iter_files())
    origin = OriginCheckpoint(savepoint.query_root(query), files, query.batch_id)
    make_checkpoint(Recipe((origin,)), resumed)
    cut = read_cut(resumed)
    shutil.rmtree(moved)
    again = run_query(spark, operator, source, resumed)
    after = read_cut(resumed)
    return {
        "whole": whole,
        "resumed": again,
        "batch": query.batch_id,
        "planned": query.planned_batch,
        "same_query": after.query_id == query.query_id == cut.query_id,
        "kinds": [found.state.kind for found in query.operators],
        "partitions": [found.state.partitions for found in query.operators],
        "format": query.checkpoint_format,
        "end": after.batch_id,
        "files": list(cut.files),
        "moved_bytes": info.moved_bytes,
    }


def main(work: str, chosen: list[str], session: Any = None) -> None:
    """Run cases; without a session in one of their own, which is stopped at the end."""
    spark = session or make_session(work)
    old = spark.version.startswith("3.")
    results: dict[str, Any] = {"spark": spark.version}
    for case in chosen or CASES:
        if old and any(word in case.replace("-", "/").split("/") for word in SPARK4_ONLY):
            continue
        started = time.monotonic()
        try:
            results[case] = roundtrip(spark, case, f"{work}/{case}")
        except Exception:  # noqa: BLE001 - the case's test shows it; the others still run
            results[case] = {"error": traceback.format_exc()}
        seconds = round(time.monotonic() - started, 1)
        results[case]["seconds"] = seconds
        outcome = "FAILED" if "error" in results[case] else "ran"
        print(f"{case}: {outcome} in {seconds} s", flush=True)
    if session is None:
        spark.stop()
    with open(f"{work}/results.json", "w", encoding="utf-8") as file:
        json.dump(results, file)


def record(work: str) -> None:
    """Small checkpoints with all their files, as Spark leaves them."""
    spark = make_session(work)
    old = spark.version.startswith("3.")
    cases = ["hdfs/join", "rocksdb/agg"] if old else RECORDED_4
    name = "spark35" if old else "spark43"
    for case in cases:
        operator = configure(spark, case)
        spark.conf.set("spark.sql.streaming.minBatchesToRetain", "3")
        write_inputs(f"{work}/in", range(6))
        run_query(
            spark,
            operator,
            f"{work}/in",
            f"{work}/{name}-{case.replace('/', '-')}",
            lambda batch: time.sleep(0.5 if batch in {3, 4} else 0),
        )
    spark.stop()


RECORDED_4 = [
    "hdfs/agg",
    "hdfs/limit",
    "rocksdb/dedup",
    "rocksdb/tws",
    "changelog/agg",
    "changelog/join3",
    "ids/join",
    "ids-zip/dedup",
]


if __name__ == "__main__":
    verb, directory, *names = sys.argv[1:]
    os.makedirs(directory, exist_ok=True)
    if verb == "record":
        record(os.path.abspath(directory))
    else:
        main(os.path.abspath(directory), names)
