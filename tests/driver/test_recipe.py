"""Checkpoints made from recipes, and what real Spark makes of them: queries that go on with other
operators, in another order, in fewer or in more queries. Output is compared with batch Spark."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flinkish.errors import Incompatible
from flinkish.restore.materialize.state_files import empty_snapshot
from flinkish.restore.recipe import (
    FreshSource,
    TakenSource,
    TakenState,
)
from tests.support.driver.changed_checkpoint import World, is_old
from tests.support.driver.operator_programs import BACKENDS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

STORE = "spark.sql.streaming.stateStore"
JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
CONFS: dict[str, dict[str, str]] = {
    **BACKENDS,
    # Checkpoint format 2 whose every version is an archive: the form that can be raised.
    "rocksdb-ids": {
        f"{STORE}.providerClass": BACKENDS["rocksdb"][f"{STORE}.providerClass"],
        f"{STORE}.checkpointFormatVersion": "2",
    },
}
JOIN_STORES = tuple(
    f"{side}-{what}"
    for side in ("left", "right")
    for what in ("keyToNumValues", "keyWithIndexToValue")
)


@pytest.fixture
def configure(spark: Any) -> Iterator[Callable[..., None]]:
    """Set a backend's settings (and others) for one test."""
    known: dict[str, str | None] = {}

    def setting(backend: str, **others: str) -> None:
        if is_old(spark) and backend in {"rocksdb-ids", "rocksdb-format2"}:
            pytest.skip("checkpoint format 2 came with Spark 4.0")
        partitions = {"spark.sql.shuffle.partitions": "2"}
        for key, value in {**partitions, **CONFS[backend], **others}.items():
            known.setdefault(key, spark.conf.get(key, None))
            spark.conf.set(key, value)

    yield setting
    for key, value in known.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)


@pytest.fixture
def world(spark: Any, tmp_path: Path) -> World:
    return World(spark, tmp_path)


def distinct(frame: Any) -> Any:
    return frame.dropDuplicates(["k", "v"]).select("k", "v")


FIRST = [("a", 1, 0), ("a", 1, 1), ("b", 2, 2), ("c", 3, 3)]
SECOND = [("a", 1, 4), ("d", 1, 5), ("d", 4, 6), ("d", 4, 7)]
THIRD = [("e", 1, 8), ("d", 4, 9), ("e", 7, 10)]


def counts(frame: Any) -> Any:
    from pyspark.sql import functions as F

    return frame.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("s"))


def backends(fast: str) -> pytest.MarkDecorator:
    """All ways to keep state; one of them at every run, the others are deep."""
    return pytest.mark.parametrize(
        "backend", [fast, *(pytest.param(b, marks=pytest.mark.deep) for b in CONFS if b != fast)]
    )


@backends("hdfs")
def test_an_operator_is_added_behind_and_dropped_again(
    world: World, configure: Callable[..., None], backend: str
) -> None:
    """dropDuplicates(k, v) gets a second one behind it, which takes its ordinal; then it goes."""
    configure(backend)
    world.write("a", *FIRST)
    world.write("a", ("c", 3, 4))
    frame = distinct(world.stream("a"))
    before = world.run(frame, "one")
    longer = frame.dropDuplicates(["v"])
    states = {0: world.empty(longer, 0), 1: TakenState(0, 0)}
    world.make("two", "one", states=states, query_id=str(uuid.uuid4()))
    world.write("a", *SECOND)
    between = world.run(longer, "two")
    world.make("three", "two", states={0: TakenState(0, 1)})
    world.write("a", *THIRD)
    after = world.run(frame, "three")

    assert sorted(before) == [("a", 1), ("b", 2), ("c", 3)]
    # New pairs only: the old state is there. Each v once: also 1, which the new one never saw.
    assert sorted(between) == [("d", 1), ("d", 4)]
    assert sorted(after) == [("e", 1), ("e", 7)]
    everything = sorted(before + between + after)
    assert everything == sorted(tuple(r) for r in distinct(world.batch("a")).collect())


