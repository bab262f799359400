"""A program held at its first query: what it does meanwhile, and how it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.runtime import handover
from flinkish.driver.runtime.rehearsal import RemovesInput
from flinkish.launch.job_origin import job_origin
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.upgrades import Upgrade, UpgradeKind, UpgradeState
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, RequestKind
from flinkish.registry.liveness import process_ref
from tests.driver.test_gate import rate, rate_key, start_counting
from tests.driver.test_restore import stopped_savepoint
from tests.support.driver.in_process_job import InProcessJob

pytestmark = pytest.mark.spark

NewJob = Callable[..., InProcessJob]


def successor(new_job: NewJob, registry: Registry, old: JobRecord) -> InProcessJob:
    """A job that an upgrade has started to take over from ``old``."""
    job = new_job(restore=RestoreSpec(""))
    upgrade = registry.add_upgrade(
        Upgrade(
            upgrade_id="a" * 32,
            job_id=old.job_id,
            name=old.name,
            state=UpgradeState.PREPARING,
            created=time.time(),
            launch=Launch("in-process"),
            restore=RestoreSpec(""),
            target="/sp",
            timeout=60.0,
            kind=UpgradeKind.HANDOVER,
        ),
        process_ref(),
    )
    registry.save_upgrade(replace(upgrade, new_job_id=job.job_id), process_ref())
    return job


def state_reasons(registry: Registry, job_id: str) -> list[str | None]:
    return [change.reason for change in registry.state_history(job_id)]


def test_it_runs_a_batch_on_a_copy_and_goes_on_when_the_savepoint_is_named(
    spark: Any, new_job: NewJob, registry: Registry, tmp_path: Path, capfd: Any
) -> None:
    savepoint, first = stopped_savepoint(spark, new_job, tmp_path / "sp")
    (before,) = first.runtime.queries()
    batch = newest_committed_batch(before.checkpoint)
    written: list[int] = []

    def write(frame: Any, number: int) -> None:
        frame.collect()  # Spark insists that all of the state is used
        written.append(number)

    def program() -> None:
        writer = rate(spark).groupBy(rate_key()).count().writeStream
        named = writer.queryName("counts").outputMode("update")
        named.foreachBatch(write).start()
        spark.streams.awaitAnyTermination()  # not for the query that ran on the copy

    job = successor(new_job, registry, first.job()).start(program)
    job.wait_until(
        lambda: "its program is at its first query" in state_reasons(registry, job.job_id)
    )
    assert "has run a batch on a copy of the state" in capfd.readouterr().err
    assert written == [], "without its sink"
    assert newest_committed_batch(before.checkpoint) == batch, "not in the old checkpoint"
    assert job.runtime.queries() == []
    assert list(Path(str(job.job().checkpoint_dir)).iterdir()) == [], "the copy is gone"

    registry.name_savepoint(job.job_id, savepoint["path"])
    job.wait_until(lambda: len(written) >= 2)
    (query,) = job.runtime.queries()
    assert query.query_id == before.query_id
    assert query.restored_batch == batch
    assert [written[0] - 1] == [batch]
    assert job.request(RequestKind.STOP, str(tmp_path / "sp"))["savepoint"]["queries"]
    assert job.wait().state is JobState.FINISHED


def test_a_query_that_removes_its_input_runs_no_batch(
    monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    """Neither does that end the handover: the new job alone may remove what it has read."""

    class Refusing:
        def __init__(self, *_: object) -> None:
            pass

        def run(self, *_: object) -> None:
            raise RemovesInput("query 'q': source 'in' deletes files")

        def close(self) -> None:
            pass

    monkeypatch.setattr(handover, "Rehearsal", Refusing)
    monkeypatch.setattr(handover, "job_origin", lambda *_: None)
    jwriter: Any = SimpleNamespace(format=lambda _: jwriter, outputMode=lambda _: jwriter)
    frame = SimpleNamespace(_jdf=SimpleNamespace(writeStream=lambda: jwriter))
    upgrade = SimpleNamespace(job_id="old", new_job_id="new")
    registry: Any = SimpleNamespace(upgrades_of=lambda _: [upgrade], job=lambda _: None)
    job = JobRecord("new", "q", JobState.RUNNING, 1.0, Launch("/a.py"), checkpoint_dir="/chk")
    writer, facts = SimpleNamespace(_df=frame), WriterFacts(query_name="q")
    handover._get_ready(registry, job, RestoreSpec(""), writer, facts, lambda: False)
    assert "no batch is run on a copy of the state: query 'q'" in capfd.readouterr().err


def test_a_batch_that_fails_on_the_copy(
    spark: Any, new_job: NewJob, registry: Registry, tmp_path: Path
) -> None:
    _, first = stopped_savepoint(spark, new_job, tmp_path / "sp")

    def program() -> None:
        frame = rate(spark).where("assert_true(value < 0, 'broken') is null")
        counts = frame.groupBy(rate_key()).count()
        writer = counts.writeStream.queryName("counts").outputMode("update").format("noop")
        writer.start().awaitTermination()

    job = successor(new_job, registry, first.job()).start(program)
    ended = job.wait()
    assert ended.state is JobState.FAILED
    assert "failed in a batch on a copy of the job's state" in (ended.failure or {})["message"]
    assert registry.queries(job.job_id) == []


def test_it_is_canceled_while_it_is_held(
    spark: Any, new_job: NewJob, registry: Registry, tmp_path: Path
) -> None:
    _, first = stopped_savepoint(spark, new_job, tmp_path / "sp")
    job = successor(new_job, registry, first.job())
    job.start(lambda: start_counting(spark).awaitTermination())
    job.wait_until(
        lambda: "its program is at its first query" in state_reasons(registry, job.job_id)
    )
    job.request(RequestKind.CANCEL)
    assert job.wait().state is JobState.CANCELED
    assert job_origin(registry, first.job()).job_id == first.job_id


def test_a_program_that_ends_without_a_query(
    spark: Any, new_job: NewJob, registry: Registry
) -> None:
    job = new_job(restore=RestoreSpec(""))
    ended = job.start(lambda: spark.range(3).count()).wait()
    assert ended.state is JobState.FAILED
    assert "ended without starting a query" in (ended.failure or {})["message"]
