"""What Spark's own reader of state (``format("statestore")``, Spark 4) finds. Run as a program.

``python -m tests.support.engine.state_reader_oracle DIR`` runs a query for every case, with its
checkpoint in ``DIR/<case>``, unpacks the recorded checkpoints that it can read (of Spark 3.5 too)
beside them, rewrites some of all these with the engine's writers, reads the state of all with
Spark, and writes ``DIR/results.json``: case -> for each read ``{"store", "family", "kind",
"rows"}``, where a row is [partition, key rows, value row], in hexadecimal, each the bytes of the
UnsafeRow that Spark has in its hands.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.checkpoints import streaming_queries as cases
from tests.support.checkpoints.recorded import unpack
from tests.support.engine.case_programs import run_cases, run_through
from tests.support.engine.rewrite_checkpoint import rewrite

CODEC = f"{cases.STORE}compression.codec"
SIDES = ("left", "right")


@dataclass(frozen=True)
class Read:
    """One use of Spark's reader: which options, and which rows of ours they have to equal.

    ``store`` is the store's directory below a partition ("" where it has none), ``family`` the
    column family. ``kind`` is how a row is compared: "rows" key and value, "list" with one row for
    each element, "count" their number. ``prefix`` columns of a key are a row of their own.
    """

    options: dict[str, str]
    store: str = ""
    family: str = "default"
    kind: str = "rows"
    prefix: int = 0
    operator: int = 0


@dataclass(frozen=True)
class Case:
    """A query (``streaming_queries.frame`` or one here), and where to look at its state."""

    backend: str
    query: str
    reads: tuple[Read, ...] = (Read({}),)
    codec: str = "lz4"
    settings: tuple[tuple[str, str], ...] = ()


def _join(*, families: bool) -> tuple[Read, ...]:
    """The stores of a join; with one store they are its column families."""
    names = [
        f"{side}-{part}" for side in SIDES for part in ("keyToNumValues", "keyWithIndexToValue")
    ]
    if families:
        return tuple(Read({"storeName": name}, family=name) for name in names)
    return tuple(Read({"storeName": name}, store=name) for name in names)


TWS_READS = (
    Read({"stateVarName": "count"}, family="count"),
    Read({"stateVarName": "values"}, family="values", kind="list"),
    Read({"stateVarName": "seen"}, family="seen", kind="count"),
    Read({"readRegisteredTimers": "true"}, family="$eventTimers_keyToTimestamp", kind="count"),
)
TTL_READS = (
    Read({"stateVarName": "last"}, family="last", kind="count"),
    Read({"stateVarName": "recent"}, family="recent", kind="count"),
)
SESSION_ROCKSDB = (Read({}, prefix=1),)
CHAINED = (Read({}), Read({"operatorId": "1"}, operator=1))
JOIN3 = ((cases.JOIN_FORMAT, "3"),)
JOIN4 = ((cases.JOIN_FORMAT, "4"),)
JOIN4_READS = tuple(
    Read({"joinSide": s}, family=f"{s}-keyWithTsToValues", kind="count") for s in SIDES
)

LIVE: dict[str, Case] = {
    "hdfs-agg": Case("hdfs", "agg"),
    "hdfs-dedup": Case("hdfs", "dedup"),
    "hdfs-join": Case("hdfs", "join", _join(families=False)),
    "hdfs-session": Case("hdfs", "session"),
    "hdfs-pandas": Case("hdfs", "pandas"),
    "hdfs-keyless": Case("hdfs", "keyless"),
    "hdfs-chained": Case("hdfs", "chained", CHAINED),
    "hdfs-types": Case("hdfs", "types"),
    "hdfs-zstd": Case("hdfs", "agg", codec="zstd"),
    "hdfs-snappy": Case("hdfs", "agg", codec="snappy"),
    "hdfs-lzf": Case("hdfs", "types", codec="lzf"),
    "rocksdb-session": Case("rocksdb", "session", SESSION_ROCKSDB),
    "rocksdb-join": Case("rocksdb", "join", _join(families=False)),
    "rocksdb-limit": Case("rocksdb", "limit"),
    "rocksdb-pandas": Case("rocksdb", "pandas"),
    "rocksdb-types": Case("rocksdb", "types"),
    "rocksdb-tws": Case("rocksdb", "tws-all", TWS_READS),
    "rocksdb-ttl": Case("rocksdb", "tws-ttl", TTL_READS),
    "changelog-dedup": Case("changelog", "dedup"),
    "changelog-session": Case("changelog", "session", SESSION_ROCKSDB),
    "changelog-join3": Case("changelog", "join3", _join(families=True), settings=JOIN3),
    "changelog-join4": Case("changelog", "join3", JOIN4_READS, settings=JOIN4),
    "changelog-tws": Case("changelog", "tws-all", TWS_READS),
    "changelog-zstd": Case("changelog", "agg", codec="zstd"),
    "ids-join": Case("ids", "join", _join(families=False)),
    "ids-tws": Case("ids", "tws-all", TWS_READS),
    "ids-long-agg": Case("ids-long", "agg"),
    "ids-zip-agg": Case("ids-zip", "agg"),
}
#: Recorded checkpoints without absolute paths in them: those of Spark 3.5 are read by 4.3 too.
RECORDED: dict[str, tuple[Read, ...]] = {
    "spark35-hdfs-join": _join(families=False),
    "spark35-rocksdb-agg": (Read({}),),
    "spark43-changelog-agg": (Read({}),),
    "spark43-hdfs-agg": (Read({}),),
    "spark43-hdfs-limit": (Read({}),),
    "spark43-ids-join": _join(families=False),
    "spark43-ids-zip-dedup": (Read({}),),
    "spark43-rocksdb-dedup": (Read({}),),
}
#: name -> the case whose state is written anew, and the codec for it.
REWRITTEN: dict[str, tuple[str, str]] = {
    "rewritten-hdfs-zstd": ("spark43-hdfs-agg", "zstd"),
    "rewritten-hdfs-snappy": ("spark43-hdfs-agg", "snappy"),
    "rewritten-hdfs-lzf": ("spark43-hdfs-agg", "lzf"),
    "rewritten-hdfs-35": ("spark35-hdfs-join", "lz4"),
    "rewritten-rocksdb-35": ("spark35-rocksdb-agg", "lz4"),
    "rewritten-rocksdb": ("spark43-rocksdb-dedup", "lz4"),
    "rewritten-ids": ("spark43-ids-join", "lz4"),
    "rewritten-join4": ("changelog-join4", "lz4"),
    "rewritten-tws": ("rocksdb-tws", "lz4"),
}


def rewritten(spark: Any, work: str, name: str) -> tuple[Read, ...]:
    """Copy the case that ``name`` is made of, with new files for its state; its reads."""
    source, codec = REWRITTEN[name]
    backend = LIVE[source].backend if source in LIVE else source.split("-")[1]
    cases.configure(spark, f"{backend}/agg")
    if source in LIVE:
        shutil.copytree(f"{work}/{source}", f"{work}/{name}")
    else:
        unpack(source, Path(work, "unpacked", name)).rename(Path(work, name))
    rewrite(Path(work, name), codec)
    return LIVE[source].reads if source in LIVE else RECORDED[source]


def frame(spark: Any, query: str, source: str) -> tuple[Any, str]:
    """The queries that ``streaming_queries`` does not have."""
    from pyspark.sql import functions as F

    schema = "ts timestamp, k string, v long"
    events = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(source)
    if query == "types":
        # Keys of every kind of type, null in some rows; values with all that aggregates keep.
        keys = {
            "t_bool": "v % 2 = 0",
            "t_byte": "CAST(v AS byte)",
            "t_short": "CAST(-v AS short)",
            "t_int": "IF(v % 3 = 0, NULL, CAST(v AS int))",
            "t_float": "CAST(v AS float) / 3",
            "t_double": "IF(v = 1, DOUBLE('NaN'), v / 7D)",
            "t_dec": "CAST(v AS decimal(10, 2))",
            "t_big": "IF(v % 5 = 0, NULL, CAST(v AS decimal(38, 4)))",
            "t_date": "CAST(ts AS date)",
            "t_ntz": "CAST(ts AS timestamp_ntz)",
            "t_bin": "CAST(repeat(k, CAST(v % 9 AS int)) AS binary)",
            "t_text": "repeat('é', CAST(v % 6 AS int))",
            "t_struct": "IF(v = 4, NULL, named_struct('a', v, 'b', k, 'c', named_struct('d', k)))",
            "t_array": "array(k, NULL, CAST(v AS string))",
            "t_day": "make_dt_interval(0, 0, 0, v)",
            "t_year": "make_ym_interval(CAST(v AS int), 1)",
        }
        columns = [F.expr(text).alias(name) for name, text in keys.items()]
        sums = [F.sum("v"), F.avg("t_dec"), F.max("t_struct"), F.sum("t_big")]
        grouped = events.select("*", *columns).groupBy(*keys)
        return grouped.agg(*sums, F.min("k"), F.max("t_array"), F.collect_set("k")), "update"
    if query in {"tws-all", "tws-ttl"}:
        with_ttl = query == "tws-ttl"
        grouped = events.withWatermark("ts", "1 minute").groupBy("k")
        counted = grouped.transformWithStateInPandas(
            _WithTtl() if with_ttl else _Everything(),
            "k string, n long",
            "Update",
            "ProcessingTime" if with_ttl else "EventTime",
        )
        return counted, "update"
    return cases.frame(spark, query, source)


class _Processor:
    """What Spark asks of a stateful processor; a base class of Spark 4 only, so not imported."""

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Any]:
        return iter(())

    def close(self) -> None:
        return


class _Everything(_Processor):
    """One state variable of each kind, and timers."""

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
                self.seen.updateValue((value,), (count, "y" * count))
        self.count.update((count,))
        self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 3_600_000)
        yield pd.DataFrame({"k": [key[0]], "n": [count]})


class _WithTtl(_Processor):
    """State that expires."""

    def init(self, handle: Any) -> None:
        self.last = handle.getValueState("last", "v long", 3_600_000)
        self.recent = handle.getListState("recent", "v long", 3_600_000)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        import pandas as pd

        for values in rows:
            for value in values.v.tolist():
                self.recent.appendValue((value,))
                self.last.update((value,))
        yield pd.DataFrame({"k": [key[0]], "n": [0]})


def run_case(spark: Any, case: Case, source: str, checkpoint: str) -> None:
    """Run a case's query over all input."""
    cases.configure(spark, f"{case.backend}/agg")
    spark.conf.set(CODEC, case.codec)
    for key, value in case.settings:
        spark.conf.set(key, value)
    query_frame, mode = frame(spark, case.query, source)
    run_through(query_frame, mode, checkpoint, by_the_clock=case.query == "tws-ttl")


