"""Spark as the oracle of evolution: the same change by the engine and in SQL. Run as a program.

``python -m tests.support.engine.evolution_oracle DIR [CASE...]`` runs a query for each case in one
Spark session (4.x); for each rule of :mod:`.evolutions` the engine then rewrites its checkpoint
with the values evolved, rescaled, and every other time in the other backend, and Spark's own reader
reads it. It also reads the old state and puts it through the same evolution in SQL. It writes
``DIR/results.json``: case -> rewrite -> for each part of the state ``{"expected", "found": rows,
"schema", "wanted": JSON of the schemas that Spark found and that were asked for, "sql", "types":
the schemas of both readings as text, "before": that of the old state}``; and under "refused" what
the engine says to changes of keys that it refuses, by family and change.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from flinkish.checkpoint.format.names import HDFS, ROCKSDB
from flinkish.checkpoint.format.pins import PIN_JOIN_FORMAT
from flinkish.engine.migration.checkpoint_migration import rewrite_checkpoint
from flinkish.engine.migration.migration_planner import FamilyChange, TargetState
from flinkish.engine.stores.checkpoints import read_checkpoint
from flinkish.engine.stores.files import LocalDirectory
from tests.support.checkpoints import streaming_queries as cases
from tests.support.engine.case_programs import run_cases, run_through
from tests.support.engine.evolution_parts import (
    Change,
    Part,
    change,
    family_change,
    refusals,
    ttl_changes,
)
from tests.support.engine.evolutions import RULES

PARTITIONS = 4
RESCALED = 3
FILES = 3


@dataclass(frozen=True)
class Case:
    """A query, its backend (of ``streaming_queries.BACKENDS``), and the parts of its state."""

    backend: str
    query: str
    parts: tuple[Part, ...] = (Part({}),)
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def families(self) -> bool:
        """Whether the state is in column families, which only RocksDB has."""
        return self.query in {"tws", "ttl"} or bool(self.settings)


ROWS = "keyWithIndexToValue"
JOIN = tuple(
    Part({"storeName": f"{side}-{ROWS}"}, f"{side}-{ROWS}", keep=("matched",))
    for side in ("left", "right")
)
JOIN3 = tuple(replace(part, store="default", family=part.store) for part in JOIN)
PANDAS = (Part({}, inside="groupState"),)
TWS = (
    Part({"stateVarName": "last"}, family="last"),
    Part({"stateVarName": "values"}, family="values"),
    Part({"stateVarName": "by"}, family="by", user_key=True),
)
TTL = tuple(replace(part, inside="value") for part in TWS)
CASES: dict[str, Case] = {
    **{
        f"{backend}-{query}": Case(backend, query, parts)
        for backend in ("hdfs", "rocksdb")
        for query, parts in {
            "agg": (Part({}),),
            "dedup": (Part({}),),
            "within": (Part({}),),
            "session": (Part({}),),
            "join": JOIN,
            "pandas": PANDAS,
            "limit": (Part({}),),
            "keyless": (Part({}),),
        }.items()
    },
    "changelog-agg": Case("changelog", "agg"),
    "ids-join": Case("ids", "join", JOIN),
    "rocksdb-join3": Case("rocksdb", "join", JOIN3, ((PIN_JOIN_FORMAT, "3"),)),
    "rocksdb-tws": Case("rocksdb", "tws", TWS),
    "changelog-tws": Case("changelog", "tws", TWS),
    "rocksdb-ttl": Case("rocksdb", "ttl", TTL),
}
#: Columns with what evolutions can go wrong at; all of a row's number ``v``.
COLUMNS = {
    "by": "CAST(v - 20 AS byte)",
    "sh": "IF(v % 4 = 0, NULL, CAST(-v * 700 AS short))",
    "i": "IF(v % 7 = 0, NULL, CAST(-v AS int))",
    "n": "v * 100000000000000003L",
    "f": "CASE v % 8 WHEN 1 THEN float('NaN') WHEN 2 THEN float('-0.0') "
    "WHEN 3 THEN float('-Infinity') WHEN 4 THEN NULL ELSE CAST(v / 3 AS float) END",
    "d": "IF(v % 6 = 0, NULL, CAST((v - 20) / 3 AS decimal(10, 2)))",
    "dd": "IF(v % 5 = 0, NULL, CAST(-v AS decimal(16, 2)))",
    "t": "IF(v % 7 = 1, NULL, repeat('é€😀a', CAST(v % 6 AS int)))",
    "bin": "CAST(repeat(k, CAST(v % 9 AS int)) AS binary)",
    "s": "IF(v % 5 = 0, NULL, named_struct('a', CAST(v AS int), 'b', k, "
    "'c', named_struct('f', CAST(v AS float))))",
    "l": "array(CAST(v AS int), NULL)",
    "ls": "array(named_struct('a', CAST(v AS short), 't', k), NULL)",
    "m": "map(k, CAST(v AS int), 'x', NULL)",
    "dt": "CAST(ts AS date)",
}
#: What a state in Python has, of these columns.
FLAT_STATE = "i int, f float, d decimal(10,2), t string, s struct<a: int, b: string>"
#: Workers of applyInPandasWithState cannot read a schema with an array.
STATE = f"{FLAT_STATE}, l array<int>"


def frame(spark: Any, query: str, source: str) -> tuple[Any, str]:
    """The query and its output mode."""
    from pyspark.sql import functions as F

    columns = [F.expr(text).alias(name) for name, text in COLUMNS.items()]
    events = (
        spark.readStream.schema("ts timestamp, k string, v long")
        .option("maxFilesPerTrigger", 1)
        .json(source)
        .withWatermark("ts", "1 hour")
        .select("*", *columns)
    )
    firsts = [F.first(name).alias(f"first_{name}") for name in COLUMNS]
    mores = [F.sum("i"), F.avg("d"), F.max("s"), F.avg("f"), F.count("*"), F.max_by("l", "v")]
    if query == "agg":
        odd = F.expr("v % 2 <=> 1").alias("odd")  # a column of the key that cannot be null
        return events.groupBy("k", "v", odd).agg(*firsts, *mores), "update"
    if query == "keyless":
        return events.groupBy().agg(*firsts, *mores), "update"
    if query == "session":
        windows = F.session_window("ts", "30 seconds")
        return events.groupBy(windows, "k").agg(*firsts, *mores), "append"
    if query == "dedup":
        return events.select("k", "v").dropDuplicates(), "append"
    if query == "within":
        return events.select("ts", "k", "v").dropDuplicatesWithinWatermark(["k", "v"]), "append"
    if query == "limit":
        return events.select("k").limit(40), "append"
    if query == "join":
        left = events.where("v % 3 != 0").selectExpr("ts AS lts", "k AS lk", "v AS lv", *COLUMNS)
        right = events.where("v % 4 != 0").selectExpr("ts AS rts", "k AS rk", "v AS rv", "i", "m")
        condition = "lk = rk AND lv = rv AND rts BETWEEN lts AND lts + INTERVAL 2 MINUTES"
        return left.join(right, F.expr(condition), "left_outer"), "append"
    if query == "pandas":
        made = events.groupBy("k").applyInPandasWithState(
            _keep_last, "k string", FLAT_STATE, "update", "NoTimeout"
        )
        return made, "update"
    assert query in {"tws", "ttl"}
    made = events.groupBy("k").transformWithStateInPandas(
        _Everything(3_600_000 if query == "ttl" else None),
        "k string",
        "Update",
        "ProcessingTime" if query == "ttl" else "None",
    )
    return made, "update"


def _state_of(rows: Any) -> Iterator[tuple[Any, ...]]:
    """The rows of a pandas frame as the state's."""
    for row in rows.to_dict("records"):
        v = int(row["v"])
        struct = None if v % 5 == 0 else (v, row["k"])
        number = None if v % 7 == 0 else -v
        yield number, float(row["f"]), row["d"], row["t"], struct, [v, None]


