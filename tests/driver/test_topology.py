"""Restoring programs whose topology has changed: state follows its uid, whatever its position.

Version 1 of a program runs over the first files, is stopped with a savepoint, and version 2 goes on
from it with the other files. What both put out must be what plain Python says, see topology.py.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from flinkish.driver.spark.jvm import configured
from flinkish.errors import Incompatible, NonRestoredState
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry.jobs import JobRecord, JobState, RequestKind
from flinkish.savepoint.format.reader import open_savepoint
from tests.support.driver.in_process_job import InProcessJob
from tests.support.driver.operator_programs import BACKENDS
from tests.support.driver.topology_programs import (
    Flow,
    Output,
    Program,
    Reference,
    States,
    build,
    mode,
    operators,
    reference,
    source,
    write_files,
)

NewJob = Callable[..., InProcessJob]

A, B, C = source("a"), source("b"), source("c")
TIMED_A, TIMED_B = source("a", timed=True), source("b", timed=True)


@dataclass(frozen=True)
class Case:
    """Two versions of a program.

    ``renamed`` is the uid map, ``says`` has to be in the log, ``refused`` is what a backend with
    which the change cannot be made has to say of it.
    """

    name: str
    before: Program
    after: Program
    named: tuple[bool, bool] = (True, True)
    renamed: Mapping[str, str] = field(default_factory=dict)
    says: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        """The name as ``pytest -k`` takes it."""
        return self.name.replace(",", "").replace(" ", "-")

    @property
    def kept(self) -> list[str]:
        """Uids, as they are in version 2, of the operators that have to find their state."""
        old = {self.renamed.get(uid, uid) for uid in operators(self.before)}
        return [uid for uid in operators(self.after) if uid in old]

    @property
    def added(self) -> list[str]:
        return [uid for uid in operators(self.after) if uid not in self.kept]

    @property
    def dropped(self) -> list[str]:
        """Uids of the operators whose state nobody takes."""
        uids = operators(self.before)
        return [uid for uid in uids if self.renamed.get(uid, uid) not in self.kept]

    def reference(self, between: Callable[[States], States] = lambda states: states) -> Reference:
        return reference(self.before, self.after, renamed=self.renamed, between=between)


def one(name: str, before: Flow, after: Flow, **facts: Any) -> Case:
    """A case of one query."""
    return Case(name, {"q": before}, {"q": after}, **facts)


USERS = A.dedup("users", "user")
USERS_ITEMS, ITEMS_USERS = (
    USERS.dedup("items", "item"),
    A.dedup("items", "item").dedup("users", "user"),
)
TOTALS, USERS_TOTALS = A.totals("totals", "kind"), USERS.totals("totals", "kind")
WINDOWS = TIMED_A.windows("windows", "kind")
AMOUNTS_WINDOWS = TIMED_A.dedup("amounts", "amount").windows("windows", "kind")
WINDOWS_AMOUNTS = WINDOWS.dedup("amounts", "amount").only("amount")
OF_A, OF_B = TIMED_A.windows("of-a", "kind"), TIMED_B.windows("of-b", "kind")
ITEMS_B, ITEMS_C = B.dedup("items", "item"), C.dedup("items", "item").only("item", "id", "amount")

REMOVED = one("a dedup removed below an aggregation", USERS_TOTALS, TOTALS)
REMOVED_ON_TOP = one("a dedup removed above another", USERS_ITEMS, USERS)
CASES = [
    one(
        "stateless steps added, removed and reordered",
        A.at_least("amount", 5).dedup("users", "user").plus("amount", 1).totals("totals", "kind"),
        A.plus("amount", 1)
        .spread()
        .dedup("users", "user")
        .at_least("amount", 9)
        .totals("totals", "kind"),
    ),
    one("a dedup added below an aggregation", TOTALS, USERS_TOTALS),
    one(
        "a dedup added between a dedup and an aggregation",
        USERS_TOTALS,
        USERS_ITEMS.totals("totals", "kind"),
    ),
    one("a dedup added below another", USERS, ITEMS_USERS),
    one("a dedup added above another", USERS, USERS_ITEMS),
    one("an aggregation added above a dedup", USERS, USERS_TOTALS),
    one("an aggregation added above another", WINDOWS, WINDOWS.wide("wide")),
    one("a dedup added above an aggregation", WINDOWS, WINDOWS_AMOUNTS),
    REMOVED,
    REMOVED_ON_TOP,
    one("two dedups swapped", USERS_ITEMS, ITEMS_USERS),
    one("a dedup and an aggregation swapped", AMOUNTS_WINDOWS, WINDOWS_AMOUNTS),
    one(
        "a dedup moved into the other branch",
        USERS.union(ITEMS_B),
        A.union(B.dedup("users", "user").dedup("items", "item")),
    ),
    one(
        "a uid renamed",
        USERS_ITEMS,
        A.dedup("people", "user").dedup("items", "item"),
        renamed={"users": "people"},
    ),
    Case("one query split into two", {"both": OF_A.union(OF_B)}, {"left": OF_A, "right": OF_B}),
    Case("a branch split off", {"q": USERS.union(ITEMS_B)}, {"q": USERS, "right": ITEMS_B}),
    Case(
        "two queries merged",  # they stand at different batches
        {"left": OF_A, "right": OF_B},
        {"both": OF_A.union(OF_B)},
        refused={"rocksdb-format2": "cannot be moved to another batch"},
    ),
    one("nothing changed, without uids", USERS_TOTALS, USERS_TOTALS, named=(False, False)),
    one(
        "uids added to everything",
        USERS_TOTALS,
        USERS_TOTALS,
        named=(False, True),
        says=("had no uids",),
    ),
    one("branches of a union swapped", USERS.union(ITEMS_B), ITEMS_B.union(USERS)),
    one(
        "branches swapped, one with a join",
        A.join("pairs", B).union(ITEMS_C),
        ITEMS_C.union(A.join("pairs", B)),
    ),
]
#: Proven at every run; the other cases and ways to keep state are deep.
FAST = {("two dedups swapped", "rocksdb")}
UNNAMED_SWAPPED = one(
    "a dedup and an aggregation swapped, without uids",
    AMOUNTS_WINDOWS,
    WINDOWS_AMOUNTS,
    named=(False, False),
)
JOIN_TURNED = one("inputs of a join swapped", A.join("pairs", B), B.join("pairs", A))


def parameters() -> list[Any]:
    return [
        pytest.param(
            case,
            backend,
            id=f"{case.slug}-{backend}",
            marks=() if (case.name, backend) in FAST else pytest.mark.deep,
        )
        for case in CASES
        for backend in BACKENDS
    ]


class Stage:
    """Runs versions of a program as jobs over one input and one savepoint."""

    def __init__(self, spark: Any, new_job: NewJob, directory: Path) -> None:
        self._spark = spark
        self._new_job = new_job
        self._directory = directory
        self._input = str(directory / "in")
        self._sink: dict[tuple[str, int], Counter[tuple[Any, ...]]] = {}

    def stop(self, program: Program, *, named: bool, backend: str) -> tuple[str, Output]:
        """Run over the first files, stop with a savepoint; returns its path and the output."""
        write_files(self._input, first=True)
        settled = threading.Event()

        def main() -> None:
            queries = self._start(program, named)
            for query in queries:
                query.processAllAvailable()
            settled.set()
            for query in queries:
                query.awaitTermination()

        settings = {**BACKENDS[backend], "spark.sql.shuffle.partitions": "2"}
        with configured(self._spark, settings):
            job = self._new_job().start(main)
            job.wait_until(settled.is_set, timeout=180)  # the first query of a session is slow
            savepoint = job.request(RequestKind.STOP, str(self._directory / "savepoints"))
            assert job.wait().state is JobState.FINISHED
        shutil.rmtree(str(job.job().checkpoint_dir))  # the savepoint is self-contained
        write_files(self._input, first=False)
        return savepoint["savepoint"]["path"], self._output(program)

    def resume(
        self, program: Program, path: str | None, *, named: bool, **spec: Any
    ) -> tuple[JobRecord, Output]:
        """Go on over all files, with other settings of the session: those of the savepoint win."""

        def main() -> None:
            for query in self._start(program, named, availableNow=True):
                query.awaitTermination()

        restore = None if path is None else RestoreSpec(path, RestoreOptions(**spec))
        with configured(self._spark, {"spark.sql.shuffle.partitions": "5"}):
            final = self._new_job(restore=restore).start(main).wait()
        return final, self._output(program)

    def _start(self, program: Program, named: bool, **trigger: Any) -> list[Any]:
        self._sink.clear()
        started = []
        for name, flow in program.items():
            frame = build(flow, self._spark, self._input, named=named)
            writer = frame.writeStream.queryName(name).outputMode(mode(flow))
            writer = writer.foreachBatch(self._keep(name))
            writer = writer.trigger(**trigger) if trigger else writer
            started.append(writer.start())
        return started

    def _keep(self, query: str) -> Callable[[Any, int], None]:
        """An idempotent sink: a batch that comes again replaces what it put out."""

        def write(frame: Any, batch: int) -> None:
            self._sink[query, batch] = Counter(tuple(row) for row in frame.collect())

        return write

    def _output(self, program: Program) -> Output:
        output: Output = {name: Counter() for name in program}
        for (name, _), rows in self._sink.items():
            output[name] += rows
        return output


@pytest.fixture
def stage(spark: Any, new_job: NewJob, tmp_path: Path) -> Stage:
    return Stage(spark, new_job, tmp_path)


def told(log: str, *words: str) -> bool:
    """Whether one line of flinkish's says all of it."""
    lines = [line for line in log.splitlines() if line.startswith("flinkish: ")]
    return any(all(word in line for word in words) for line in lines)


