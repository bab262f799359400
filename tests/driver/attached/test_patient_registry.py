"""A registry that an attached driver cannot reach, and one that had counted it as lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from flinkish.driver.attached import patient_registry
from flinkish.driver.attached.patient_registry import PatientRegistry, pauses
from flinkish.errors import DriverLost, RegistryError, WrongState
from flinkish.messages.launch import ExternalLauncher, Launch
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import CancelArguments
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import (
    JobRecord,
    JobState,
    ProcessRef,
    RequestKind,
    RequestState,
    arguments_for,
)
from flinkish.registry.liveness import process_ref

LAUNCH = Launch("/app.py", external=ExternalLauncher("python", "0.1.0"))
JOB_ID = "ab" * 16


@pytest.fixture
def job() -> JobRecord:
    return JobRecord(
        JOB_ID, "job", JobState.INITIALIZING, time.time(), LAUNCH, driver=process_ref()
    )


@pytest.fixture
def patient(
    job: JobRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PatientRegistry]:
    """A registry whose database comes up when its directory is there."""
    monkeypatch.setattr(patient_registry, "pauses", lambda: iter(lambda: 0.02, None))

    def reach() -> Registry:
        if not (tmp_path / "up").is_dir():
            raise RegistryError("nobody answers")
        return Registry.open(url(tmp_path))

    registry = PatientRegistry(job, reach, lambda to: to.add_job(job), "postgresql://h/d")
    yield registry
    registry.close()


def url(directory: Path) -> str:
    return f"sqlite:///{directory}/up/registry.db"


def wait_for(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_pauses_grow_up_to_a_limit() -> None:
    assert list(islice(pauses(1.0, 10.0), 6)) == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_what_waits_is_recorded_when_the_registry_is_there(
    patient: PatientRegistry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    patient.connect()
    assert not patient.settle(0.2)
    patient.transition(JOB_ID, JobState.CREATED, "attached")
    assert patient.transition(JOB_ID, JobState.RUNNING, "started").state is JobState.RUNNING
    patient.update_job(JOB_ID, spark_version="4.3.0")
    assert patient.heartbeat(JOB_ID, []) is JobState.RUNNING
    assert patient.claim(JOB_ID) is None
    assert patient.job(JOB_ID).state is JobState.RUNNING
    with pytest.raises(RegistryError):  # what needs an answer now has none
        patient.queries(JOB_ID)
    assert capsys.readouterr().err.count("cannot be reached") == 1, "it is said once"

    (tmp_path / "up").mkdir()
    assert patient.settle(60)
    with Registry.open(url(tmp_path)) as registry:
        recorded = registry.job(JOB_ID)
        assert (recorded.state, recorded.spark_version) == (JobState.RUNNING, "4.3.0")
        states = [change.state for change in registry.state_history(JOB_ID)]
        assert states == [JobState.INITIALIZING, JobState.CREATED, JobState.RUNNING]
    wait_for(lambda: "has been reached" in capsys.readouterr().err)


def running(patient: PatientRegistry, directory: Path) -> Registry:
    (directory / "up").mkdir()
    patient.connect()
    assert patient.settle(60)
    for state in (JobState.CREATED, JobState.RUNNING):
        patient.transition(JOB_ID, state)
    return Registry.open(url(directory))


def test_a_job_that_a_reader_had_counted_as_lost_is_taken_back(
    patient: PatientRegistry, tmp_path: Path
) -> None:
    with running(patient, tmp_path) as reader:
        patient.claim_resources(JOB_ID, "query", ["files:/out"])
        lost = DriverLost("no heartbeat for 30 s").to_record()
        reader.transition(JOB_ID, JobState.FAILED, "no heartbeat", failure=lost)
        assert patient.heartbeat(JOB_ID, []) is JobState.RUNNING
        job = reader.job(JOB_ID)
        assert (job.state, job.failure, job.driver) == (JobState.RUNNING, None, process_ref())
        other = JobRecord("cd" * 16, "other", JobState.CREATED, time.time(), LAUNCH)
        reader.add_job(other)
        holders = reader.claim_resources(other.job_id, "query", ["files:/out"])
        assert [claim.job.job_id for claim in holders] == [JOB_ID], "its output is its own again"


def test_a_job_that_was_canceled_is_not(patient: PatientRegistry, tmp_path: Path) -> None:
    with running(patient, tmp_path) as reader:
        reader.transition(JOB_ID, JobState.CANCELED, "canceled")
        assert patient.heartbeat(JOB_ID, []) is JobState.CANCELED


def test_the_program_does_not_wait_for_an_attempt_to_reach_it(
    patient: PatientRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt may take until the time limit of a connection."""
    looks: list[bool] = []
    look = Registry.ended_by

    def is_free() -> bool:
        got = patient._order.acquire(blocking=False)
        if got:
            patient._order.release()
        return got

    def attempt(registry: Registry, job_id: str) -> Any:
        with ThreadPoolExecutor(1) as program:
            looks.append(program.submit(is_free).result())
        return look(registry, job_id)

    with running(patient, tmp_path):
        monkeypatch.setattr(Registry, "ended_by", attempt)
        patient._lose(RegistryError("the server restarts"))
        assert patient.settle(60)
    assert looks == [True]


