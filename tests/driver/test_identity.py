"""Operator identity in running jobs: the rules at submission, what status and savepoints say, and
the look at Spark's real plan before a restored query commits."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish import uid
from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.driver.plan.uid_rules import Planning
from flinkish.driver.runtime import query_setup, restore_gate
from flinkish.messages.launch import RestoreSpec
from flinkish.operators.uids import uid_to_operator_id
from flinkish.registry.jobs import JobState, RequestKind
from flinkish.savepoint.format.reader import open_savepoint
from tests.driver.test_gate import rate
from tests.support.driver.in_process_job import InProcessJob

pytestmark = pytest.mark.spark

NewJob = Callable[..., InProcessJob]
V2 = {"execution.stream-graph-hasher.version": "v2"}
REQUIRED = {"pipeline.auto-generate-uids": "false"}


def start(spark: Any, *, named: tuple[str, ...] = ("seen", "counts"), more: Any = None) -> Any:
    """Deduplicate, then count; the two operators are named in that order, as far as names go."""
    names = iter((*named, "", ""))

    def name(frame: Any) -> Any:
        word = next(names)
        return frame.transform(uid(word)) if word else frame

    seen = name(rate(spark).selectExpr("value", "value % 5 as k").dropDuplicates(["value"]))
    counts = name((more(seen) if more else seen).groupBy("k").count())
    return counts.writeStream.queryName("q").outputMode("update").format("noop").start()


def stopped(
    spark: Any, new_job: NewJob, target: Path, *, named: tuple[str, ...], options: Any = None
) -> str:
    """The path of a savepoint that a job was stopped with."""
    job = new_job(options=options).start(lambda: start(spark, named=named).awaitTermination())
    job.wait_until(lambda: job.batch() >= 1)
    path = job.request(RequestKind.STOP, str(target))["savepoint"]["path"]
    assert job.wait().state is JobState.FINISHED
    return str(path)


class SlowRestorer:
    """The restore of a job, one query of which is held; its table takes long to go back."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def is_waiting(self) -> bool:
        return False

    def to_roll_back(self) -> frozenset[str]:
        return frozenset() if self.go_on.is_set() else frozenset({"q"})

    def check(self, *, more_to_come: bool) -> list[str]:
        return []

    def roll_back(self, _started: object) -> None:
        self.begun.set()
        self.go_on.wait(60)


