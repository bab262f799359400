"""Programs whose topology changes between two versions, and what they have to put out.

A :class:`Flow` is said once and read twice: as a Spark query (:func:`build`) and as plain Python
that knows nothing of Spark or flinkish (:func:`reference`). The plain one keeps the state of each
operator under its uid and hands it from one version of the program to the next: exactly what a
restore has to do. A table of pairs of flows is the whole suite.

The input makes results independent of the order of rows: no user, item or amount comes twice in a
file, a batch has at most one file of each stream, and no row is late.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from flinkish import uid

SCHEMA = "id long, user string, item string, kind string, amount long, ts timestamp"
FILES, ROWS, SECONDS = 5, 8, 120  # files a stream, rows and seconds a file
#: Files of each stream that are there before the savepoint: queries stand at different batches.
FIRST = {"a": 3, "b": 2, "c": 3}
START = 1_709_251_200  # 2024-03-01, a multiple of every window used here
DELAY, WINDOW, WIDE = 30, 100, 400  # seconds: of the watermark, of windows, of windows of windows

Row = dict[str, Any]
State = dict[Any, Any]
States = dict[str, State]
#: Output rows as a multiset, by query.
Output = dict[str, Counter[tuple[Any, ...]]]


# --- input ----------------------------------------------------------------------------------


def rows_of(stream: str, number: int) -> list[Row]:
    """The rows of one file; streams share users, items and kinds."""
    rng = random.Random(f"input {stream} {number}")
    users, items = rng.sample(range(16), ROWS), rng.sample(range(16), ROWS)
    amounts = rng.sample(range(1, 25), ROWS)
    return [
        {
            "id": number * ROWS + row,
            "user": f"u{users[row]}",
            "item": f"i{items[row]}",
            "kind": rng.choice("xyz"),
            "amount": amounts[row],
            "ts": START + number * SECONDS + row * (SECONDS // ROWS),
        }
        for row in range(ROWS)
    ]


def write_files(directory: str, *, first: bool) -> None:
    """Write the files that are there before the savepoint, or those that come after it."""
    for stream, half in FIRST.items():
        os.makedirs(os.path.join(directory, stream), exist_ok=True)
        for number in range(half) if first else range(half, FILES):
            path = os.path.join(directory, stream, f"{number}.json")
            with open(path + ".tmp", "w", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows_of(stream, number))
            # Spark reads files in the order of their modification times.
            os.utime(path + ".tmp", (START + number, START + number))
            os.rename(path + ".tmp", path)


def batches(*, first: bool) -> list[dict[str, list[Row]]]:
    """The same as micro-batches: the next file of each stream that still has one."""
    streams = [
        [rows_of(stream, n) for n in (range(half) if first else range(half, FILES))]
        for stream, half in FIRST.items()
    ]
    return [
        {stream: rows for stream, rows in zip(FIRST, files, strict=True) if rows is not None}
        for files in zip_longest(*streams)
    ]


# --- flows ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Turn:
    """What an operator of the plain version knows in one micro-batch.

    ``watermark`` is that of the query after this batch: when all batches are through, Spark has
    put out the same windows, if not in the same batch.
    """

    batch: Mapping[str, list[Row]]
    state: State
    watermark: float


@dataclass(frozen=True)
class Flow:
    """An operator and what flows into it: ``spark(read, *frames)`` and ``plain(turn, *rows)``."""

    spark: Callable[..., DataFrame]
    plain: Callable[..., Iterable[Row]]
    inputs: tuple[Flow, ...] = ()
    uid: str | None = None
    kind: str | None = None  # Spark's name of a stateful operator
    updates: bool = False  # it puts out what has changed, in update mode
    stream: str | None = None  # of a source

    def _then(self, spark: Callable[[DataFrame], DataFrame], plain: Any, **facts: Any) -> Flow:
        return Flow(lambda read, frame: spark(frame), plain, (self,), **facts)

    def _and(self, other: Flow, spark: Any, plain: Any, **facts: Any) -> Flow:
        return Flow(lambda read, left, right: spark(left, right), plain, (self, other), **facts)

    # Without state.

    def at_least(self, column: str, value: int) -> Flow:
        return self._then(
            lambda df: df.filter(F.col(column) >= value),
            lambda turn, rows: [row for row in rows if row[column] >= value],
        )

    def plus(self, column: str, value: int) -> Flow:
        return self._then(
            lambda df: df.withColumn(column, F.col(column) + value),
            lambda turn, rows: [{**row, column: row[column] + value} for row in rows],
        )

    def only(self, *columns: str) -> Flow:
        return self._then(
            lambda df: df.select(*columns),
            lambda turn, rows: [{c: row[c] for c in columns} for row in rows],
        )

    def spread(self) -> Flow:
        return self._then(lambda df: df.repartition(3), lambda turn, rows: rows)

    def union(self, other: Flow) -> Flow:
        return self._and(other, DataFrame.union, lambda turn, left, right: [*left, *right])

    # With state.

    def dedup(self, uid: str, *columns: str) -> Flow:
        """``dropDuplicates``."""

        def plain(turn: Turn, rows: Iterable[Row]) -> list[Row]:
            found = []
            for row in rows:
                key = tuple(row[c] for c in columns)
                if key not in turn.state:
                    turn.state[key] = True
                    found.append(row)
            return found

        return self._then(lambda df: df.dropDuplicates([*columns]), plain, uid=uid, kind="dedupe")

    def totals(self, uid: str, column: str) -> Flow:
        """Count and sum, in update mode."""

        def plain(turn: Turn, rows: Iterable[Row]) -> list[Row]:
            changed = {}
            for row in rows:
                n, total = turn.state.get(row[column], (0, 0))
                turn.state[row[column]] = n + 1, total + row["amount"]
                changed[row[column]] = turn.state[row[column]]
            return [{column: key, "n": n, "amount": total} for key, (n, total) in changed.items()]

        return self._then(
            lambda df: df.groupBy(column).agg(
                F.count("*").alias("n"), F.sum("amount").alias("amount")
            ),
            plain,
            uid=uid,
            kind="stateStoreSave",
            updates=True,
        )

    def windows(self, uid: str, column: str) -> Flow:
        """Sum in tumbling windows, in append mode.

        One sum only: Spark leaves sums that nobody reads out of the state, and no step put behind
        this one shall change what is in it.
        """

        def plain(turn: Turn, rows: Iterable[Row]) -> list[Row]:
            for row in rows:
                key = row["ts"] // WINDOW * WINDOW, row[column]
                turn.state[key] = turn.state.get(key, 0) + row["amount"]
            closed = _closed(turn, WINDOW)
            return [{"window": key[0], column: key[1], "amount": total} for key, total in closed]

        return self._then(
            lambda df: df.groupBy(F.window("ts", f"{WINDOW} seconds"), column).agg(
                F.sum("amount").alias("amount")
            ),
            plain,
            uid=uid,
            kind="stateStoreSave",
        )

    def wide(self, uid: str) -> Flow:
        """Windows of windows."""

        def plain(turn: Turn, rows: Iterable[Row]) -> list[Row]:
            for row in rows:
                key = (row["window"] // WIDE * WIDE,)
                turn.state[key] = turn.state.get(key, 0) + row["amount"]
            return [{"window": key[0], "amount": total} for key, total in _closed(turn, WIDE)]

        return self._then(
            lambda df: df.groupBy(F.window(F.window_time("window"), f"{WIDE} seconds")).agg(
                F.sum("amount").alias("amount")
            ),
            plain,
            uid=uid,
            kind="stateStoreSave",
        )

    def join(self, uid: str, other: Flow) -> Flow:
        """Inner join of two sources on the user, without a time limit."""
        streams = sorted(str(flow.stream) for flow in (self, other))
        ids = [f"{stream}_id" for stream in streams]

        def spark(left: DataFrame, right: DataFrame) -> DataFrame:
            sides = (
                frame.select("user", F.col("id").alias(f"{flow.stream}_id"))
                for flow, frame in ((self, left), (other, right))
            )
            return next(sides).join(next(sides), "user")

        def plain(turn: Turn, *inputs: Iterable[Row]) -> list[Row]:
            known = {s: turn.state.setdefault(s, []) for s in streams}
            before = _pairs(*known.values())
            for flow, rows in zip((self, other), inputs, strict=True):
                known[str(flow.stream)] += [(row["user"], row["id"]) for row in rows]
            new = (_pairs(*known.values()) - before).elements()
            return [dict(zip(("user", *ids), pair, strict=True)) for pair in new]

        joined = self._and(other, spark, plain, uid=uid, kind="symmetricHashJoin")
        return joined.only("user", *ids)


def source(stream: str, *, timed: bool = False) -> Flow:
    """A file source, one file a batch; ``timed``: with a watermark."""
    read = Flow(
        lambda read: read(stream),
        lambda turn: turn.batch.get(stream, []),
        uid=f"{stream}-input",
        stream=stream,
    )
    if not timed:
        return read
    return read._then(
        lambda df: df.withWatermark("ts", f"{DELAY} seconds"), lambda turn, rows: rows
    )


def _pairs(left: Iterable[Any], right: Iterable[Any]) -> Counter[tuple[Any, ...]]:
    right = list(right)
    return Counter((user, x, y) for user, x in left for other, y in right if user == other)


def _closed(turn: Turn, length: int) -> list[tuple[Any, Any]]:
    """Take the windows that the watermark has passed out of the state; keys begin with a start."""
    keys = [key for key in turn.state if key[0] + length <= turn.watermark]
    return [(key, turn.state.pop(key)) for key in keys]


# --- a flow as a Spark query ----------------------------------------------------------------

Program = Mapping[str, Flow]


def build(flow: Flow, spark: SparkSession, directory: str, *, named: bool) -> DataFrame:
    """The query's DataFrame; its operators have their uids when ``named``."""

    def read(stream: str) -> DataFrame:
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", "1")
        return reader.json(os.path.join(directory, stream, "*.json"))

    def made(flow: Flow) -> DataFrame:
        frame = flow.spark(read, *map(made, flow.inputs))
        return frame.transform(uid(flow.uid)) if named and flow.uid else frame

    frame = made(flow)
    seconds = {
        "ts": "cast(ts as long) as ts",
        "window": "cast(window.start as long) as window",
    }
    if not seconds.keys() & set(frame.columns):
        return frame
    return frame.selectExpr(*(seconds.get(column, column) for column in frame.columns))