@pytest.mark.parametrize("case", [*CASES, JOIN_TURNED], ids=lambda case: case.slug)
def test_a_case_would_notice_wrong_state(case: Case) -> None:
    """Of the cases themselves: lost, exchanged or invented state changes their output."""
    expected = case.reference().after

    def changed(**other: str | None) -> Output:
        """The output if operators found the state of others, or (None) nothing."""

        def between(states: States) -> States:
            found = {name: {} if of is None else states[of] for name, of in other.items()}
            return {**states, **found}

        return case.reference(between).after

    for name in case.kept:
        assert changed(**{name: None}) != expected, f"without the state of {name}"
    if case.added:
        assert reference(case.after, case.after).after != expected, f"{case.added} not empty"
    kinds = operators(case.after)
    for x, y in combinations(case.kept, 2):
        if kinds[x].kind == kinds[y].kind:
            assert changed(**{x: y, y: x}) != expected, f"{x} and {y} exchanged"


@pytest.mark.spark
@pytest.mark.parametrize(("case", "backend"), parameters())
def test_state_follows_its_uid(
    stage: Stage, spark: Any, capsys: pytest.CaptureFixture[str], case: Case, backend: str
) -> None:
    if backend == "rocksdb-format2" and spark.version < "4":
        pytest.skip("checkpoint format 2 exists from Spark 4.0 on")
    expected = case.reference()
    path, output = stage.stop(case.before, named=case.named[0], backend=backend)
    assert output == expected.before
    capsys.readouterr()
    final, output = stage.resume(
        case.after,
        path,
        named=case.named[1],
        allow_non_restored=bool(case.dropped),
        uid_map=tuple(case.renamed.items()),
    )
    if backend in case.refused:
        assert final.failure is not None
        assert final.failure["id"] == Incompatible.id
        assert case.refused[backend] in str(final.failure["message"])
        assert not any(output.values())
        return
    assert final.state is JobState.FINISHED, final.failure
    assert output == expected.after
    log = capsys.readouterr().err
    for name in case.added:
        assert told(log, f"'{name}'", "starts empty"), log
    for name in case.dropped:
        kind = str(operators(case.before)[name].kind)
        assert told(log, f"'{name}'", kind, f" {expected.rows[name]} rows", "drop"), log
    for words in case.says:
        assert told(log, words), log