def test_a_heartbeat_never_waits_for_a_restore(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is silent for half a minute is declared lost."""
    watch = SimpleNamespace(name="q", is_released=False, get_ready=lambda: None)
    watch.start = watch.hold = lambda *_, **__: None
    watch.release = lambda: setattr(watch, "is_released", True)
    monkeypatch.setattr(restore_gate, "FirstBatch", lambda *_: watch)
    monkeypatch.setattr(restore_gate, "at_start", lambda *_: nullcontext())
    monkeypatch.setattr(restore_gate, "_HOLD_LIMIT", 0.0)
    restorer, let_go, closed = SlowRestorer(), threading.Event(), list[bool]()

    def record(_: object) -> None:
        closed.append(gate.closed)
        let_go.set()

    gate = restore_gate.RestoreGate(
        restorer,  # type: ignore[arg-type]
        list,
        lambda _: None,
        record,
    )
    prepared = query_setup.Prepared("q", False, "/q", None, None, ())
    with gate.starting():
        with gate.watching(prepared, None) as started:
            started(None)
        gate.settle_late(lambda: None)
        assert gate.closed, "another query is being started"
        assert not restorer.begun.is_set()
    for _ in range(2):
        gate.settle_late(lambda: None)
    assert restorer.begun.wait(60)
    assert not let_go.is_set(), "the heartbeat went on before the table was back"
    restorer.go_on.set()
    assert let_go.wait(60)
    assert gate._late is not None
    gate._late.join(60)
    assert closed == [True], "a query ran before the registry knew it"
    assert not gate.closed


def test_status_and_savepoint_name_the_operators(
    spark: Any, new_job: NewJob, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = new_job().start(lambda: start(spark, named=("seen",)).awaitTermination())
    job.wait_until(lambda: job.batch() >= 1)
    (status,) = job.runtime.statuses()
    by_kind = {op.kind: op for op in status.operators}
    assert by_kind["dedupe"].uid == "seen"
    assert by_kind["dedupe"].operator_id == uid_to_operator_id("seen")
    assert by_kind["stateStoreSave"].uid is None
    assert by_kind["stateStoreSave"].operator_id
    assert any("1 of 2 stateful operators have a uid; missing: " in n for n in status.notes)
    assert "1 of 2 stateful operators have a uid" in capsys.readouterr().err
    path = job.request(RequestKind.STOP, str(tmp_path / "sp"))["savepoint"]["path"]
    job.wait()
    (query,) = open_savepoint(path).queries
    saved = {op.state.kind: op for op in query.operators}
    assert saved["dedupe"].uid == "seen"
    assert saved["dedupe"].operator_id_v2 == uid_to_operator_id("seen")
    assert saved["dedupe"].operator_id_v3 == uid_to_operator_id("seen")
    counts = saved["stateStoreSave"]
    assert counts.operator_id == counts.operator_id_v3 != counts.operator_id_v2
    assert counts.facts.rows == 5
    (source,) = query.source
    assert source["signature"]
    assert source["directory"] == "0"


def test_a_job_without_uids_is_refused_where_they_are_required(spark: Any, new_job: NewJob) -> None:
    final = new_job(options=REQUIRED).start(lambda: start(spark, named=("seen",))).wait()
    assert final.state is JobState.FAILED
    assert final.failure is not None
    assert (final.failure["id"], final.failure["code"]) == ("missing-uid", 4)
    first, *others = final.failure["operators"]
    assert (first["kind"], first["stateful"]) == ("stateStoreSave", True)
    assert [other["stateful"] for other in others] == [False] * len(others)


def test_a_uid_given_twice_fails_the_submission_and_names_both(spark: Any, new_job: NewJob) -> None:
    job = new_job().start(lambda: start(spark, named=("x", "x")))
    final = job.wait()
    assert final.state is JobState.FAILED
    assert final.failure is not None
    assert (final.failure["id"], final.failure["code"]) == ("duplicate-uid", 4)
    assert "dedupe" in final.failure["message"]
    assert "stateStoreSave" in final.failure["message"]
    assert not job.runtime.queries()


@pytest.mark.deep
def test_a_query_that_cannot_be_planned_runs_and_the_user_is_told(
    spark: Any, new_job: NewJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown Spark must not keep a job from running; its state is then known by place only."""

    def unknown(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no such method in this Spark")

    with monkeypatch.context() as patched:
        patched.setattr(Planning, "plan", unknown)
        path = stopped(spark, new_job, tmp_path / "sp", named=())
        job = new_job(restore=RestoreSpec(path=path))
        job.start(lambda: start(spark).awaitTermination())
        batch = open_savepoint(path).queries[0].batch_id
        job.wait_until(lambda: job.batch() > batch)
        assert "cannot be read" in job.runtime.statuses()[0].notes[0]
        job.request(RequestKind.CANCEL)
        job.wait()
        final = new_job(options=REQUIRED).start(lambda: start(spark)).wait()
        assert final.state is JobState.FAILED
    assert [op.operator_id for op in open_savepoint(path).queries[0].operators] == [None, None]


@pytest.mark.deep
def test_a_job_moves_from_one_hasher_to_the_other(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    """Without uids: v2 ids are asked of what was saved under v3, and the other way round."""
    path = stopped(spark, new_job, tmp_path / "one", named=())
    path = resumed(spark, new_job, path, tmp_path / "two", V2)
    record = open_savepoint(path).queries[0].operators[0]
    assert record.operator_id == record.operator_id_v2
    path = resumed(spark, new_job, path, tmp_path / "three", {})
    record = open_savepoint(path).queries[0].operators[0]
    assert record.operator_id == record.operator_id_v3


def resumed(spark: Any, new_job: NewJob, path: str, target: Path, options: Any) -> str:
    """The path of a savepoint taken a batch after the one at ``path``."""
    job = new_job(options=options, restore=RestoreSpec(path=path))
    job.start(lambda: start(spark, named=()).awaitTermination())
    batch = open_savepoint(path).queries[0].batch_id
    job.wait_until(lambda: job.batch() > batch)
    after = job.request(RequestKind.STOP, str(target))["savepoint"]["path"]
    assert job.wait().state is JobState.FINISHED
    return str(after)


def test_another_plan_than_expected_stops_the_query_before_its_first_commit(
    spark: Any, new_job: NewJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stopped(spark, new_job, tmp_path / "sp", named=("seen", "counts"))
    batch = open_savepoint(path).queries[0].batch_id
    real = query_setup.Preparer.prepare

    def exchanged(self: Any, name: str, writer: Any, facts: Any) -> Any:
        """As if flinkish had read the ordinals the wrong way round."""
        prepared = real(self, name, writer, facts)
        assert prepared.planned is not None
        operators = prepared.planned.operators
        nodes = [dataclasses.replace(op.node, ordinal=1 - op.node.ordinal) for op in operators]
        wrong = [
            dataclasses.replace(op, node=node) for op, node in zip(operators, nodes, strict=True)
        ]
        planned = dataclasses.replace(prepared.planned, operators=tuple(wrong))
        return dataclasses.replace(prepared, planned=planned)

    monkeypatch.setattr(query_setup.Preparer, "prepare", exchanged)
    job = new_job(restore=RestoreSpec(path=path))
    final = job.start(lambda: start(spark).awaitTermination()).wait()
    assert final.state is JobState.FAILED
    assert final.failure is not None
    assert final.failure["code"] == 4
    assert "Spark runs the stateful operators" in final.failure["message"]
    assert newest_committed_batch(job.runtime.queries()[0].checkpoint) == batch


@pytest.mark.deep
def test_a_program_that_waits_for_nothing_is_let_go_after_a_while(
    spark: Any, new_job: NewJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It never awaits a query; what state it leaves behind is found out all the same."""
    path = stopped(spark, new_job, tmp_path / "sp", named=("seen", "counts"))
    monkeypatch.setattr(restore_gate, "_HOLD_LIMIT", 1.0)
    over = threading.Event()

    def program() -> None:
        frame = rate(spark).selectExpr("value % 5 as k").groupBy("k").count()
        frame = frame.transform(uid("counts"))
        frame.writeStream.queryName("q").outputMode("update").format("noop").start()
        over.wait(60)

    job = new_job(restore=RestoreSpec(path=path))
    job.runtime.interrupt = over.set
    final = job.start(program).wait()
    assert final.state is JobState.FAILED
    assert final.failure is not None
    assert final.failure["id"] == "non-restored-state"
    assert "uid 'seen'" in final.failure["message"]
    batch = open_savepoint(path).queries[0].batch_id
    assert newest_committed_batch(job.runtime.queries()[0].checkpoint) == batch


@pytest.mark.deep
def test_a_stop_request_opens_the_gate(spark: Any, new_job: NewJob, tmp_path: Path) -> None:
    """A held query could not end otherwise."""
    path = stopped(spark, new_job, tmp_path / "sp", named=("seen", "counts"))
    over = threading.Event()

    def program() -> None:
        frame = rate(spark).selectExpr("value % 5 as k").groupBy("k").count()
        frame = frame.transform(uid("counts"))
        frame.writeStream.queryName("q").outputMode("update").format("noop").start()
        over.wait(60)

    job = new_job(restore=RestoreSpec(path=path)).start(program)
    job.wait_until(lambda: job.runtime.restore_gate.closed)
    assert job.job().state is JobState.CREATED
    job.request(RequestKind.CANCEL)
    over.set()
    assert job.wait().state is JobState.CANCELED