def _keep_last(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
    import pandas as pd

    for rows in frames:
        for values in _state_of(rows):
            state.update(values[:-1])
    yield pd.DataFrame({"k": [key[0]]})


class _Everything:
    """State of each kind."""

    def __init__(self, ttl: int | None) -> None:
        self._ttl = ttl

    def init(self, handle: Any) -> None:
        self.last = handle.getValueState("last", STATE, self._ttl)
        self.values = handle.getListState("values", STATE, self._ttl)
        self.by = handle.getMapState("by", "a int, b string", STATE, self._ttl)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        import pandas as pd

        for part in rows:
            for number, values in enumerate(_state_of(part)):
                self.last.update(values)
                self.values.appendValue(values)
                self.by.updateValue((number % 3, "x" * (number % 4)), values)
        yield pd.DataFrame({"k": [key[0]]})

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Any]:
        return iter(())

    def close(self) -> None:
        return


def configure(spark: Any, case: Case) -> None:
    """Set what a case's query needs."""
    cases.configure(spark, f"{case.backend}/agg")
    spark.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    for key, value in case.settings:
        spark.conf.set(key, value)


def run_query(spark: Any, case: Case, source: str, checkpoint: str) -> None:
    """Run a case's query over all input."""
    configure(spark, case)
    query_frame, mode = frame(spark, case.query, source)
    run_through(query_frame, mode, checkpoint, by_the_clock=case.query == "ttl")


