"""The end of a job's record, on SQLite and on a real PostgreSQL server."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest

from flinkish.errors import DriverLost, JobNotFound, ProgramFailed, WrongState
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import SavepointArguments, SavepointSummary
from flinkish.registry.database import Transaction
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, RequestKind
from flinkish.registry.purging import why_purged

MakeJob = Callable[..., JobRecord]


def add(registry: Registry, make_job: MakeJob, end: JobState = JobState.FINISHED) -> JobRecord:
    """A job that has had everything, and has ended."""
    job = make_job()
    registry.add_job(job)
    for query_id in ("old", "new"):
        registry.heartbeat(job.job_id, [QueryStatus("q", query_id, "r", "/cp", batch_id=3)])
    registry.submit(job.job_id, RequestKind.SAVEPOINT, SavepointArguments("/sp"))
    for name in ("there", "disposed"):
        path = f"/sp/{name}-{job.job_id}"
        registry.add_savepoint(SavepointSummary(path, job.job_id, 1.0, "native", 1, 1, 0.1))
    registry.mark_disposed(path)
    failure = ProgramFailed("it broke").to_record() if end is JobState.FAILED else None
    return registry.transition(job.job_id, end, failure=failure)


def test_a_job_is_forgotten_and_its_savepoints_are_not(
    registry: Registry, make_job: MakeJob
) -> None:
    job, other = add(registry, make_job), add(registry, make_job)
    with pytest.raises(WrongState, match="is not being purged"):
        registry.forget(job.job_id)
    registry.begin_purge(job, {})
    registry.forget(job.job_id)
    assert [each.job_id for each in registry.jobs()] == [other.job_id]
    assert registry.requests(job.job_id) == []
    assert registry.state_history(job.job_id) == []
    assert registry.runs([job.job_id]) == {}
    left = registry.savepoints(include_disposed=True)
    assert [s.path.split("-")[0] for s in left if s.job_id == job.job_id] == ["/sp/there"]
    assert len(registry.requests(other.job_id)) == 1
    with pytest.raises(JobNotFound):
        registry.begin_purge(job, {})


def test_a_marked_job_is_not_started_again(registry: Registry, make_job: MakeJob) -> None:
    job = add(registry, make_job)
    marked = registry.begin_purge(job, {})
    assert why_purged(job) is None
    assert why_purged(marked) is not None
    assert why_purged(registry.job(job.job_id)) is not None
    for seen in (job, marked):
        with pytest.raises(WrongState, match="purge has removed what flinkish kept"):
            registry.restart(seen, "again")
    assert registry.begin_purge(marked, {}) == marked, "an interrupted purge goes on"


def test_a_late_report_leaves_the_mark(registry: Registry, make_job: MakeJob) -> None:
    """That of a supervisor which slept while a reader declared the job lost, and it was purged."""
    failure = ProgramFailed("it broke").to_record()
    job = make_job()
    registry.add_job(job)
    guess = DriverLost("its host is silent").to_record()
    lost = registry.transition(job.job_id, JobState.FAILED, failure=guess)
    registry.begin_purge(lost, {})
    registry.update_job(job.job_id, exit_status=1, failure=None)
    assert why_purged(registry.job(job.job_id)) is not None
    marked = registry.transition(job.job_id, JobState.FAILED, failure=failure)
    assert why_purged(marked) is not None
    assert marked.failure is not None
    assert marked.failure["id"] == ProgramFailed.id
    registry.update_job(job.job_id, failure=failure)
    assert why_purged(registry.job(job.job_id)) is not None


def test_a_job_that_was_started_again_is_not_purged(registry: Registry, make_job: MakeJob) -> None:
    job = add(registry, make_job)
    registry.restart(job, "again")
    with pytest.raises(WrongState, match="is RESTARTING by now; it stays"):
        registry.begin_purge(job, {})


def test_the_newest_batches_are_kept(registry: Registry, make_job: MakeJob) -> None:
    job = add(registry, make_job)
    registry.begin_purge(job, {"old": 2, "new": 8})
    assert {q.query_id: q.batch_id for q in registry.runs()[job.job_id]} == {"old": 3, "new": 8}
    assert [q.query_id for q in registry.queries(job.job_id)] == ["new"]


def test_a_failure_is_acknowledged_and_stays_known(registry: Registry, make_job: MakeJob) -> None:
    job = add(registry, make_job, JobState.FAILED)
    marked = registry.begin_purge(job, {})
    assert registry.unacknowledged() == []
    assert marked.failure is not None
    assert (marked.failure["id"], marked.failure["message"]) == ("program-failed", "it broke")


def test_a_retried_acknowledgement_has_all_its_jobs(
    sqlite_registry: Registry, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = add(sqlite_registry, make_job, JobState.FAILED)
    write = sqlite_registry._database.write
    tries: list[object] = []

    def twice(work: Callable[[Transaction], object]) -> object:
        def both(tx: Transaction) -> object:
            if not tries:
                tries.append(work(tx))
                raise sqlite3.OperationalError("database is locked")
            return work(tx)

        return write(both)

    monkeypatch.setattr(sqlite_registry._database, "write", twice)
    assert sqlite_registry.acknowledge(each for each in [job.job_id]) == [job.job_id]
    assert tries == [[job.job_id]]