@pytest.mark.deep
@pytest.mark.parametrize("backend", ["hdfs", "rocksdb"])
def test_an_operator_is_added_before_an_aggregation(
    world: World, configure: Callable[..., None], backend: str
) -> None:
    configure(backend)
    world.write("a", *FIRST)
    world.run(counts(world.stream("a")), "one", "update")
    changed = counts(world.stream("a").dropDuplicates(["k", "v"]))
    states = {0: TakenState(0, 0), 1: world.empty(changed, 1, mode="update")}
    world.make("two", "one", states=states)
    world.write("a", *SECOND)
    world.write("a", *THIRD)
    after = {row[0]: row for row in world.run(changed, "two", "update")}
    new = world.batch("a", skip=1).dropDuplicates(["k", "v"])
    expected = counts(world.batch("a").limit(len(FIRST)).union(new)).collect()
    assert after == {row[0]: tuple(row) for row in expected if row[0] not in "bc"}


def joined(world: World) -> Any:
    left, right = world.stream("a"), world.stream("b")
    return left.join(right.select("k", "v"), ["k", "v"]).select("k", "v")


def sessions(world: World) -> Any:
    return by_session(world.stream("a").withWatermark("ts", "0 seconds")).select("k", "count")


def by_session(frame: Any) -> Any:
    from pyspark.sql import functions as F

    return frame.groupBy(F.session_window("ts", "5 seconds").alias("session"), "k").count()


def limited(world: World) -> Any:
    return world.stream("a").select("k", "v").limit(3)