def mode(flow: Flow) -> str:
    """The output mode of a query."""
    return "update" if any(each.updates for each in operators({"": flow}).values()) else "append"


# --- a flow as plain Python -----------------------------------------------------------------


def operators(program: Program) -> dict[str, Flow]:
    """The stateful operators of a program by uid."""
    found: dict[str, Flow] = {}

    def visit(flow: Flow) -> None:
        if flow.kind is not None:
            found[str(flow.uid)] = flow
        for each in flow.inputs:
            visit(each)

    for flow in program.values():
        visit(flow)
    return found


def run(
    program: Program, states: States, newest: dict[str, int], data: Sequence[Mapping[str, Any]]
) -> Output:
    """Run ``data`` through the program; changes ``states`` and ``newest`` (time by stream)."""
    output: Output = {name: Counter() for name in program}
    for batch in data:
        newest |= {stream: max(row["ts"] for row in rows) for stream, rows in batch.items()}
        for name, flow in program.items():
            watermark = min(newest[stream] for stream in _streams(flow)) - DELAY
            rows = _evaluate(flow, batch, states, watermark)
            output[name].update(tuple(row.values()) for row in rows)
    return output


def _evaluate(
    flow: Flow, batch: Mapping[str, list[Row]], states: States, watermark: float
) -> list[Row]:
    inputs = [_evaluate(each, batch, states, watermark) for each in flow.inputs]
    state = states.setdefault(str(flow.uid), {}) if flow.kind else {}
    return list(flow.plain(Turn(batch, state, watermark), *inputs))


def _streams(flow: Flow) -> set[str]:
    if not flow.inputs:
        return {str(flow.stream)}
    return set[str]().union(*(_streams(each) for each in flow.inputs))


@dataclass(frozen=True)
class Reference:
    """The output of both versions, and the rows of every state when the savepoint was taken."""

    before: Output
    after: Output
    rows: Mapping[str, int]


def reference(
    before: Program,
    after: Program,
    *,
    renamed: Mapping[str, str] | None = None,
    between: Callable[[States], States] = lambda states: states,
) -> Reference:
    """What the two versions put out, computed without Spark.

    Parameters
    ----------
    renamed: old uid -> new uid.
    between: what else happens to the states, by uid, between the two versions.
    """
    states: States = {}
    newest: dict[str, int] = {}
    first = run(before, states, newest, batches(first=True))
    rows = {name: len(state) for name, state in states.items()}
    kept = between({(renamed or {}).get(name, name): state for name, state in states.items()})
    return Reference(first, run(after, kept, newest, batches(first=False)), rows)
