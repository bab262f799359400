"""Queries that go on with state which the engine has rewritten. Run as a program, on 3.5 or 4.x.

``python -m tests.support.engine.resuming_program DIR [CASE...]`` runs each case in one Spark
session: a query over the first part of its input, its checkpoint copied, the query to its end; then
for each rewrite the copy rewritten and the query resumed on that. It writes ``DIR/results.json``:
case -> what the uninterrupted run put out after the copy, by batch, and for each rewrite the same,
the rows that the engine counted, and what Spark's own reader found in the state (4.x).
A case named ``CASE@REWRITE`` has that one rewrite only.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from dataclasses import dataclass, replace
from typing import Any

from flinkish.checkpoint.format.names import CANONICAL, HDFS, ROCKSDB
from flinkish.checkpoint.format.pins import PIN_GROUP_FORMAT, PIN_JOIN_FORMAT
from flinkish.engine.migration.checkpoint_migration import rewrite_checkpoint
from flinkish.engine.migration.migration_planner import TargetState
from flinkish.engine.stores.files import LocalDirectory
from tests.support.checkpoints import streaming_queries as cases
from tests.support.engine.case_programs import run_cases
from tests.support.engine.resuming_queries import frame

CHECKPOINT_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
PARTITIONS = 4
CUT = 4
FILES = 7
#: One rewrite, or several one after the other.
Chain = tuple[TargetState, ...]

SEVEN: Chain = (TargetState(partitions=7),)
TO_HDFS: Chain = (TargetState(partitions=3, backend=HDFS),)
TO_ROCKSDB: Chain = (TargetState(partitions=3, backend=ROCKSDB),)
THERE_AND_BACK: Chain = tuple(TargetState(partitions=n) for n in (7, 200, 1, PARTITIONS))
SWAPPED_AND_BACK: Chain = (TargetState(backend=ROCKSDB), TargetState(backend=HDFS))


@dataclass(frozen=True)
class Case:
    """A query, its backend (of ``streaming_queries.BACKENDS``), and how its state is rewritten."""

    query: str
    backend: str
    rewrites: dict[str, Chain]
    settings: tuple[tuple[str, str], ...] = ()
    #: Options for Spark's reader, one for each part of the state.
    reads: tuple[dict[str, str], ...] = ({},)
    #: In each file of the input; None is a few.
    rows: int | None = None


#: Four files of these are in the state: more than 100,000 rows. Python functions take fewer.
MANY = 30_000


def _both(query: str, **more: Any) -> dict[str, Case]:
    return {
        f"hdfs-{query}": Case(query, "hdfs", {"7": SEVEN, "rocksdb": TO_ROCKSDB}, **more),
        f"rocksdb-{query}": Case(query, "rocksdb", {"7": SEVEN, "hdfs": TO_HDFS}, **more),
    }


#: Lists as Spark 4.0 and 4.1 have them: queries that started there keep them for ever.
DELIMITED = ((f"{cases.STORE}rocksdb.mergeOperatorVersion", "1"),)
#: Spark finds longs where the schema of format 1 says integer.
UNCHECKED = ((f"{cases.STORE}formatValidation.enabled", "false"),)


def _grouped(version: str, partitions: int | None = None, name: str | None = None) -> TargetState:
    return TargetState(formats={PIN_GROUP_FORMAT: version}, partitions=partitions, name=name)


def _join(version: str, backend: str | None = None, partitions: int | None = None) -> TargetState:
    return TargetState(formats={PIN_JOIN_FORMAT: version}, backend=backend, partitions=partitions)


JOIN_READS = ({"joinSide": "left"}, {"joinSide": "right"})
FORMATS = {
    "3": (TargetState(formats={PIN_JOIN_FORMAT: "3"}, partitions=3),),
    "3-and-back": (
        TargetState(formats={PIN_JOIN_FORMAT: "3"}),
        TargetState(formats={PIN_JOIN_FORMAT: "2"}),
    ),
    "4": (_join("4", partitions=3),),
    "3-and-4": (_join("3"), _join("4")),
}
TWS_READS = (
    {"stateVarName": "count"},
    {"stateVarName": "values"},
    {"stateVarName": "seen"},
    {"readRegisteredTimers": "true"},
)
TTL_READS = ({"stateVarName": "last"}, {"stateVarName": "recent"}, {"stateVarName": "by"})
CASES: dict[str, Case] = {
    **_both("agg"),
    **_both("types"),
    **_both("dedup"),
    **_both("within"),
    **_both("session"),
    **_both("keyless"),
    **_both("limit"),
    **_both("pandas"),
    **_both("chained", reads=({}, {"operatorId": "1"})),
    **_both("join", reads=JOIN_READS),
    **_both("outer", reads=JOIN_READS),
    "hdfs-round": Case("types", "hdfs", {"round": THERE_AND_BACK, "swapped": SWAPPED_AND_BACK}),
    "rocksdb-round": Case("types", "rocksdb", {"round": THERE_AND_BACK}),
    "changelog-agg": Case("agg", "changelog", {"7": SEVEN, "hdfs": TO_HDFS}),
    "changelog-outer": Case("outer", "changelog", {"7": SEVEN}, reads=JOIN_READS),
    "ids-outer": Case(
        "outer",
        "ids",
        {
            "7": SEVEN,
            "format-1": (TargetState(unique_ids=False, partitions=3),),
            "hdfs": (TargetState(backend=HDFS, unique_ids=False),),
        },
        reads=JOIN_READS,
    ),
    "rocksdb-to-ids": Case(
        "agg", "rocksdb", {"format-2": (TargetState(unique_ids=True, partitions=3),)}
    ),
    "rocksdb-outer-3": Case(
        "outer",
        "rocksdb",
        {"7": SEVEN, "2": (TargetState(formats={PIN_JOIN_FORMAT: "2"}),)},
        ((PIN_JOIN_FORMAT, "3"),),
        JOIN_READS,
    ),
    "rocksdb-outer-formats": Case("outer", "rocksdb", FORMATS, reads=JOIN_READS),
    "rocksdb-outer-4": Case(
        "outer",
        "rocksdb",
        {
            "7": SEVEN,
            "3": (_join("3"),),
            "2": (_join("2", partitions=3),),
            "2-hdfs": (_join("2", backend=HDFS),),
            "canonical-3": (TargetState(backend=CANONICAL, partitions=3), _join("3", ROCKSDB, 5)),
            "2-and-back": (_join("2", HDFS), _join("4", ROCKSDB)),
        },
        ((PIN_JOIN_FORMAT, "4"),),
        JOIN_READS,
    ),
    "rocksdb-windows-4": Case(
        "windows",
        "rocksdb",
        {"2-and-back": (_join("2", HDFS, 3), _join("4", ROCKSDB)), "3": (_join("3"),)},
        ((PIN_JOIN_FORMAT, "4"),),
        JOIN_READS,
    ),
    "rocksdb-inner-timeless-4": Case(
        "timeless",
        "rocksdb",
        {"2-and-back": (_join("2", HDFS, 3), _join("4", ROCKSDB)), "3": (_join("3"),)},
        ((PIN_JOIN_FORMAT, "4"),),
        JOIN_READS,
    ),
    "hdfs-inner-1": Case(
        "inner",
        "hdfs",
        {"2": (_join("2", partitions=3),), "2-and-back": (_join("2", ROCKSDB), _join("1", HDFS))},
        ((PIN_JOIN_FORMAT, "1"),),
    ),
    "hdfs-inner-to-1": Case("inner", "hdfs", {"1": (_join("1", partitions=3),)}, reads=JOIN_READS),
    "hdfs-timeouts": Case(
        "timeouts",
        "hdfs",
        {"1": (_grouped("1", partitions=3),), "1-and-back": (_grouped("1"), _grouped("2"))},
        UNCHECKED,
    ),
    "rocksdb-timeouts-1": Case(
        "timeouts",
        "rocksdb",
        {"7": SEVEN, "2": (_grouped("2", partitions=3),)},
        (*UNCHECKED, (PIN_GROUP_FORMAT, "1")),
    ),
    "rocksdb-pandas-1": Case(
        "pandas",
        "rocksdb",
        {
            "2": (_grouped("2", name="applyInPandasWithState"),),
            "2-and-back": (_grouped("2", name="applyInPandasWithState"), _grouped("1")),
        },
        ((PIN_GROUP_FORMAT, "1"),),
    ),
    "rocksdb-tws": Case("tws", "rocksdb", {"7": SEVEN, "round": THERE_AND_BACK}, reads=TWS_READS),
    "changelog-tws": Case("tws", "changelog", {"7": SEVEN}, reads=TWS_READS),
    "ids-tws": Case("tws", "ids", {"7": SEVEN}, reads=TWS_READS),
    "rocksdb-ttl": Case("ttl", "rocksdb", {"7": SEVEN}, reads=TTL_READS),
    "delimited-tws": Case("tws", "changelog", {"7": SEVEN}, DELIMITED, TWS_READS),
    "delimited-outer-4": Case(
        "outer",
        "rocksdb",
        {"7": SEVEN, "2-and-back": (_join("2", HDFS, 3), _join("4", ROCKSDB))},
        (*DELIMITED, (PIN_JOIN_FORMAT, "4")),
        JOIN_READS,
    ),
    "large-hdfs-types": Case("types", "hdfs", {"rocksdb": TO_ROCKSDB}, rows=MANY),
    "large-rocksdb-types": Case("types", "rocksdb", {"7": SEVEN, "hdfs": TO_HDFS}, rows=MANY),
    "large-hdfs-outer": Case("outer", "hdfs", {"7": SEVEN}, reads=JOIN_READS, rows=MANY),
    "large-changelog-outer": Case(
        "outer", "changelog", {"hdfs": TO_HDFS}, reads=JOIN_READS, rows=MANY
    ),
    "large-changelog-tws": Case("tws", "changelog", {"7": SEVEN}, reads=TWS_READS, rows=4_000),
    "large-rocksdb-ttl": Case("ttl", "rocksdb", {"7": SEVEN}, reads=TTL_READS, rows=4_000),
}
SPARK4 = ("tws", "ttl", "ids", "outer-3", "-4", "formats")
#: Spark 4.3 goes on with joins of format 1, and starts none.
SPARK3 = ("inner-1",)


def cases_of(version: str) -> list[str]:
    """The cases that a version of Spark can run."""
    old = version.startswith("3.")
    others = SPARK4 if old else SPARK3
    return [name for name in CASES if not any(word in name for word in others)]


def case_of(name: str) -> Case:
    """A case by its name, with all its rewrites or the one that is named behind an ``@``."""
    name, _, only = name.partition("@")
    case = CASES[name]
    return replace(case, rewrites={only: case.rewrites[only]}) if only else case


def write_inputs(case: Case, directory: str, numbers: range) -> None:
    """The files of a case; where it has many rows, each has a value of its own."""
    if case.rows is None:
        cases.write_inputs(directory, numbers)
        return
    os.makedirs(directory, exist_ok=True)
    for i in numbers:
        hidden, path = f"{directory}/.{i:03}.json", f"{directory}/{i:03}.json"
        with open(hidden, "w", encoding="utf-8") as file:
            for j in range(case.rows):
                ts = f"2024-01-01T00:{i:02}:{j % 60:02}"
                row = {"ts": ts, "k": f"k{j % 40}", "v": i * case.rows + j}
                file.write(json.dumps(row) + "\n")
        os.utime(hidden, (1_700_000_000 + i, 1_700_000_000 + i))
        os.rename(hidden, path)


def run_query(spark: Any, case: Case, source: str, checkpoint: str) -> dict[int, list[str]]:
    """Run a query over what is in ``source`` to its end; rows by batch."""
    batches: dict[int, list[str]] = {}

    def collect(rows: Any, batch: int) -> None:
        batches[batch] = sorted(str(row) for row in rows.collect())

    query_frame, mode = frame(spark, case.query, source)
    writer = query_frame.writeStream.outputMode(mode).option("checkpointLocation", checkpoint)
    # Time goes on for ever: with availableNow a query that waits for time would never end.
    once: dict[str, Any] = {"once" if case.query == "ttl" else "availableNow": True}
    query = writer.trigger(**once).foreachBatch(collect).start()
    if not query.awaitTermination(180 if case.rows is None else 900):
        query.stop()
        raise TimeoutError(f"{case.query} did not end")
    return {batch: rows for batch, rows in batches.items() if rows}


def read_state(spark: Any, checkpoint: str, case: Case) -> list[list[str]]:
    """What Spark's own reader (4.x) finds in the state; partitions are left out."""
    found = []
    for options in case.reads:
        rows = spark.read.format("statestore").options(**options).load(checkpoint)
        rows = _alike(rows.drop("partition_id", "expiration_timestamp"))
        found.append(sorted(str(row) for row in rows.collect()))
    return found


