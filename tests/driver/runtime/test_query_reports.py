"""What a driver reports of its queries, and holds for them, while the program starts one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.runtime.job_session import JobSession
from flinkish.driver.runtime.program_gate import ProgramGate
from flinkish.driver.runtime.query_reports import QueryReports
from flinkish.driver.runtime.running_query import ManagedQuery
from flinkish.errors import DriverLost, UsageError
from flinkish.messages.launch import Launch
from flinkish.registry.claims import file_resource
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.registry.liveness import process_ref

A, B = "a" * 32, "b" * 32
OUT = file_resource("/out")


def session() -> Any:
    """A SparkSession, as far as one is told from another."""
    own = SimpleNamespace()
    own.equals = lambda other: other is own
    return SimpleNamespace(
        _jsparkSession=own,
        _jvm=None,
        conf=SimpleNamespace(get=lambda _key, default: default),
    )


HERE = session()


@dataclass
class Run:
    """As Py4J shows a query of the JVM that has made no progress."""

    is_active: bool = True
    error: str | None = None

    def getClass(self) -> Any:
        return SimpleNamespace(getSimpleName=lambda: "MicroBatchExecution")

    def queryExecutionThread(self) -> Run:
        return self

    def id(self) -> Any:
        return SimpleNamespace(toString=lambda: "an-id")

    runId = id

    def isAlive(self) -> bool:
        return self.is_active

    def status(self) -> Any:
        status = {"message": "Processing new data", "isDataAvailable": True}
        return SimpleNamespace(json=lambda: json.dumps(status))

    def lastProgress(self) -> None:
        return None

    def exception(self) -> Any:
        failed = SimpleNamespace(getMessage=lambda: self.error, getCause=lambda: None)
        return SimpleNamespace(isEmpty=lambda: self.error is None, get=lambda: failed)


def fake_query(name: str, root: Path, run: Run) -> ManagedQuery:
    return ManagedQuery(
        name=name,
        generated_name=False,
        facts=WriterFacts(),
        writer=None,
        begin=lambda: None,
        handle=SimpleNamespace(_jsq=run),
        root_uri=f"file://{root}/{name}",
        session=HERE,
        query_id=f"id-{name}",
        run_id="r",
    )


class Job:
    """The queries of job A and what reports them; job B is another one."""

    def __init__(self, registry: Registry) -> None:
        for letter in "ab":
            job = JobRecord(letter * 32, letter, JobState.CREATED, 1.0, Launch("/a.py"))
            registry.add_job(job)
        self.gate = ProgramGate()
        queries = self.gate.queries
        session = JobSession(registry, A, queries)
        self.reports = QueryReports(registry, A, session, queries, frozenset, self.gate.fail)


def started(job: Job, name: str, root: Path) -> Run:
    run = Run()
    job.gate.add(fake_query(name, root, run))
    return run


def held(registry: Registry, job: str = B, query: str = "q") -> list[str]:
    return [claim.query for claim in registry.claim_resources(job, query, [OUT])]


def test_a_report_voids_no_claim_of_a_query_that_starts_again(
    registry: Registry, tmp_path: Path
) -> None:
    job = Job(registry)
    run = started(job, "q", tmp_path)
    job.reports.send()
    run.is_active = False
    with job.reports.starting("q", HERE) as handles:
        assert registry.claim_resources(A, "q", [OUT]) == []
        job.reports.send()
        assert held(registry) == ["q"]
        handles.append(started(job, "q", tmp_path))
    job.reports.send()
    assert held(registry) == ["q"]


def test_what_has_ended_is_reported_before_the_next_start(
    registry: Registry, tmp_path: Path
) -> None:
    job = Job(registry)
    assert registry.claim_resources(A, "q1", [OUT]) == []
    run = started(job, "q1", tmp_path)
    job.reports.send()
    assert held(registry, A, "q2") == ["q1"]
    run.is_active = False
    with job.reports.starting("q2", HERE):
        assert held(registry, A, "q2") == []


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_query_that_spark_does_not_start_holds_nothing(
    registry: Registry, tmp_path: Path, is_begun: bool
) -> None:
    job = Job(registry)
    started(job, "other", tmp_path)

    def start() -> None:
        with job.reports.starting("q", HERE) as handles:
            assert registry.claim_resources(A, "q", [OUT]) == []
            handles += [Run()] * is_begun
            raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        start()
    job.reports.send()
    assert held(registry) == ["q"] * is_begun


def test_a_second_start_that_spark_refuses_takes_nothing_from_the_first(
    registry: Registry, tmp_path: Path
) -> None:
    job = Job(registry)
    assert registry.claim_resources(A, "q", [OUT]) == []
    started(job, "q", tmp_path)
    with pytest.raises(ValueError, match="runs already"), job.reports.starting("q", HERE):
        raise ValueError("runs already")
    assert held(registry) == ["q"]


def test_a_name_is_that_of_one_query_also_in_two_sessions(
    registry: Registry, tmp_path: Path
) -> None:
    """Spark starts both; one of them would be in no savepoint, and never be stopped."""
    job = Job(registry)
    started(job, "q", tmp_path)
    with job.reports.starting("q", HERE):
        pass  # Spark's to judge
    with (
        pytest.raises(UsageError, match="the same name: 'q'"),
        job.reports.starting("q", session()),
    ):
        pass
    assert "the same name: 'q'" in str(job.gate.fatal)


def test_a_name_that_is_free_again(registry: Registry, tmp_path: Path) -> None:
    job = Job(registry)
    started(job, "q", tmp_path).is_active = False
    with (
        job.reports.starting("q", session()),
        pytest.raises(UsageError),
        job.reports.starting("q", HERE),
    ):
        pass  # two threads at once


@pytest.mark.parametrize("ago", [200.0, 400.0])
def test_a_job_that_a_reader_has_just_declared_lost_goes_on(
    registry: Registry, ago: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later, its state may have been used where the registry does not see it."""
    job = Job(registry)
    registry.update_job(A, driver=process_ref())
    lost = DriverLost("no heartbeat for 31 s").to_record()
    registry.transition(A, JobState.FAILED, failure=lost)
    later = registry.now() + ago
    monkeypatch.setattr(Registry, "now", lambda _registry: later)
    expected = JobState.CREATED if ago < 300 else JobState.FAILED
    assert job.reports.send()[0] is expected
    assert registry.job(A).state is expected


def test_a_job_that_has_failed_stays_failed(registry: Registry) -> None:
    job = Job(registry)
    registry.update_job(A, driver=process_ref())
    registry.transition(A, JobState.FAILED, failure=UsageError("it is wrong").to_record())
    assert job.reports.send()[0] is JobState.FAILED
