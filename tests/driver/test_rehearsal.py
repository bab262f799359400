"""Rehearsals: batches on a copy of the state, in a directory that goes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.runtime import rehearsal
from flinkish.driver.runtime.rehearsal import Rehearsal, RemovesInput
from flinkish.driver.script import run_callable
from flinkish.driver.tasks.rehearsal_task import RehearsedProgram
from flinkish.errors import FlinkishError, UsageError
from flinkish.messages.calls import RehearsalTask, RestoreQuestion
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.rehearsals import RehearsalLimits, Rehearsed
from flinkish.restore.plan.query_restore import QueryRestore
from flinkish.restore.plan.restore_planner import RestorePlanner
from flinkish.savepoint.directory.leases import LeaseRecord, read_leases
from flinkish.savepoint.format.reader import open_savepoint
from tests.driver.test_gate import rate, rate_key, start_counting
from tests.driver.test_restore import Saved
from tests.driver.test_restore import saved as saved
from tests.support.restore.query_builders import reads, starting

pytestmark = pytest.mark.spark


@pytest.fixture
def rehearse(
    saved: Saved, tmp_path: Path
) -> Callable[..., tuple[Rehearsed | None, FlinkishError | None]]:
    """Rehearse a program with a savepoint of `start_counting`; its answer, or its error."""

    def run(
        program: Callable[[], Any], *, drop_output: bool = False, **limits: Any
    ) -> tuple[Rehearsed | None, FlinkishError | None]:
        savepoint, _ = saved("counts")
        task = RehearsalTask(
            RestoreQuestion(RestoreSpec(savepoint["path"])),
            str(tmp_path / "scratch"),
            RehearsalLimits(**limits),
            drop_output,
        )
        rehearsed = RehearsedProgram(task, {})
        try:
            error = rehearsed.failure(rehearsed.run(lambda: run_callable(program)))
            return (None if error is not None else rehearsed.answer()), error
        finally:
            rehearsed.close()
            assert not (tmp_path / "scratch").exists()

    return run


def counts(spark: Any) -> Any:
    return rate(spark).groupBy(rate_key()).count().writeStream.queryName("counts")


def test_a_query_that_the_program_does_not_name_is_planned_without_a_name() -> None:
    """As in a job: a name that the rehearsal gives it must not become its sink's uid."""
    planned: list[str | None] = []

    class Rehearsing(RehearsedProgram):
        def __init__(self) -> None:
            self._rehearsed = []
            self._task: Any = SimpleNamespace(drop_output=True, limits=None)
            self._rehearsal: Any = SimpleNamespace(run=self._note, starting={})

        def _note(self, _name: str, _writer: Any, facts: WriterFacts, *_: Any) -> Any:
            planned.append(facts.query_name)
            return SimpleNamespace(error=None)

        def session_created(self, session: Any) -> None:
            pass

        def _name_of(self, facts: WriterFacts, session: Any) -> str:
            return "query-1"

    facts = WriterFacts()
    jwriter: Any = SimpleNamespace(format=lambda _: jwriter, trigger=lambda _: jwriter)
    trigger = SimpleNamespace(Trigger=SimpleNamespace(ProcessingTime=lambda _: None))
    spark = SimpleNamespace(sql=SimpleNamespace(streaming=trigger))
    jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(spark=spark)))
    writer = SimpleNamespace(
        _spark=SimpleNamespace(_jvm=jvm),
        _jwrite=jwriter,
        queryName=lambda name: setattr(facts, "query_name", name),  # as the hook records it
    )
    Rehearsing().start_query(writer, facts, lambda: None)
    assert planned == [None]


@pytest.mark.parametrize(
    ("option", "removes"),
    [
        ({"cleanSource": "delete"}, True),
        ({"CLEANSOURCE": "Archive"}, True),
        ({"cleanSource": "OFF"}, False),
        ({"sourceArchiveDir": "/a"}, False),
    ],
)
def test_a_query_that_removes_its_input_is_refused(
    monkeypatch: pytest.MonkeyPatch, option: dict[str, str], removes: bool
) -> None:
    """The job has not read the files of the rehearsed batches, and would never read them."""
    source = replace(reads("file[/in]", uid="in"), options=option)
    planned = starting(sources=(reads("rate[]"), source)), QueryRestore("q")
    monkeypatch.setattr(rehearsal, "plan_start", lambda *_: planned)
    monkeypatch.setattr(rehearsal, "planning_settings", lambda *_: {})
    rehearsing = Rehearsal.__new__(Rehearsal)
    rehearsing.starting = {}
    rehearsing.planner = cast(RestorePlanner, SimpleNamespace(offers=None))
    plans: Any = SimpleNamespace(plan_to_run=lambda *_: (None, ()), snapshot_modules=lambda _: ())
    rehearsing._planning = plans
    given = ("q", None, WriterFacts(), None, "/scratch")
    if not removes:
        assert rehearsing._copy(*given) == (None, {})
        return
    with pytest.raises(RemovesInput, match=r"source 'in' (delete|archive)s files that it has read"):
        rehearsing._copy(*given)