@pytest.mark.spark
@pytest.mark.parametrize(
    ("case", "backend"),
    [
        pytest.param(REMOVED, "hdfs", id="below-hdfs", marks=pytest.mark.deep),
        pytest.param(REMOVED_ON_TOP, "rocksdb", id="above-rocksdb"),
        pytest.param(UNNAMED_SWAPPED, "hdfs", id="unnamed-hdfs", marks=pytest.mark.deep),
        pytest.param(UNNAMED_SWAPPED, "rocksdb", id="unnamed-rocksdb", marks=pytest.mark.deep),
    ],
)
def test_state_that_nobody_takes_is_refused_and_not_lost(
    stage: Stage, case: Case, backend: str
) -> None:
    first, second = case.named
    path, _ = stage.stop(case.before, named=first, backend=backend)
    final, _ = stage.resume(case.after, path, named=second)
    assert final.state is JobState.FAILED
    assert final.failure is not None
    assert (final.failure["id"], final.failure["code"]) == (NonRestoredState.id, 5)
    message = str(final.failure["message"])
    rows = case.reference().rows
    for name in case.dropped if first else operators(case.before):
        kind = operators(case.before)[name].kind
        uid = f"'{name}'.*" if first else ""
        size = r"[1-9][\d.]* (B|KiB|MiB)"
        assert re.search(rf"{uid}{kind}, {rows[name]} rows, {size}", message), message

    # Nothing was lost: the program as it was goes on as if nobody had tried.
    open_savepoint(path)
    final, output = stage.resume(case.before, path, named=first)
    assert final.state is JobState.FINISHED, final.failure
    assert output == reference(case.before, case.before).after


@pytest.mark.spark
@pytest.mark.deep
@pytest.mark.parametrize("backend", ["hdfs", "rocksdb"])
def test_the_sides_of_a_join_are_never_mixed_up(stage: Stage, backend: str) -> None:
    """Its inputs swapped, a join would find the rows of its left side in the state of its right
    one, and put out wrong pairs: Spark notices nothing where the columns are alike."""
    path, _ = stage.stop(JOIN_TURNED.before, named=True, backend=backend)
    final, output = stage.resume(JOIN_TURNED.after, path, named=True)
    assert final.state is JobState.FAILED, output
    assert final.failure is not None
    assert final.failure["code"] in (4, 5), final.failure
    assert "'pairs'" in str(final.failure["message"])
    assert not output["q"]
