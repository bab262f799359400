"""Pairs of programs, and what a restore of one from the other's savepoint really comes to.

An old :class:`Program` runs over the first files, and a savepoint is taken of it. The new one is
planned against that savepoint, which gives the verdict; then its checkpoint is made *whatever* the
verdict was (the state by position, as if the check were switched off), and Spark runs it over the
files that came later. :meth:`Bench.truth` says whether it failed, or whether its result is that of
batch Spark over all the input.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flinkish.driver.plan.plan_extraction import PlannedQuery, extract_plan
from flinkish.driver.plan.planned_queries import empty_states, operator_facts, source_records
from flinkish.driver.plan.restore_environment import DriverRestoreEnvironment
from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.restore.query_restores import make_restored, plan_start, planning_settings
from flinkish.driver.spark.jvm import configured
from flinkish.messages.restore_options import RestoreOptions
from flinkish.restore.materialize.new_checkpoint import make_checkpoint
from flinkish.restore.origin.restore_origin import RestoreOrigin, open_path
from flinkish.restore.plan.decisions import recipe_for
from flinkish.restore.plan.query_restore import PlanningSettings, QueryRestore
from flinkish.restore.plan.restore_planner import RestorePlanner
from flinkish.savepoint.format.contents import QuerySource, SavepointJob
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.writer import write_savepoint
from flinkish.state.snapshots import DEFAULT_MODULES

SCHEMA = (
    "id long, k string, j string, v long, w long, n int, d double, m decimal(10,2), ts timestamp"
)
_COLUMNS = ("id", "k", "j", "v", "w", "n", "d", "m", "ts")
#: Rows without ``id`` and with the second of their time; one file a batch. Users of ``k`` are in
#: ``j`` too, so that a state found by the wrong key is found; ``w`` is null at times.
FIRST: dict[str, tuple[tuple[Any, ...], ...]] = {
    "a": (
        ("a", "x", 1, 10, 1, 1.5, "1.25", 0),
        ("b", "y", 2, None, 2, 2.5, "2.50", 200),
        ("a", "y", 3, 30, 3, 0.5, "3.75", 500),
    ),
    "b": (
        ("a", "x", 100, 1, 7, 1.0, "1.00", 50),
        ("c", "b", 200, 2, 8, 2.0, "2.00", 250),
    ),
}
SECOND: dict[str, tuple[tuple[Any, ...], ...]] = {
    "a": (
        ("c", "x", 4, 40, 4, 4.5, "4.25", 700),
        ("a", "x", 1, 50, 5, 1.5, "5.50", 900),
        ("b", "a", 5, None, 6, 6.5, "6.75", 1100),
    ),
    "b": (("b", "y", 300, None, 9, 3.0, "3.00", 750),),
}
LATER: dict[str, tuple[tuple[Any, ...], ...]] = {
    "a": (
        ("a", "x", 1, 60, 7, 1.5, "7.25", 300),
        ("b", "y", 6, 15, 1, 0.5, "1.50", 800),
        ("d", "x", 7, 70, 9, 9.5, "9.75", 1000),
        ("c", "a", 4, 80, 2, 4.5, "4.25", 1300),
        ("a", "b", 8, 90, 11, 8.5, "2.25", 1500),
    ),
    "b": (
        ("a", "x", 400, 4, 3, 4.0, "4.00", 350),
        ("d", "a", 500, 5, 2, 5.0, "5.00", 1050),
        ("b", "x", 600, 6, 1, 6.0, "6.00", 1250),
    ),
}
#: Hours later: it closes all windows, and stays in one that no other row is in.
MARKERS: dict[str, tuple[tuple[Any, ...], ...]] = {
    "a": (("zz", "zz", 0, 0, 0, 0.0, "0.00", 20 * 3600),),
    "b": (("yy", "yy", 0, 0, 0, 0.0, "0.00", 20 * 3600),),
}
STATE = "spark.sql.streaming.stateStore"
ROCKSDB = {
    f"{STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state."
    "RocksDBStateStoreProvider"
}
#: For what is run, not for what is planned: compiling takes longer than these inputs.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false"}
#: The uid of the operator that a pair is about.
OPERATOR = "op"
#: What truth there is: Spark has the right result, a wrong one, or fails.
RIGHT, WRONG, FAILS = "right", "wrong", "fails"

Rows = Counter[Any]
Streams = Mapping[str, Any]


@dataclass(frozen=True)
class Program:
    """A query of the input streams ``a`` and ``b``.

    ``build`` gets both as DataFrames, streaming or batch, with a watermark; ``batch`` stands for it
    where it has no batch form. ``upstream`` comes before, for changes of the user's own logic.
    ``once``: one batch has it all (Spark never ends a query that waits for processing time).
    """

    build: Callable[[Streams], Any]
    batch: Callable[[Streams], Any] | None = None
    upstream: Callable[[Any], Any] | None = None
    delay: str | None = "2 hours"
    mode: str = "update"
    once: bool = False


@dataclass(frozen=True)
class Pair:
    """An old and a new program, the verdict for the operator ``op``, and what Spark makes of it.

    ``spark`` is the truth, by default ``right``: a verdict that says yes must have it; ``spark3``
    is that of Spark 3.5 where it is another. ``key`` are
    the columns that an update replaces a row by; none in append mode. ``closing``: the marker
    closes the windows. ``promised`` is a batch program with what the engine's rewrite leads to; its
    rows have a column ``old``, true before the savepoint. By default it is the new program: the
    rewrite loses nothing. ``put_out`` is a batch program with the rows that the old program has put
    out by then, in the new program's form: those of an outer join that have a match.
    ``own_logic``: rows before the savepoint count as the old upstream made
    them. ``plain``: from the bare Spark checkpoint. ``refused``: the restore is refused for another
    reason than this operator. ``false_no`` says why there is no yes although
    Spark would be right, ``limit`` why there is a yes although it is not.
    """

    name: str
    old: Program
    new: Program
    verdict: str
    reason: str
    spark: str = RIGHT
    spark3: str = ""
    key: tuple[str, ...] = ("k",)
    closing: bool = False
    promised: Program | None = None
    put_out: Program | None = None
    own_logic: bool = False
    plain: bool = False
    operator: str = OPERATOR
    refused: bool = False
    conf: Mapping[str, str] = field(default_factory=dict)
    options: RestoreOptions = field(default_factory=RestoreOptions)
    settings: PlanningSettings = field(default_factory=PlanningSettings)
    since: str = "3.5"
    false_no: str = ""
    limit: str = ""


@dataclass(frozen=True)
class Saved:
    """An old program's run: its directory, what a restore finds, and the rows it put out."""

    root: Path
    savepoint: RestoreOrigin
    checkpoint: RestoreOrigin
    rows: tuple[Any, ...]


