"""Typed state in real queries: what functions write is there in the next batch, for every key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flinkish.errors import UsageError
from flinkish.state.declared import DeclaredStates, declare, declared_on, formats_to_text
from flinkish.state.descriptors import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from flinkish.state.generations import StateFormat
from flinkish.state.group_state import TypedGroupState, apply_in_pandas_with_state
from flinkish.state.processors import TypedHandle, transform_with_state

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
#: PySpark's own: empty frames put together, and on 3.5 the version of pandas.
quiet = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:distutils:DeprecationWarning")


@dataclass(frozen=True)
class Stats:
    """What is known of a key."""

    count: int
    total: float


STATS = ValueStateDescriptor("stats", Stats)
SEEN = ListStateDescriptor("seen", int)
TENS = MapStateDescriptor("tens", int, int)
BATCHES = (list(range(10)), list(range(10, 25)))


def expected() -> dict[int, tuple[int, float, list[int], dict[int, int]]]:
    """The state of each key after all batches, by plain Python."""
    found = {}
    for key in range(3):
        values = [v for batch in BATCHES for v in batch if v % 3 == key]
        tens = {ten: sum(v // 10 == ten for v in values) for ten in range(3)}
        found[key] = (len(values), float(sum(values)), values, tens)
    return found


def update(states: Any, values: list[int]) -> None:
    """Add values to the states of a key, as either kind of function gets them."""
    stats, seen, tens = states
    before = stats.value() or Stats(0, 0.0)
    stats.update(Stats(before.count + len(values), before.total + sum(values)))
    seen.add_all(values)
    for value in values:
        tens.put(value // 10, (tens.get(value // 10) or 0) + 1)


def shown(key: int, states: Any) -> dict[str, list[Any]]:
    stats, seen, tens = states
    listed = sorted(f"{ten}:{n}" for ten, n in tens.items())
    return {
        "key": [key],
        "n": [stats.value().count],
        "total": [stats.value().total],
        "seen": [" ".join(map(str, seen.get()))],
        "tens": [" ".join(listed)],
    }


def per_group(key: tuple[Any, ...], frames: Iterator[Any], state: TypedGroupState) -> Iterator[Any]:
    import pandas as pd

    states = (state.get_value_state(STATS), state.get_list_state(SEEN), state.get_map_state(TENS))
    for frame in frames:
        update(states, [int(v) for v in frame.v])
    yield pd.DataFrame(shown(int(key[0]), states))


class PerKey:
    """A ``StatefulProcessor`` of rows, without Spark's base class: 3.5 has none."""

    def init(self, handle: TypedHandle) -> None:
        self.states = (
            handle.get_value_state(STATS),
            handle.get_list_state(SEEN),
            handle.get_map_state(TENS),
        )

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        from pyspark.sql import Row

        update(self.states, [int(row.v) for row in rows])
        yield Row(**{name: value[0] for name, value in shown(int(key[0]), self.states).items()})

    def close(self) -> None:
        """Nothing is open."""


OUTPUT = "key long, n long, total double, seen string, tens string"


@pytest.fixture
def rows(spark: Any, tmp_path: Path) -> Any:
    """A stream of two batches."""
    for number, batch in enumerate(BATCHES):
        made = spark.createDataFrame([(v % 3, v) for v in batch], "k long, v long")
        made.coalesce(1).write.parquet(str(tmp_path / "in" / str(number)))
    reader = spark.readStream.schema("k long, v long").option("maxFilesPerTrigger", 1)
    return reader.parquet(str(tmp_path / "in" / "*"))


def run(result: Any, tmp_path: Path) -> dict[int, Any]:
    """Run all batches, and return the newest row of each key."""
    newest: dict[int, Any] = {}

    def take(frame: Any, _: int) -> None:
        newest.update({row.key: row for row in frame.collect()})

    writer = result.writeStream.outputMode("update").foreachBatch(take)
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return newest


def check(newest: dict[int, Any]) -> None:
    found = {
        key: (
            row.n,
            row.total,
            [int(v) for v in row.seen.split()],
            {int(ten): int(n) for ten, n in (each.split(":") for each in row.tens.split())},
        )
        for key, row in newest.items()
    }
    want = expected()
    assert {
        key: (n, total, sorted(seen), tens) for key, (n, total, seen, tens) in found.items()
    } == {
        key: (n, total, seen, {ten: m for ten, m in tens.items() if m})
        for key, (n, total, seen, tens) in want.items()
    }


def declared_in(df: Any) -> DeclaredStates:
    """The states that stand on a node of a query's plan, as the driver reads it."""
    stack = [df._jdf.queryExecution().analyzed().clone()]
    while stack:
        node = stack.pop()
        found = declared_on(df.sparkSession._jvm, node)
        if found is not None:
            return found
        stack += [node.children().apply(i) for i in range(node.children().size())]
    raise AssertionError("no state is declared")


@quiet
def test_of_functions_on_groups(spark: Any, rows: Any, tmp_path: Path) -> None:
    result = apply_in_pandas_with_state(
        rows.groupBy("k"), per_group, OUTPUT, [STATS, SEEN, TENS], "update"
    )
    declared = declared_in(result.select("*"))
    assert set(declared.snapshots) == {"stats", "seen", "tens"}
    # As after a restore that migrated lazily: what is written now is of the second generation.
    own = declared.serializers["stats"]
    formats = {"stats": StateFormat(own, (own, own))}
    spark.sparkContext.setLocalProperty(declared.property_name, formats_to_text(formats))
    try:
        check(run(result, tmp_path))
    finally:
        spark.sparkContext.setLocalProperty(declared.property_name, None)
    if not str(spark.version).startswith("3."):
        state = spark.read.format("statestore").load(str(tmp_path / "checkpoint"))
        stored = [row.value.groupState for row in state.collect()]
        assert {bytes(row.stats)[0] for row in stored} == {1}
        assert {bytes(row.seen)[0] for row in stored} == {0}


@quiet
def test_of_stateful_processors(spark: Any, rows: Any, tmp_path: Path) -> None:
    if not hasattr(rows.groupBy("k"), "transformWithState"):
        pytest.skip("transformWithState of rows came with Spark 4.1")
    provider = "spark.sql.streaming.stateStore.providerClass"
    spark.conf.set(
        provider, "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
    try:
        result = transform_with_state(
            rows.groupBy("k"), PerKey(), OUTPUT, [STATS, SEEN, TENS], "update"
        )
        assert set(declared_in(result).snapshots) == {"stats", "seen", "tens", "tens#key"}
        check(run(result, tmp_path))
    finally:
        spark.conf.unset(provider)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([], "no state is declared"),
        (["stats"], "'stats' is not a state descriptor"),
        ([STATS, ValueStateDescriptor("STATS", int)], "called STATS"),
    ],
)
def test_what_is_declared_wrongly(states: list[Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        declare(states)
