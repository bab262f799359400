"""State as DataFrames, and queries on state made of these. Run as a program, on Spark 3.5 or 4.x.

``python -m tests.support.engine.state_frames_program DIR [CASE...]`` runs each case in one Spark
session: a query over the first part of its input, its checkpoint copied, the query to its end; of
the copy each state read as a DataFrame, and beside it by Spark's own reader (4.x); then a
checkpoint with the state written of these DataFrames, with other partitions, on which the query
goes on. It writes ``DIR/results.json``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from flinkish.checkpoint.format.log_rewrites import with_pins, with_state_ids
from flinkish.checkpoint.format.pins import PIN_SHUFFLE_PARTITIONS
from flinkish.engine.migration.migration_planner import TargetState
from flinkish.engine.stores.checkpoints import CheckpointState, read_checkpoint
from flinkish.engine.stores.files import LocalDirectory, read_bytes
from flinkish.engine.tables.bootstrap_state import write_state
from flinkish.engine.tables.frames import state_tables
from flinkish.engine.tables.spark_frames import read_state
from tests.support.checkpoints import streaming_queries as cases
from tests.support.engine.case_programs import run_cases
from tests.support.engine.resuming_program import Case, copy_checkpoint, run_query

CUT = 4
FILES = 7
PARTITIONS = 3


@dataclass(frozen=True)
class Read:
    """A state: its name, the options of Spark's reader for it, and columns of ours to compare.

    Spark's reader has other columns for some states; ``ours`` and ``sparks`` are SQL expressions.
    """

    name: str
    options: dict[str, str]
    ours: str = "struct(partition, key, value)"
    sparks: str = "struct(partition_id, key, value)"


ONE = (Read("default", {}),)
JOIN = tuple(Read(f"{s}-{n}", {"storeName": f"{s}-{n}"}) for s in ("left", "right") for n in (
    "keyToNumValues", "keyWithIndexToValue"))  # fmt: skip
PROCESSOR = (
    Read("count", {"stateVarName": "count"}),
    Read(
        "values",
        {"stateVarName": "values", "flattenCollectionTypes": "false"},
        sparks="struct(partition_id, key, list_value)",
    ),
    Read(
        "seen",
        {"stateVarName": "seen"},
        "struct(partition, key.key, key.userKey, value)",
        "struct(partition_id, key, user_map_key, user_map_value)",
    ),
)


@dataclass(frozen=True)
class FrameCase:
    """A query of ``resuming_program`` with its backend, and what is read of it."""

    case: Case
    reads: tuple[Read, ...]


CASES = {
    "hdfs-agg": FrameCase(Case("agg", "hdfs", {}), ONE),
    "rocksdb-types": FrameCase(Case("types", "rocksdb", {}), ONE),
    "rocksdb-session": FrameCase(Case("session", "rocksdb", {}), ONE),
    "hdfs-outer": FrameCase(Case("outer", "hdfs", {}), JOIN),
    "ids-outer": FrameCase(Case("outer", "ids", {}), JOIN),
    "rocksdb-tws": FrameCase(Case("tws", "rocksdb", {}), PROCESSOR),
}
SPARK4 = ("ids", "tws")


def cases_of(version: str) -> list[str]:
    """The cases that a version of Spark can run."""
    old = version.startswith("3.")
    return [name for name in CASES if not (old and any(word in name for word in SPARK4))]


def compare(spark: Any, checkpoint: str, reads: tuple[Read, ...]) -> dict[str, Any]:
    """By state our rows and Spark's, as text and sorted; Spark's are None on 3.5."""
    source = LocalDirectory(checkpoint)
    [operator] = read_checkpoint(source).operators
    own = not spark.version.startswith("3.")
    found = {}
    for read in reads:
        ours = read_state(spark, source, operator, read.name)
        theirs = None
        if own:
            frame = spark.read.format("statestore").options(**read.options).load(checkpoint)
            theirs = texts(frame, read.sparks)
        found[read.name] = {"ours": texts(ours, read.ours), "sparks": theirs}
    return found


def texts(frame: Any, expression: str) -> list[str]:
    """Values without the names of their fields, which differ where names repeat."""
    return sorted(str(plain(row[0])) for row in frame.selectExpr(expression).collect())


def plain(value: Any) -> Any:
    """Rows as tuples."""
    if isinstance(value, tuple):
        return tuple(plain(part) for part in value)
    if isinstance(value, list):
        return [plain(part) for part in value]
    return value


def rewritten(spark: Any, checkpoint: str, target: str) -> dict[str, Any]:
    """Make a checkpoint whose state is written of DataFrames; the digest of its rows."""
    source, goal = LocalDirectory(checkpoint), LocalDirectory(target)
    state = read_checkpoint(source)
    [operator] = state.operators
    names = [table.name for table in state_tables(operator)]
    frames = {name: read_state(spark, source, operator, name) for name in names}
    given = frames[names[0]] if len(names) == 1 else frames
    written = write_state(
        *(given, source, operator, goal, TargetState(partitions=PARTITIONS)),
        root=f"file:{target}",
    )
    copy_logs(source, goal, state, written.unique_ids)
    return dict(written.digest.to_json())


def copy_logs(
    source: LocalDirectory, goal: LocalDirectory, state: CheckpointState, ids: Any
) -> None:
    """Everything but the state, with the new number of partitions and the new files' ids."""
    paths = ["metadata"]
    for log in source.names("sources"):
        names = source.names(f"sources/{log}")
        paths += [f"sources/{log}/{name}" for name in names if not name.startswith(".")]
    contents = {path: read_bytes(source, path) for path in paths}
    pins = {PIN_SHUFFLE_PARTITIONS: str(PARTITIONS)}
    for batch in (state.batch - 1, state.batch):
        path = f"offsets/{batch}"
        contents[path] = with_pins(read_bytes(source, path), path, pins=pins)
    path = f"commits/{state.batch}"
    state_ids = {0: ids} if ids else None
    contents[path] = with_state_ids(read_bytes(source, path), path, ids=state_ids)
    for path, content in contents.items():
        with goal.create(path) as file:
            file.write(content)


def run_case(spark: Any, name: str, work: str) -> dict[str, Any]:
    """Run a case; see the module."""
    found = CASES[name]
    cases.configure(spark, f"{found.case.backend}/agg")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    source, original, base = f"{work}/in", f"{work}/original", f"{work}/base"
    cases.write_inputs(source, range(CUT))
    run_query(spark, found.case, source, original)
    copy_checkpoint(original, base)
    reads = compare(spark, base, found.reads)
    digest = rewritten(spark, base, f"{work}/new")
    cases.write_inputs(source, range(CUT, FILES))
    return {
        "reads": reads,
        "digest": digest,
        "whole": run_query(spark, found.case, source, original),
        "resumed": run_query(spark, found.case, source, f"{work}/new"),
    }


def main(work: str, chosen: list[str]) -> None:
    """Run all cases."""
    run_cases(work, lambda version: chosen or cases_of(version), run_case)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