def has_ids(case: Case, chain: Chain) -> bool:
    """Whether a chain ends in files of checkpoint format 2."""
    given = [wanted.unique_ids for wanted in chain if wanted.unique_ids is not None]
    return given[-1] if given else case.backend == "ids"


def _alike(rows: Any) -> Any:
    """Without what the state formats of one operator have differently."""
    from pyspark.sql import functions as F

    types = {field.name: field.dataType for field in rows.schema.fields}
    if "__event_time" in getattr(types.get("key"), "names", ()):  # joins of format 4
        rows = rows.withColumn("key", F.col("key").dropFields("__event_time"))
    names = getattr(types.get("value"), "names", [])
    if names[:1] == ["groupState"] or names[-1:] == ["timeoutTimestamp"]:  # grouped functions
        state = ["value.groupState.*"] if names[0] == "groupState" else ["value.*"]
        rows = rows.select("key", *state).drop("timeoutTimestamp")
        rows = rows.select("key", F.struct(*rows.columns[1:]).alias("value"))
    return rows


def copy_checkpoint(source: str, target: str) -> None:
    """Copy a checkpoint; files that nobody needs may vanish meanwhile, by Spark's maintenance."""

    def copy(name: str, copied: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(name, copied)

    shutil.copytree(source, target, ignore=shutil.ignore_patterns(".*"), copy_function=copy)


def run_case(spark: Any, name: str, work: str) -> dict[str, Any]:
    """Run a case; see the module."""
    case = case_of(name)
    cases.configure(spark, f"{case.backend}/agg")
    spark.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
    for key in {key for other in CASES.values() for key, _ in other.settings}:
        spark.conf.unset(key)
    for key, value in case.settings:
        spark.conf.set(key, value)
    source, original = f"{work}/in", f"{work}/original"
    write_inputs(case, source, range(CUT))
    run_query(spark, case, source, original)
    base = f"{work}/base"
    copy_checkpoint(original, base)
    # The reader of 4.0 does not know checkpoint format 2.
    reader = not spark.version.startswith(("3.", "4.0.") if case.backend == "ids" else "3.")
    before = read_state(spark, base, case) if reader else None
    write_inputs(case, source, range(CUT, FILES))
    whole = run_query(spark, case, source, original)
    results: dict[str, Any] = {"whole": whole, "state": before, "rewrites": {}}
    for label, chain in case.rewrites.items():
        current = base
        digests = []
        for step, wanted in enumerate(chain):
            target = f"{work}/{label}-{step}"
            written = rewrite_checkpoint(
                spark.sparkContext,
                LocalDirectory(current),
                LocalDirectory(target),
                wanted,
                each={0: TargetState(name=wanted.name)},
                root=f"file:{target}",
            )
            digests.append({op.ordinal: op.digest.to_json() for op in written.operators})
            assert not [n for n in os.listdir(target) if n.startswith("_attempts")]
            current = target
        # No query's pins have this: who goes on has to set it.
        spark.conf.set(CHECKPOINT_FORMAT, "2" if has_ids(case, chain) else "1")
        after = read_state(spark, current, case) if reader else None
        resumed = run_query(spark, case, source, current)
        results["rewrites"][label] = {"resumed": resumed, "state": after, "digests": digests}
    return results


def main(work: str, chosen: list[str], session: Any = None) -> None:
    """Run all cases."""
    run_cases(work, lambda version: chosen or cases_of(version), run_case, session=session)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
