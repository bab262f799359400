"""A query for every kind of stateful operator that Spark has: ``every_operator.py INPUT [plain]``.

Every operator has a uid; with ``plain`` none has one, and no query has a name. Queries that only
newer versions of Spark have come last, so that the others are the same ones everywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flinkish import uid, uid_hash

INPUT = sys.argv[1]
PLAIN = sys.argv[2:] == ["plain"]
SCHEMA = "id long, k int, name string, amount double, tags array<string>, ts timestamp"

spark = SparkSession.builder.getOrCreate()
version = tuple(int(part) for part in spark.version.split(".")[:2])
Query = Callable[[], DataFrame]
queries: list[tuple[Query, str]] = []


def query(output_mode: str, since: tuple[int, int] = (3, 5)) -> Callable[[Query], Query]:
    """Note a function that makes a query, unless this Spark is older than ``since``."""

    def note(make: Query) -> Query:
        if version >= since:
            queries.append((make, output_mode))
        return make

    return note


def named(df: DataFrame, name: str) -> DataFrame:
    return df if PLAIN else df.transform(uid(name))


def rows(name: str, directory: str = "a") -> DataFrame:
    """A file source, called ``name``."""
    return named(spark.readStream.schema(SCHEMA).json(f"{INPUT}/{directory}"), name)


def timed(name: str, directory: str = "a") -> DataFrame:
    """The same with a watermark."""
    return named(rows(name, directory).withWatermark("ts", "2 minutes"), f"{name}: time")


# --- aggregations -----------------------------------------------------------------------------


@query("update")
def aggregate_updates() -> DataFrame:
    some = named(rows("source").filter("amount > 0"), "map")
    totals = some.groupBy("name").agg(F.count("*").alias("n"), F.sum("amount").alias("total"))
    return named(totals, "count")


@query("complete")
def aggregate_complete() -> DataFrame:
    ticks = named(spark.readStream.format("rate").load(), "ticks")
    keyed = named(ticks.selectExpr("value % 10 as k"), "ticks: key")
    counts = named(keyed.groupBy("k").count(), "tick counts")
    return named(counts.orderBy("k"), "tick counts: in order")


@query("update")
def aggregate_all() -> DataFrame:
    return named(rows("all").groupBy().agg(F.max("amount").alias("most")), "most of all")


@query("update")
def rollup() -> DataFrame:
    return named(rows("rollup source").rollup("name", "k").count(), "rolled up")


@query("append")
def tumbling_window() -> DataFrame:
    grouped = timed("src").groupBy(F.window("ts", "5 minutes"), "k")
    return named(grouped.agg(F.avg("amount").alias("mean")), "a.b.c")


@query("update")
def sliding_window() -> DataFrame:
    grouped = timed("slid").groupBy(F.window("ts", "5 minutes", "1 minute"), "k")
    return named(grouped.count(), "sliding")


@query("append")
def session_window() -> DataFrame:
    grouped = timed("events-source").groupBy(F.session_window("ts", "30 seconds"), "k")
    return named(grouped.agg(F.count("*").alias("n")), "a:b")


@query("append")
def chained_windows() -> DataFrame:
    minutes = timed("chained").groupBy(F.window("ts", "1 minute"), "k").count()
    minutes = named(minutes, "by minute")
    return named(minutes.groupBy(F.window("window", "10 minutes")).sum("count"), "by ten minutes")


# --- duplicates, sets, limits -----------------------------------------------------------------


@query("append")
def drop_duplicates() -> DataFrame:
    return named(rows("repeated").dropDuplicates(["id", "k"]), "stateful-op-2")


@query("append")
def drop_duplicates_in_time() -> DataFrame:
    return named(timed("repeated in time").dropDuplicates(["id", "ts"]), "distinct in time")


@query("append")
def drop_duplicates_within_watermark() -> DataFrame:
    repeated = timed("repeated for a while")
    return named(repeated.dropDuplicatesWithinWatermark(["id"]), "算子")


@query("append")
def distinct() -> DataFrame:
    return named(named(rows("of names").select("name"), "names").distinct(), "distinct names")


@query("update")
def sql_distinct() -> DataFrame:
    rows("of keys").createOrReplaceTempView("keyed")
    return named(spark.sql("select distinct k, name from keyed"), "distinct keys")


@query("append")
def sql_with_table() -> DataFrame:
    timed("of minutes").createOrReplaceTempView("minutes")
    text = """
        with counted as (
            select window, k, count(*) as n from minutes
            group by window(ts, '1 minute'), k having count(*) > 1
        ) select k, n from counted where k > 0
    """
    return named(spark.sql(text), "counts of a table")


@query("update")
def subtract_static() -> DataFrame:
    known = spark.range(10).selectExpr("id", "cast(id as int) as k")
    pairs = named(rows("of pairs").select("id", "k"), "pairs")
    return named(pairs.subtract(known), "unknown pairs")


@query("append")
def limit() -> DataFrame:
    return named(rows("many").limit(100), "trail ")


# --- joins ------------------------------------------------------------------------------------


def sides(name: str) -> tuple[DataFrame, DataFrame]:
    """Two inputs of a join by key and time."""
    left = timed(f"{name} left").selectExpr("k as lk", "ts as lts", "amount")
    right = timed(f"{name} right", "b").selectExpr("k as rk", "ts as rts", "name")
    return named(left, f"{name} left: columns"), named(right, f"{name} right: columns")


def by_time(name: str, how: str, join_uid: str) -> DataFrame:
    left, right = sides(name)
    near = F.expr("lk = rk and rts between lts - interval 1 minute and lts + interval 1 minute")
    return named(left.join(right, near, how), join_uid)


@query("append")
def join_inner() -> DataFrame:
    return by_time("inner", "inner", "join-right")


@query("append")
def join_left() -> DataFrame:
    return by_time("left", "leftOuter", "left join")


@query("append")
def join_right() -> DataFrame:
    return by_time("right", "rightOuter", "right join")


@query("append")
def join_full() -> DataFrame:
    return by_time("full", "fullOuter", "full join")


@query("append")
def join_semi() -> DataFrame:
    return by_time("semi", "leftSemi", "semi join")


@query("append")
def join_using() -> DataFrame:
    left = named(timed("using left").select("k", "ts"), "using left: columns")
    right = named(timed("using right", "b").select("k", "ts", "name"), "using right: columns")
    return named(left.join(right, ["k", "ts"]), "using join")


@query("append")
def join_with_itself() -> DataFrame:
    counts = timed("mirrored").groupBy(F.window("ts", "1 minute"), "k").count()
    counts = named(counts, "counts, twice")
    both = counts.alias("one").join(counts.alias("two"), ["window", "k"])
    return named(named(both, "itself").select("k", "one.count"), "itself: columns")


@query("append")
def chained_join() -> DataFrame:
    """Four stateful operators on top of each other, the lowest used by both branches."""
    once = named(timed("once").dropDuplicates(["id", "ts"]), "once: distinct")
    counts = named(once.groupBy(F.window("ts", "1 minute"), "k").count(), "once: counts")
    sums = named(once.groupBy(F.window("ts", "1 minute"), "k").sum("amount"), "once: sums")
    joined = named(counts.join(sums, ["window", "k"]), "once: joined")
    return named(joined.filter("count > 1"), "once: some")


# --- state of the program's own ---------------------------------------------------------------


@query("append")
def pandas_with_state() -> DataFrame:
    def count(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        import pandas as pd

        total = state.getOption[0] if state.exists else 0
        total += sum(len(frame) for frame in frames)
        state.update((total,))
        yield pd.DataFrame({"k": [key[0]], "n": [total]})

    grouped = rows("of groups").groupBy("k")
    counted = grouped.applyInPandasWithState(
        count, "k int, n long", "n long", "append", "NoTimeout"
    )
    return named(counted, "streaming_query.mapGroupsWithState")


# --- no state, or two operators in one --------------------------------------------------------


@query("append")
def stateless() -> DataFrame:
    static = spark.range(10).selectExpr("cast(id as int) as k", "id as weight")
    more = named(rows("plain source").withColumn("double", F.col("amount") * 2), "doubled")
    more = named(more.join(F.broadcast(static), "k", "left"), "enriched")
    more = named(more.select("k", "weight", F.explode("tags").alias("tag")), "exploded")
    more = named(more.repartition(3, "k"), "spread")
    more = named(more.mapInPandas(lambda frames: frames, more.schema), "pandas")
    more = named(more.observe("seen", F.count("*").alias("n")), "observed")
    other = named(rows("other source", "b").selectExpr("name as tag", "k as weight"), "other")
    united = named(more.unionByName(other, allowMissingColumns=True), "united")
    return named(united.drop("weight"), "final")


@query("append")
def with_a_hash() -> DataFrame:
    counts = timed("hashed").groupBy(F.window("ts", "1 minute")).count()
    if not PLAIN:
        counts = counts.transform(uid_hash("0123456789abcdef0123456789ABCDEF"))
    return named(counts, "UPPER")


@query("append")
def used_twice() -> DataFrame:
    distinct = named(timed("twice").dropDuplicates(["k", "ts"]), "distinct, twice")
    return named(distinct.union(distinct), "twice: united")


# --- Spark 4 ----------------------------------------------------------------------------------


def processor() -> Any:
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Counter(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.total = handle.getValueState("total", "n long")
            self.ids = handle.getListState("ids", "id long")
            self.tags = handle.getMapState("tags", "tag string", "n long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            yield from ()

        def close(self) -> None:
            pass

    return Counter()


@query("update", since=(4, 0))
def transform_with_state_in_pandas() -> DataFrame:
    grouped = timed("of states").groupBy("k")
    counted = grouped.transformWithStateInPandas(
        processor(), "k int, n long", "update", "processingTime"
    )
    return named(counted, "counter")


@query("append", since=(4, 0))
def transform_with_state_and_after() -> DataFrame:
    """With a first state, and a window over the times that it gives."""
    first = spark.range(10).selectExpr("cast(id as int) as k", "id as n").groupBy("k")
    grouped = timed("of first states").groupBy("k")
    counted = grouped.transformWithStateInPandas(
        processor(),
        "k int, at timestamp",
        "append",
        "eventTime",
        initialState=first,
        eventTimeColumnName="at",
    )
    after = named(counted, "stateful").groupBy(F.window("at", "1 minute"))
    return named(after.count(), "after the stateful")


@query("update", since=(4, 1))
def transform_with_state() -> DataFrame:
    grouped = timed("of rows").groupBy("k")
    counted = grouped.transformWithState(processor(), "k int, n long", "update", "processingTime")
    return named(counted, "null")


@query("append", since=(4, 2))
def source_with_a_name() -> DataFrame:
    """The name that Spark itself has for a source is its uid."""
    reader = spark.readStream.schema(SCHEMA)
    if not PLAIN:  # with this setting Spark wants a name for every source of a query
        spark.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
        reader = reader.name("a_name_of_its_own")
    return named(reader.json(f"{INPUT}/a").dropDuplicates(["id"]), "of named")


if version >= (4, 0):
    provider = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
for make, output_mode in queries:
    writer = make().writeStream.format("noop").outputMode(output_mode)
    if not PLAIN:
        writer = writer.queryName(make.__name__)
    writer.start()
spark.streams.awaitAnyTermination()