def frozen(value: Any) -> Any:
    """A value that can be compared and counted: rows by content, lists without order."""
    if isinstance(value, tuple):
        return tuple(frozen(each) for each in value)
    if isinstance(value, list):
        return ("list", *sorted((frozen(each) for each in value), key=repr))
    return float(value) if isinstance(value, int) else value


def _placed(planned: PlannedQuery, root: Path) -> PlannedQuery:
    """The plan as if the input were in a place that is always the same: a source is known by it,
    and what one session has recorded another one plans with."""
    sources = tuple(
        replace(source, signature=source.signature.replace(str(root), "/pairs"))
        for source in planned.sources
    )
    return replace(planned, sources=sources)


def _by_key(pair: Pair, rows: Sequence[Any]) -> dict[Any, Any]:
    """Rows by key, the last one of each."""
    return {row[: len(pair.key)]: row for row in rows}


class Bench:
    """Runs the pairs of one session; old programs run once for all their pairs."""

    def __init__(self, spark: Any, root: Path) -> None:
        self.spark = spark
        self.root = root
        self._saved: dict[Any, Saved] = {}
        self._number = 0

    # --- what is decided --------------------------------------------------------------------

    @staticmethod
    def run_of(pair: Pair) -> Any:
        """What is the same for all pairs that share a run of their old program."""
        return pair.old, pair.closing, tuple(sorted(pair.conf.items()))

    def saved(self, pair: Pair) -> Saved:
        """The old program's savepoint; the later files are there by now."""
        known = self.run_of(pair)
        if known not in self._saved:
            self._number += 1
            root = self.root / f"{self._number}"
            self.write_input(root)
            frame = self._frame(pair.old, root)
            planned = _placed(extract_plan(frame, pair.old.mode, "q"), root)
            facts = WriterFacts(query_name="q", output_mode=pair.old.mode)
            rows = self._run(frame, root / "old", pair.old)
            source = QuerySource(
                "q",
                str(root / "old"),
                source=source_records(planned, []),
                sink=facts.describe_sink(self.spark),
                operators=operator_facts(planned, ()),
            )
            job = SavepointJob("f" * 32, "job", spark_version=self.spark.version)
            info = write_savepoint(
                str(root / "saved"),
                job,
                [source],
                trigger="stop",
                reporter=SilentSavepointReporter(),
            )
            self._write(root, 2, LATER)
            if pair.closing:
                self._write(root, 3, MARKERS)
            offers = open_path(info.path), open_path(str(root / "old"))
            self._saved[known] = Saved(root, *offers, tuple(rows))
        return self._saved[known]

    def plan(self, pair: Pair) -> tuple[QueryRestore, PlannedQuery, RestoreOrigin]:
        """The restore of the new program as flinkish would plan it."""
        saved = self.saved(pair)
        offers = saved.checkpoint if pair.plain else saved.savepoint
        frame = self._frame(pair.new, saved.root)
        planned = extract_plan(frame, pair.new.mode, "q", settings=planning_settings(offers, "q"))
        planned = _placed(planned, saved.root)
        facts = WriterFacts(query_name="q", output_mode=pair.new.mode)
        planner = RestorePlanner(offers, pair.options, self.environment(), pair.settings)
        _, restore = plan_start(planner, "q", planned, facts, self.spark, DEFAULT_MODULES)
        return restore, planned, offers

    def environment(self) -> DriverRestoreEnvironment:
        """What the planner looks up."""
        return DriverRestoreEnvironment(lambda _: ())

    # --- what is true -----------------------------------------------------------------------

    def truth(
        self, pair: Pair, restore: QueryRestore, planned: PlannedQuery, offers: RestoreOrigin
    ) -> tuple[str, str]:
        """What Spark makes of the state, whatever the plan says; the second part is for people.

        The state is taken as it is, by position; what Spark itself checks stays on.
        """
        from pyspark.errors import StreamingQueryException

        assert restore.plan is not None
        assert restore.plan.base is not None, "the savepoint was not found"
        origins = {key: offer.origin for key, offer in offers.by_key.items()}
        recipe = recipe_for(restore.plan, origins, empty_states(planned))
        saved, target = self._target(pair)
        make_checkpoint(recipe, str(target))
        frame = self._frame(pair.new, saved.root)
        try:
            found = self._run(frame, target, pair.new)
        except StreamingQueryException as error:
            return FAILS, str(error)
        result, expected = self._compared(pair, saved, found, pair.new)
        return (RIGHT if result == expected else WRONG), f"{result} should be {expected}"

    def evolved(self, pair: Pair, restore: QueryRestore) -> tuple[Any, Any]:
        """What the new program makes of the state that the engine has rewritten as planned, and
        what that should be: old data under the old program, new data under the new one."""
        assert restore.recipe is not None, restore.refusal
        saved, target = self._target(pair)
        make_restored(self.spark, restore.recipe, restore.rewrite, str(target))
        found = self._run(self._frame(pair.new, saved.root), target, pair.new)
        return self._compared(pair, saved, found, pair.promised or pair.new)

    def continued(self, pair: Pair, restore: QueryRestore, *later: Sequence[Any]) -> list[Any]:
        """What the new program puts out after the engine's rewrite: of each of ``later``, which are
        rows of the stream ``a`` that come after ``LATER``, one batch after the other."""
        assert restore.recipe is not None, restore.refusal
        saved, target = self._target(pair)
        make_restored(self.spark, restore.recipe, restore.rewrite, str(target))
        found = [self._run(self._frame(pair.new, saved.root), target, pair.new)]
        for number, rows in enumerate(later, 4):
            self._write(saved.root, number, {"a": rows})
            found.append(self._run(self._frame(pair.new, saved.root), target, pair.new))
        return found[1:]

    def _target(self, pair: Pair) -> tuple[Saved, Path]:
        """The old program's run, and a new place beside it."""
        saved = self.saved(pair)
        self._number += 1
        return saved, saved.root / f"new-{self._number}"

    def _compared(
        self, pair: Pair, saved: Saved, found: list[Any], truth: Program
    ) -> tuple[Any, Any]:
        """The result and what it should be."""
        before, everything = self._reference(pair, saved.root, truth)
        if pair.new.mode == "complete":
            return _by_key(pair, found), _by_key(pair, everything)
        if pair.new.mode == "update":
            return _by_key(pair, [*before, *found]), _by_key(pair, everything)
        if pair.put_out is not None:
            before, _ = self._reference(replace(pair, closing=False), saved.root, pair.put_out)
        elif pair.closing:
            # Of windows nothing is closed before the marker comes: what was put out, was put out.
            before = [*saved.rows]
        out = Counter(before)
        return Counter(found), Counter(everything) - out

    def _reference(self, pair: Pair, root: Path, truth: Program) -> tuple[list[Any], list[Any]]:
        """The result over the first files and over all, by batch Spark."""
        earlier = pair.old if pair.own_logic else pair.new
        first = {s: self._upstream(earlier, self._batch(root, s, "01")) for s in ("a", "b")}
        later = {s: self._upstream(pair.new, self._batch(root, s, "2")) for s in ("a", "b")}
        if truth is not pair.new:
            first = {s: frame.selectExpr("*", "true as old") for s, frame in first.items()}
            later = {s: frame.selectExpr("*", "false as old") for s, frame in later.items()}
        both = {s: first[s].unionByName(later[s]) for s in first}
        build = truth.batch or truth.build
        results = [] if pair.closing or pair.new.mode == "complete" else [first]
        with configured(self.spark, INTERPRETED):
            rows = [[frozen(tuple(r)) for r in build(s).collect()] for s in (*results, both)]
        return (rows[0] if results else []), rows[-1]

    # --- Spark ------------------------------------------------------------------------------

    def write_input(self, root: Path) -> None:
        """What is there before the savepoint."""
        self._write(root, 0, FIRST)
        self._write(root, 1, SECOND)

    def _write(self, root: Path, number: int, files: Mapping[str, Sequence[Any]]) -> None:
        for stream, rows in files.items():
            directory = root / "in" / stream
            directory.mkdir(parents=True, exist_ok=True)
            lines = []
            for place, (k, j, v, w, n, d, m, second) in enumerate(rows):
                time = f"2024-03-{1 + second // 86400:02}T{second // 3600 % 24:02}:"
                time += f"{second // 60 % 60:02}:{second % 60:02}Z"
                values = (number * 10 + place, k, j, v, w, n, d, m, time)
                lines.append(json.dumps(dict(zip(_COLUMNS, values, strict=True))))
            hidden = directory / f".{number}"
            hidden.write_text("\n".join(lines))
            # Spark reads files in the order of their modification times.
            os.utime(hidden, (1.7e9 + number, 1.7e9 + number))
            hidden.rename(directory / f"{number}.json")

    def _frame(self, program: Program, root: Path) -> Any:
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        frames = {s: self._upstream(program, reader.json(str(root / "in" / s))) for s in ("a", "b")}
        return program.build(frames)

    def _batch(self, root: Path, stream: str, numbers: str) -> Any:
        paths = [str(root / "in" / stream / f"{number}.json") for number in numbers]
        return self.spark.read.schema(SCHEMA).json(paths)

    def _upstream(self, program: Program, frame: Any) -> Any:
        frame = frame if program.upstream is None else program.upstream(frame)
        return frame if program.delay is None else frame.withWatermark("ts", program.delay)

    def _run(self, frame: Any, checkpoint: Path, program: Program) -> list[Any]:
        """Run a query over what is there; its rows in order of output."""
        rows: list[Any] = []

        def collect(batch: Any, _: int) -> None:
            found = [frozen(tuple(row)) for row in batch.collect()]
            if program.mode == "complete":
                rows.clear()
            rows.extend(found)

        trigger = {"once" if program.once else "availableNow": True}
        writer = frame.writeStream.outputMode(program.mode).trigger(**trigger)
        writer = writer.option("checkpointLocation", str(checkpoint)).foreachBatch(collect)
        with configured(self.spark, INTERPRETED):
            query = writer.start()  # it clones the session
        try:
            assert query.awaitTermination(60), "the query did not end"
        finally:
            query.stop()
        return rows