def processed(world: World) -> Any:
    """transformWithState with a value, a list and a map: four column families."""
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor

    class Sums(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.total = handle.getValueState("total", "v long")
            self.values = handle.getListState("values", "v long")
            self.times = handle.getMapState("times", "v long", "n long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            total = self.total.get()[0] if self.total.exists() else 0
            for frame in rows:
                for value in frame.v.tolist():
                    total += value
                    self.values.appendValue((value,))
                    seen = self.times.getValue((value,))
                    self.times.updateValue((value,), ((seen[0] if seen else 0) + 1,))
            self.total.update((total,))
            count = sum(1 for _ in self.values.get())
            times = sum(n for (n,) in self.times.values())
            yield pd.DataFrame({"k": [key[0]], "s": [total], "n": [count * 100 + times]})

        def close(self) -> None:
            return

    frame = world.stream("a").groupBy("k")
    return frame.transformWithStateInPandas(Sums(), "k string, s long, n long", "Update", "None")


#: Case -> frame, partitions and stores of its state.
NEW: dict[str, tuple[Callable[[World], Any], int, tuple[str, ...]]] = {
    "join": (joined, 2, JOIN_STORES),
    "join3": (joined, 2, JOIN_STORES),
    "session": (sessions, 2, ("default",)),
    "limit": (limited, 1, ("default",)),
    "process": (processed, 2, ("default",)),
}


@pytest.mark.parametrize(
    ("case", "backend"),
    [
        ("session", "rocksdb-changelog"),
        *(
            pytest.param(case, backend, marks=pytest.mark.deep)
            for case, backend in (
                ("limit", "hdfs"),
                ("join", "hdfs"),
                ("join", "rocksdb"),
                ("join", "rocksdb-format2"),
                ("join3", "rocksdb-format2"),
                ("process", "rocksdb-format2"),
            )
        ),
    ],
)
def test_a_stateless_query_gets_state(
    world: World, configure: Callable[..., None], case: str, backend: str
) -> None:
    if is_old(world.spark) and case in {"join3", "process"}:
        pytest.skip("came with Spark 4")
    formats = {JOIN_FORMAT: "3"} if case == "join3" else {}
    codec = {f"{STORE}.compression.codec": "zstd"} if case == "limit" else {}
    configure(backend, **formats, **codec)
    make_frame, partitions, stores = NEW[case]
    mode = "update" if case == "process" else "append"
    world.write("a", *FIRST)
    world.write("b", *SECOND)
    world.run(world.stream("a").select("k", "v"), "one", mode)
    world.write("a", *THIRD)
    empty = world.empty(make_frame(world), 0, mode=mode, partitions=partitions, stores=stores)
    own = TakenSource(0, 0, "0", "0")
    sources = (own, FreshSource()) if case.startswith("join") else None
    world.make("two", "one", states={0: empty}, sources=sources)
    world.write("a", ("d", 4, 300), ("a", 1, 301))
    after = world.run(make_frame(world), "two", mode)

    batch = world.batch("a", skip=1)
    if case.startswith("join"):
        right = world.batch("b").select("k", "v")
        assert sorted(after) == sorted(
            tuple(r) for r in batch.join(right, ["k", "v"]).select("k", "v").collect()
        )
    elif case == "session":  # those of the last file are still open
        closed = by_session(batch).where("session.end < timestamp'2024-01-01T00:05:00'")
        assert sorted(after) == sorted(tuple(r) for r in closed.select("k", "count").collect())
        assert len(after) == 2
    elif case == "limit":
        assert after == [("e", 1), ("d", 4), ("e", 7)]
    else:
        last = {k: (s, n) for k, s, n in after}
        assert last == {k: (s, n * 101) for k, n, s in counts(batch).collect()}


@backends("rocksdb")
def test_a_query_is_split_and_merged_again_at_another_batch(
    world: World, configure: Callable[..., None], backend: str
) -> None:
    """The two halves stand at different batches, and come back in another order."""
    configure(backend)
    for stream, rows in (("a", FIRST), ("b", SECOND), ("a", SECOND[1:2]), ("b", THIRD)):
        world.write(stream, *rows)
    a, b = distinct(world.stream("a")), distinct(world.stream("b"))
    rows = world.run(a.union(b), "both")
    for name, entry in (("a", 0), ("b", 1)):
        source = TakenSource(0, entry, str(entry), "0")
        world.make(name, "both", states={0: TakenState(0, entry)}, sources=(source,))
    world.write("a", *SECOND)
    for number in range(3):
        world.write("b", ("a", 1, 20), ("n", number, 21))
    rows += world.run(a, "a") + world.run(b, "b")
    assert (world.origin("a").batch_id, world.origin("b").batch_id) == (2, 4)
    recipe: dict[str, Any] = {
        "states": {0: TakenState(1, 0), 1: TakenState(0, 0)},
        "sources": (TakenSource(1, 0, "0", "0"), TakenSource(0, 0, "0", "1")),
    }
    if backend == "rocksdb-format2":
        with pytest.raises(Incompatible, match="holds a lineage of state versions"):
            world.make("again", "a", "b", **recipe)
        assert not (world.root / "again").exists()
        return
    world.make("again", "a", "b", **recipe)
    world.write("a", ("n", 0, 30), ("a", 1, 31))
    world.write("b", ("n", 2, 32), ("b", 2, 33))
    rows += world.run(b.union(a), "again")
    expected = distinct(world.batch("a")).union(distinct(world.batch("b"))).collect()
    assert sorted(rows) == sorted(tuple(row) for row in expected)


def windows(frame: Any) -> Any:
    from pyspark.sql import functions as F

    counted = frame.groupBy(F.window("ts", "10 seconds"), "k").agg(F.sum("v").alias("s"))
    return counted.select("k", "s")


@pytest.mark.deep
def test_the_slower_query_loses_no_rows_to_the_watermark_of_the_faster_one(
    world: World, configure: Callable[..., None]
) -> None:
    configure("hdfs")
    world.write("a", ("x", 1, 3), ("x", 2, 12))
    world.write("b", ("y", 1, 4), ("y", 2, 104))
    a, b = (windows(world.stream(name).withWatermark("ts", "1 second")) for name in "ab")
    rows = world.run(a, "a") + world.run(b, "b")
    assert sorted(rows) == [("x", 1), ("y", 1)]
    states = {0: TakenState(1, 0), 1: TakenState(0, 0)}
    sources = (TakenSource(1, 0, "0", "0"), TakenSource(0, 0, "0", "1"))
    world.make("both", "a", "b", states=states, sources=sources)
    world.write("a", ("x", 4, 14), ("x", 8, 33))  # late, were it for the other query
    world.write("b", ("y", 4, 107))
    for name in "ab":
        world.write(name, ("end", 0, 900))
    rows += world.run(b.union(a), "both")
    expected = windows(world.batch("a")).union(windows(world.batch("b"))).where("k <> 'end'")
    assert sorted(rows) == sorted(tuple(row) for row in expected.collect())


def test_a_planned_batch_is_replayed_and_one_of_another_query_is_not_lost(
    world: World, configure: Callable[..., None]
) -> None:
    configure("hdfs", **{"spark.sql.streaming.fileSource.log.compactInterval": "2"})
    for rows in (FIRST, SECOND):
        world.write("a", *rows)
        world.write("b", *rows[1:])
    a, b = distinct(world.stream("a")), distinct(world.stream("b"))
    rows = world.run(a, "a", fail_at=1) + world.run(b, "b", fail_at=1)
    assert (world.root / "a/sources/0/1.compact").exists()
    world.make(
        "both",
        "a",
        "b",
        base=1,
        states={0: TakenState(0, 0), 1: TakenState(1, 0)},
        sources=(TakenSource(0, 0, "0", "0"), TakenSource(1, 0, "0", "1")),
    )
    both = world.root / "both"
    assert sorted(p.name for p in (both / "sources/0").iterdir()) == ["0"]
    assert sorted(p.name for p in (both / "sources/1").iterdir()) == ["1.compact"]
    world.write("a", *THIRD)
    rows += world.run(a.union(b), "both")
    expected = distinct(world.batch("a")).union(distinct(world.batch("b"))).collect()
    assert sorted(rows) == sorted(tuple(row) for row in expected)


def test_an_offset_log_of_version_2_keeps_its_names(
    world: World, configure: Callable[..., None]
) -> None:
    if world.spark.version < "4.2":
        pytest.skip("came with Spark 4.2")
    configure("hdfs", **{"spark.sql.streaming.offsetLog.formatVersion": "2"})
    world.write("a", *FIRST)
    world.write("b", *SECOND)
    a, b = distinct(world.stream("a")), distinct(world.stream("b"))
    rows = world.run(a.union(b), "both")
    first, second = TakenSource(0, 0, "0", "0"), TakenSource(0, 1, "1", "0")
    with pytest.raises(Incompatible, match=r"source '1' .* would become '0'"):
        world.make("b", "both", states={0: TakenState(0, 1)}, sources=(second,))
    world.make("a", "both", states={0: TakenState(0, 0)}, sources=(first,))
    world.write("a", *THIRD)
    rows = world.run(a, "a")
    assert sorted(rows) == [("d", 4), ("e", 1), ("e", 7)]


@pytest.mark.parametrize(
    "codec", ["lz4", "LZF", "snappy", "zstd", "org.apache.spark.io.ZStdCompressionCodec"]
)
def test_spark_reads_an_empty_snapshot(spark: Any, codec: str) -> None:
    jvm = spark._jvm
    conf = spark.sparkContext._jsc.sc().conf()
    theirs = jvm.org.apache.spark.io.CompressionCodec.createCodec(conf, codec)
    stream = jvm.java.io.ByteArrayInputStream(bytearray(empty_snapshot(codec)))
    reader = jvm.java.io.DataInputStream(theirs.compressedInputStream(stream))
    assert reader.readInt() == -1
    assert reader.read() == -1
