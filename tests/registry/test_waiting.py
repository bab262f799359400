"""Waiting, with a real agent in another thread and real processes that die."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable

import pytest

from flinkish.errors import (
    DriverLost,
    ProgramFailed,
    RequestNotFound,
    WaitTimeout,
    WrongState,
)
from flinkish.messages.requests import RequestResult, SavepointArguments
from flinkish.registry import waiting
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, Request, RequestKind, RequestState
from flinkish.registry.liveness import process_ref
from flinkish.registry.waiting import wait_job, wait_request

MakeJob = Callable[..., JobRecord]


@pytest.fixture
def job(registry: Registry, make_job: MakeJob) -> JobRecord:
    """A job whose driver is this very process."""
    made = make_job(driver=process_ref(), start_time=registry.now())
    registry.add_job(made)
    return made


def test_progress_and_result_are_seen(
    registry: Registry, registry_url: str, job: JobRecord
) -> None:
    sent = registry.submit(job.job_id, RequestKind.SAVEPOINT, SavepointArguments("/sp"))

    seen: list[Request] = []

    def agent() -> None:
        with Registry.open(registry_url) as other:
            claimed = other.claim(job.job_id)
            assert claimed is not None
            for files in range(3):
                other.progress(claimed.request_id, {"files": files})
                until = time.monotonic() + 60
                while not (seen and seen[-1].progress == {"files": files}):
                    assert time.monotonic() < until
                    time.sleep(0.005)
            other.complete(claimed.request_id, RequestResult(stop_method="quiesce"))

    thread = threading.Thread(target=agent)
    thread.start()
    done = wait_request(registry, sent.request_id, 120, 0.005, seen.append)
    thread.join()
    assert done.state is RequestState.COMPLETED
    assert done.result == RequestResult(stop_method="quiesce")
    assert seen[-1] == done
    assert [r.progress["files"] for r in seen if r.progress] == [0, 1, 2, 2]


def test_a_failed_request_is_returned(registry: Registry, job: JobRecord) -> None:
    sent = registry.submit(job.job_id, RequestKind.SAVEPOINT, SavepointArguments("/sp"))
    registry.fail(sent.request_id, {"id": "storage", "message": "no"})
    done = wait_request(registry, sent.request_id, None)
    assert (done.state, done.error) == (RequestState.FAILED, {"id": "storage", "message": "no"})


@pytest.mark.parametrize("timeout", [0, 0.1])
def test_a_timeout_says_how_to_follow(registry: Registry, job: JobRecord, timeout: float) -> None:
    sent = registry.submit(job.job_id, RequestKind.STOP, SavepointArguments("/sp"))
    began = time.monotonic()
    with pytest.raises(WaitTimeout, match=sent.request_id) as caught:
        wait_request(registry, sent.request_id, timeout)
    assert time.monotonic() - began < timeout + 60
    assert caught.value.hint == f"follow it with: flinkish request wait {sent.request_id}"
    assert caught.value.code == 14
    assert registry.request(sent.request_id).state is RequestState.PENDING


def test_an_unknown_request(registry: Registry) -> None:
    with pytest.raises(RequestNotFound):
        wait_request(registry, "0" * 32, 1)


def test_a_killed_driver_ends_the_wait(registry: Registry, make_job: MakeJob) -> None:
    driver = subprocess.Popen(["sleep", "300"])
    job = make_job(driver=process_ref(driver.pid), start_time=registry.now())
    registry.add_job(job)
    sent = registry.submit(job.job_id, RequestKind.STOP, SavepointArguments("/sp"))
    registry.claim(job.job_id)

    def kill() -> None:
        driver.kill()
        driver.wait()

    killer = threading.Timer(0.2, kill)
    killer.start()
    done = wait_request(registry, sent.request_id, 120)
    killer.join()
    assert done.state is RequestState.FAILED
    assert done.error is not None
    assert done.error["id"] == "driver-lost"
    assert registry.job(job.job_id).state is JobState.FAILED


def left_by(registry: Registry, job: JobRecord) -> None:
    """End a job as earlier versions did: without its requests."""
    registry._database.write(
        lambda tx: tx.execute(
            "UPDATE flinkish_jobs SET state = 'FINISHED' WHERE job_id = :id", id=job.job_id
        )
    )


def test_a_request_left_by_an_ended_job_fails(
    registry: Registry, job: JobRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "_ORPHAN_GRACE", 0.2)
    monkeypatch.setattr(waiting, "_LIVENESS_INTERVAL", 0.05)
    sent = registry.submit(job.job_id, RequestKind.SAVEPOINT, SavepointArguments("/sp"))
    left_by(registry, job)
    done = wait_request(registry, sent.request_id, 120)
    assert done.state is RequestState.FAILED
    assert done.error is not None
    assert done.error["id"] == "wrong-state"
    assert "FINISHED" in done.error["message"]


def test_a_result_written_after_the_end_still_counts(registry: Registry, job: JobRecord) -> None:
    sent = registry.submit(job.job_id, RequestKind.STOP, SavepointArguments("/sp"))
    left_by(registry, job)
    late = threading.Timer(
        0.7, lambda: registry.complete(sent.request_id, RequestResult(stop_method="late"))
    )
    late.start()
    assert wait_request(registry, sent.request_id, 120).result == RequestResult(stop_method="late")
    late.join()


def test_a_job_reaches_the_state_waited_for(registry: Registry, job: JobRecord) -> None:
    later = threading.Timer(
        0.2, lambda: registry.transition(job.job_id, JobState.FINISHED, "all read")
    )
    later.start()
    done = wait_job(registry, job.job_id, lambda j: j.state.is_final, 120)
    later.join()
    assert done.state is JobState.FINISHED
    assert wait_job(registry, job.job_id, lambda j: True, 0) == done


def test_a_job_that_does_not(registry: Registry, job: JobRecord) -> None:
    with pytest.raises(WaitTimeout, match="is still RUNNING") as caught:
        wait_job(registry, job.job_id, lambda j: j.state.is_final, 0.1)
    assert job.job_id in caught.value.hint


@pytest.mark.parametrize(
    ("state", "failure", "error"),
    [
        (JobState.FINISHED, None, WrongState),
        (JobState.FAILED, None, DriverLost),
        (JobState.FAILED, ProgramFailed("ValueError").to_record(), ProgramFailed),
    ],
)
def test_a_job_that_never_will(
    registry: Registry,
    job: JobRecord,
    state: JobState,
    failure: dict[str, object] | None,
    error: type[Exception],
) -> None:
    registry.transition(job.job_id, state, failure=failure)
    with pytest.raises(error) as caught:
        wait_job(registry, job.job_id, lambda j: j.state is JobState.RUNNING, None)
    assert type(caught.value) is error


def test_a_killed_driver_ends_the_wait_for_its_job(registry: Registry, make_job: MakeJob) -> None:
    driver = subprocess.Popen(["sleep", "300"])
    job = make_job(state=JobState.CREATED, driver=process_ref(driver.pid))
    registry.add_job(job)
    driver.kill()
    driver.wait()
    with pytest.raises(DriverLost, match=str(driver.pid)):
        wait_job(registry, job.job_id, lambda j: j.state is JobState.RUNNING, 120)