def test_a_registry_that_goes_away_stops_nothing(
    patient: PatientRegistry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with running(patient, tmp_path) as reader:
        with monkeypatch.context() as gone:

            def fail(*_: object) -> None:
                raise RegistryError("the server has gone")

            gone.setattr(patient._database, "write", fail)
            gone.setattr(patient._database, "read", fail)
            assert patient.heartbeat(JOB_ID, []) is JobState.RUNNING
            assert patient.job(JOB_ID).state is JobState.RUNNING
            patient.transition(JOB_ID, JobState.FINISHED, "program ended")
            assert reader.job(JOB_ID).state is JobState.RUNNING
        assert patient.settle(60)
        assert reader.job(JOB_ID).state is JobState.FINISHED
    assert capsys.readouterr().err.count("cannot be reached") == 1


@pytest.mark.parametrize("is_waited_for", [False, True], ids=["has another", "waits for another"])
def test_a_driver_that_was_replaced_changes_nothing_of_its_successors_job(
    patient: PatientRegistry,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    is_waited_for: bool,
) -> None:
    """Else the end of its queries would be the end of the job, and the successor would end too."""
    with running(patient, tmp_path) as reader:
        lost = DriverLost("no heartbeat for 30 s").to_record()
        ended = reader.transition(JOB_ID, JobState.FAILED, "no heartbeat", failure=lost)
        newer = None if is_waited_for else ProcessRef("another-host", 7)
        reader.restart(ended, "started again", driver=newer)
        reader.transition(JOB_ID, JobState.RUNNING)
        reader.submit(JOB_ID, RequestKind.STOP, arguments_for(RequestKind.STOP, "/s"))
        before = reader.job(JOB_ID)
        changes: list[Callable[[], object]] = [
            lambda: patient.abandon(JOB_ID, lost),
            lambda: patient.transition(JOB_ID, JobState.FINISHED, "its queries have ended"),
            lambda: patient.claim_resources(JOB_ID, "q", ["files:/out"]),
            lambda: patient.submit(JOB_ID, RequestKind.CANCEL, CancelArguments()),
        ]
        for change in changes:
            with pytest.raises(WrongState, match="has another driver, or waits for one"):
                change()
        patient._later += changes[:2]
        patient._flush()
        assert capsys.readouterr().err.count("does not take a change of the job") == 2
        assert patient.claim(JOB_ID) is None
        assert patient.heartbeat(JOB_ID, [QueryStatus("q", "i", "r", "/c")]) is JobState.RUNNING
        assert reader.job(JOB_ID) == before
        assert reader.queries(JOB_ID) == []
        assert [each.state for each in reader.requests(JOB_ID)] == [RequestState.PENDING]