def read(spark: Any, checkpoint: str, part: Part) -> Any:
    """The state as Spark's reader has it, without the partition."""
    found = spark.read.format("statestore").options(**part.options).load(checkpoint)
    return found.drop("partition_id")


def by_sql(state: Any, made: Change) -> Any:
    """The state after the evolution in SQL."""
    value = next(c for c in state.columns if c in {"value", "user_map_value", "list_element"})
    changed = {value: made.value.sql}
    if made.key is not None:
        changed["user_map_key"] = made.key.sql
    return state.selectExpr(*(f"{changed[c]} AS {c}" if c in changed else c for c in state.columns))


def found_by_spark(after: Any, made: Change, change: FamilyChange) -> dict[str, Any]:
    """What Spark's reader has of the new state, and the schemas it should have."""
    wanted = {"value": made.value.schema} | ({"user_map_key": made.key.schema} if made.key else {})
    if change.key is not None and made.key is None:
        wanted["key"] = dict(change.key)
    names = {"user_map_value": "value", "list_element": "value"}
    schemas = {
        names.get(name, name): json.loads(after.schema[name].dataType.json())
        for name in after.columns
    }
    return {
        "found": sorted(str(row) for row in after.collect()),
        "types": after.schema.simpleString(),
        "schema": {name: schemas[name] for name in wanted},
        "wanted": wanted,
    }


def run_case(spark: Any, name: str, work: str, source: str) -> dict[str, Any]:
    """Run a case; see the module."""
    case = CASES[name]
    original = f"{work}/original"
    run_query(spark, case, source, original)
    [operator] = read_checkpoint(LocalDirectory(original)).operators
    found: dict[str, Any] = {"refused": refusals(operator)}
    other = ROCKSDB if operator.backend == HDFS else HDFS
    for rule, moved in zip(RULES, itertools.cycle((False, True)), strict=False):
        backend = other if moved and not case.families else operator.backend
        states = [read(spark, original, part) for part in case.parts]
        both = list(zip(case.parts, states, strict=True))
        made = [change(operator, part, rule, state.columns) for part, state in both]
        changes = {
            (part.store, part.family): family_change(operator, part, each)
            for part, each in zip(case.parts, made, strict=True)
        }
        changes |= ttl_changes(operator, case.parts, made)
        target = f"{work}/{rule}"
        rewrite_checkpoint(
            spark.sparkContext,
            LocalDirectory(original),
            LocalDirectory(target),
            TargetState(
                partitions=RESCALED,
                backend=backend,
                unique_ids=False if backend == HDFS else None,
            ),
            each={0: TargetState(changes=changes)},
            root=f"file:{target}",
        )
        expected = [by_sql(state, each) for state, each in zip(states, made, strict=True)]
        rows = [sorted(str(row) for row in frame.collect()) for frame in expected]
        # Nothing in a checkpoint pins its format: Spark's reader takes the session's.
        if backend == HDFS:
            cases.configure(spark, "hdfs/agg")
        found[rule] = [
            {
                "expected": listed,
                "sql": frame.schema.simpleString(),
                "before": state.schema.simpleString(),
                **found_by_spark(read(spark, target, part), each, changes[part.store, part.family]),
            }
            for part, state, each, frame, listed in zip(
                case.parts, states, made, expected, rows, strict=True
            )
        ]
        configure(spark, case)
    return found


def main(work: str, chosen: list[str], session: Any = None) -> None:
    """Run all cases."""
    source = f"{work}/in"
    run_cases(
        work,
        lambda _: chosen or [*CASES],
        lambda spark, name, directory: run_case(spark, name, directory, source),
        lambda: cases.write_inputs(source, range(FILES)),
        session,
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
