"""What is put together about a job; its rendering is in tests/cli/test_lifecycle.py."""

from __future__ import annotations

from pathlib import Path

from flinkish.client.listing import describe_job, full_history
from flinkish.messages.launch import Launch
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import SavepointArguments
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, JobStateChange, RequestKind

JOB = JobRecord("a" * 32, "flights", JobState.INITIALIZING, 1.0, Launch("/app.py"))


def test_all_that_belongs_to_the_job(tmp_path: Path) -> None:
    with Registry.open(str(tmp_path / "registry.db")) as registry:
        registry.add_job(JOB)
        registry.transition(JOB.job_id, JobState.CREATED)
        registry.transition(JOB.job_id, JobState.RUNNING)
        registry.transition(JOB.job_id, JobState.RESTARTING, reason="the driver was lost")
        registry.heartbeat(JOB.job_id, [QueryStatus("q", "id", "run", "/cp/q", batch_id=3)])
        sent = registry.submit(JOB.job_id, RequestKind.SAVEPOINT, SavepointArguments("/sp"))
        found = describe_job(registry, registry.job(JOB.job_id))
    assert found.job.state is JobState.RESTARTING
    assert [change.state for change in found.history][-2:] == [
        JobState.RUNNING,
        JobState.RESTARTING,
    ]
    assert [change.reason for change in found.restarts] == ["the driver was lost"]
    assert [query.batch_id for query in found.queries] == [3]
    assert found.savepoints == ()
    assert [request.request_id for request in found.requests] == [sent.request_id]


def test_a_state_that_could_not_be_recorded_ends_the_history() -> None:
    running = JobStateChange(JobState.RUNNING, 2.0, None)
    dead = JobRecord(
        *("a" * 32, "flights", JobState.FAILED, 1.0, Launch("/app.py")),
        end_time=5.0,
        failure={"message": "gone"},
    )
    assert full_history(dead, [running]) == (running, JobStateChange(JobState.FAILED, 5.0, "gone"))
    failed = JobStateChange(JobState.FAILED, 4.0, "gone")
    assert full_history(dead, [running, failed]) == (running, failed)
    assert full_history(dead, []) == ()