def test_batches_go_on_from_the_savepoint(spark: Any, rehearse: Any, saved: Saved) -> None:
    savepoint, query_id = saved("counts")
    batch = savepoint["queries"][0]["batch_id"]
    seen: list[Any] = []

    def program() -> None:
        query = start_counting(spark, interval="1 hour")
        seen.append((query.awaitTermination(), query.isActive))

    done, error = rehearse(program, batches=2)
    assert error is None
    (query,) = done.queries
    assert query.restored_batch == batch
    numbers = [each.batch_id for each in query.batches]
    assert numbers[:2] == [batch + 1, batch + 2]
    # `rate-micro-batch` gives 10 rows a batch; all are in the state, in 5 groups.
    assert [each.input_rows for each in query.batches] == [10] * len(numbers)
    assert {each.state_rows for each in query.batches} == {5}
    assert query.rows_per_second is not None
    assert done.plan.verdict == "ok"
    assert seen == [(None, False)]
    assert open_savepoint(savepoint["path"]).queries[0].query_id == query_id


def test_max_rows_ends_it(spark: Any, rehearse: Any) -> None:
    done, _ = rehearse(lambda: start_counting(spark), batches=1000, max_rows=20)
    assert 20 <= done.queries[0].input_rows < 200


def test_a_batch_that_fails_is_named(spark: Any, rehearse: Any, saved: Saved) -> None:
    batch = saved("counts")[0]["queries"][0]["batch_id"]
    limit = (batch + 2) * 10  # the first batch after the savepoint is within it

    def program() -> None:
        frame = rate(spark).where(f"assert_true(value < {limit}, 'broken') is null")
        writer = frame.groupBy(rate_key()).count().writeStream.queryName("counts")
        writer.outputMode("update").format("noop").start().awaitTermination()

    done, error = rehearse(program)
    assert error is None, "the program itself did not fail"
    (query,) = done.queries
    assert query.failed_batch == batch + 2
    assert [each.batch_id for each in query.batches] == [batch + 1]
    assert "broken" in query.error or "STREAM_FAILED" in query.error
    assert not query.late


@pytest.mark.filterwarnings("ignore:distutils:DeprecationWarning")  # PySpark 3.5 and pandas
def test_a_batch_that_hangs(spark: Any, rehearse: Any, saved: Saved) -> None:
    def program() -> None:
        slow = rate(spark).mapInArrow(sleeping, "value long").groupBy(rate_key()).count()
        writer = slow.writeStream.queryName("counts").outputMode("update").format("noop")
        writer.start()

    done, error = rehearse(program, patience=3.0)
    assert error is None
    assert done.queries[0].late
    assert done.queries[0].error == "the batch was not finished within 3 s"


def sleeping(batches: Any) -> Any:
    import time

    time.sleep(60)
    yield from batches


def test_files_go_into_the_scratch_directory(spark: Any, rehearse: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    leases: list[LeaseRecord] = []

    def program() -> None:
        counts(spark).outputMode("complete").format("noop").start()
        rate(spark).writeStream.queryName("raw").format("parquet").start(str(out))
        leases.extend(read_leases(str(tmp_path / "scratch")))

    done, error = rehearse(program)
    assert [lease.pid for lease in leases] == [os.getpid()], "so that no purge removes it"
    assert error is None
    assert [query.name for query in done.queries] == ["counts", "raw"]
    raw = done.queries[1]
    assert raw.restored_batch is None, "it begins empty"
    assert raw.batches
    assert not out.exists()


@pytest.mark.parametrize("kind", ["foreachBatch", "table"])
def test_a_sink_that_cannot_be_redirected(spark: Any, rehearse: Any, kind: str) -> None:
    written: list[int] = []

    def program() -> None:
        writer = counts(spark).outputMode("update")
        if kind == "table":
            writer.toTable("somewhere")
        else:
            writer.foreachBatch(lambda _, number: written.append(number)).start()

    _, error = rehearse(program)
    assert isinstance(error, UsageError)
    what = "the table somewhere" if kind == "table" else "a foreachBatch sink"
    assert error.message == f"query 'counts' writes to {what}, which a rehearsal cannot redirect"
    if kind == "foreachBatch":
        done, error = rehearse(program, drop_output=True, batches=1)
        assert error is None
        assert done.queries[0].batches
        assert written == []


def test_state_that_nobody_takes(spark: Any, rehearse: Any) -> None:
    def program() -> None:
        writer = rate(spark).groupBy(rate_key()).count().writeStream.queryName("other")
        writer.outputMode("update").format("noop").start()

    done, error = rehearse(program, batches=1)
    assert error is None
    assert done.plan.verdict == "consent-needed"


def test_queries_without_a_name(spark: Any, rehearse: Any) -> None:
    """They are named as by a run of the program: by the order of their starts."""

    def program() -> None:
        counts(spark).outputMode("complete").format("noop").start()
        for _ in range(2):
            rate(spark).writeStream.format("noop").start()

    done, error = rehearse(program, batches=1)
    assert error is None
    assert [query.name for query in done.queries] == ["counts", "query-1", "query-2"]