def read_rows(spark: Any, checkpoint: str, read: Read) -> list[Any]:
    """All rows of one read, as Spark's UnsafeRows."""
    found = spark.read.format("statestore").options(**read.options).load(checkpoint)
    columns = found.columns
    value = next((c for c in ("value", "list_element") if c in columns), None)
    if read.kind == "count" or value is None:
        return [[row["partition_id"], [], ""] for row in found.select("partition_id").collect()]
    keys = ["key"]
    if read.prefix:
        names = [f"key.`{name}`" for name in found.schema["key"].dataType.names]
        left, right = ", ".join(names[: read.prefix]), ", ".join(names[read.prefix :])
        found = found.selectExpr("*", f"struct({left}) AS key_0", f"struct({right}) AS key_1")
        keys = ["key_0", "key_1"]
    chosen = found.select("partition_id", *keys, value)
    widths = [len(chosen.schema[name].dataType.fields) for name in (*keys, value)]
    rows = chosen._jdf.queryExecution().executedPlan().executeCollect()
    result = []
    for row in rows:
        structs = [bytes(row.getStruct(i + 1, w).getBytes()).hex() for i, w in enumerate(widths)]
        result.append([row.getInt(0), structs[:-1], structs[-1]])
    return result


def read_case(spark: Any, name: str, work: str) -> list[Any]:
    """What Spark finds in a case's state: a live one is run first, others are unpacked or copied
    into ``work``."""
    if name in LIVE:
        run_case(spark, LIVE[name], f"{work}/in", f"{work}/{name}")
        reads = LIVE[name].reads
    elif name in REWRITTEN:
        reads = rewritten(spark, work, name)
    else:
        unpack(name, Path(work))
        cases.configure(spark, f"{name.split('-')[1]}/agg")
        reads = RECORDED[name]
    return [read_rows(spark, f"{work}/{name}", read) for read in reads]


def main(work: str, chosen: list[str]) -> None:
    """Run all cases and write what Spark finds in their state."""
    run_cases(
        work,
        lambda _: chosen or [*LIVE, *RECORDED, *REWRITTEN],
        lambda spark, name, _: read_case(spark, name, work),
        lambda: cases.write_inputs(f"{work}/in", range(5)),
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
