"""A driver that measures the engine: ``engine_program.py DIRECTORY ROWS FROM TO RUNS``.

It makes a RocksDB state of so many rows (a string key, eight value columns, about 150 bytes a row,
as an aggregation has them) with a real query, once, and then, in one Spark session:

- ``spark``: Spark's own offline repartition (4.2 and later) of a copy of the checkpoint;
- ``rescale``: the engine's, of the same checkpoint;
- ``shuffled``: the same through a shuffle;
- ``evolve``: the engine gives a value column more width and adds one, and rescales;
- ``typed``: the engine writes the values of a typed state again, whose class has a field more and
  one fewer, and rescales. The bytes are in the last column, as a typed state's are.

One line of JSON a measurement goes to stdout.
"""

from __future__ import annotations

import copy
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from flinkish.engine.avro.schemas import unique_names
from flinkish.engine.migration.checkpoint_migration import rewrite_checkpoint
from flinkish.engine.migration.evolution import join_path
from flinkish.engine.migration.migration_plan import OperatorMigration
from flinkish.engine.migration.migration_planner import FamilyChange, TargetState
from flinkish.engine.stores.checkpoints import read_checkpoint
from flinkish.engine.stores.files import LocalDirectory
from flinkish.state import serializer_of, state_type, write_snapshot
from flinkish.state.builtin.splicing import Rewriter
from flinkish.state.generations import resolve_state
from flinkish.state.snapshots import ModuleLoader

#: A value of :class:`Stats`: its generation, and each field behind its size.
STATS = "unhex(concat('0008', lpad(hex(n), 16, '0'), '083FF0000000000000'))"
SETTINGS = {
    "spark.driver.memory": "3g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


def make_state(spark: Any, directory: Path, rows: int, partitions: int) -> Path:
    """A checkpoint with the state, which is made when it is not there."""
    checkpoint = directory / "checkpoint"
    if (checkpoint / "commits" / "0").exists():
        return checkpoint
    source = directory / "input"
    source.mkdir(parents=True, exist_ok=True)
    (source / "0.json").write_text(json.dumps({"start": 0, "end": rows}) + "\n")
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    ranges = spark.readStream.schema("start long, end long").json(str(source))
    keys = ranges.select(F.expr("explode(sequence(start, end - 1)) AS n")).repartition(partitions)
    query = (
        keys.selectExpr("concat('key-', n) AS key", "n")
        .groupBy("key")
        .agg(
            F.count("*").alias("rows"),
            F.sum("n").alias("total"),
            F.min("n").alias("least"),
            F.max("n").alias("most"),
            F.avg("n").alias("mean"),
            F.first(F.expr("CAST(n AS int)")).alias("small"),
            F.first(F.expr(STATS)).alias("stats"),
        )
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .format("noop")
        .start()
    )
    query.awaitTermination()
    return checkpoint


def evolved(checkpoint: Path) -> dict[tuple[str, str], FamilyChange]:
    """The value's last column, an int, becomes a long, and a string is added."""
    [operator] = read_checkpoint(LocalDirectory(str(checkpoint))).operators
    [store] = operator.stores
    [family] = store.families
    value = copy.deepcopy(family.value)
    last = next(f for f in reversed(value["fields"]) if f["type"] == "integer")
    last["type"] = "long"
    value["fields"].append({"name": "note", "type": "string", "nullable": True, "metadata": {}})
    return {(store.name, family.name): FamilyChange(value=value)}


@dataclass
class Stats:
    """The class of the typed state, when it was written."""

    count: int
    total: float


@state_type(aliases=["Stats"])
@dataclass
class NewStats:
    """The class as it is now."""

    count: int
    least: int = 0


def migrated(checkpoint: Path) -> dict[tuple[str, str], FamilyChange]:
    """The values of the binary column become those of the new class, as a restore does it."""
    [operator] = read_checkpoint(LocalDirectory(str(checkpoint))).operators
    [store] = operator.stores
    [family] = store.families
    fields = family.value["fields"]
    paths = [join_path("", name) for name in unique_names(field["name"] for field in fields)]
    column = next(path for path, field in zip(paths, fields, strict=True)
                  if field["type"] == "binary")  # fmt: skip
    old = write_snapshot(serializer_of(Stats).snapshot_configuration())
    loader = ModuleLoader("the benchmark's state", ("flinkish", Stats.__module__))
    found = resolve_state([old], serializer_of(NewStats), loader, eager=True)
    assert found.rewriting is not None
    change = FamilyChange(value=family.value, recodes={column: Rewriter(found.rewriting)})
    return {(store.name, family.name): change}


def _own_peak(_: int) -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def worker_peak(spark: Any) -> int:
    """The peak of the resident memory of any Python worker so far, in bytes; they are kept."""
    return int(spark.sparkContext.parallelize(range(16), 16).map(_own_peak).max())


def main(directory: Path, rows: int, before: int, after: int, runs: int) -> None:
    builder = SparkSession.builder.master("local[2]").appName("engine")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    checkpoint = make_state(spark, directory, rows, before)
    target = directory / "target"

    def with_spark() -> str:
        # Spark rewrites the checkpoint itself: what is measured is not the copy.
        manager = spark._streamingCheckpointManager
        manager.repartition(str(target), after)
        return ""

    def with_engine(changes: dict[tuple[str, str], FamilyChange]) -> str:
        result = rewrite_checkpoint(
            spark.sparkContext,
            LocalDirectory(str(checkpoint)),
            LocalDirectory(str(target)),
            TargetState(partitions=after),
            each={0: TargetState(changes=changes)},
        )
        [operator] = result.operators
        return "shuffled" if operator.shuffle else "native" if operator.native else "direct"

    def with_shuffle() -> str:
        planned: Any = OperatorMigration
        decided = planned.shuffle
        planned.shuffle = property(lambda _: "for comparison")
        try:
            return with_engine({})
        finally:
            planned.shuffle = decided

    ways: dict[str, tuple[Callable[[], str], bool]] = {
        "spark": (with_spark, True),
        "rescale": (lambda: with_engine({}), False),
        "shuffled": (with_shuffle, False),
        "evolve": (lambda: with_engine(evolved(checkpoint)), False),
        "typed": (lambda: with_engine(migrated(checkpoint)), False),
    }
    for run in range(runs):
        for name, (way, copied) in ways.items():
            shutil.rmtree(target, ignore_errors=True)
            if copied:
                shutil.copytree(checkpoint, target)
            start = time.monotonic()
            how = way()
            seconds = time.monotonic() - start
            measured = {"way": name, "how": how, "run": run, "seconds": seconds}
            print(json.dumps({**measured, "peak": worker_peak(spark)}), flush=True)
    spark.stop()


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
