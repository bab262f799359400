"""The supervisor of a job in cluster mode. Its spark-submit is a script; the test is the driver."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flinkish.errors import DriverLost, LaunchFailed, RegistryError
from flinkish.launch import supervisor
from flinkish.launch.driver_process import DriverProcess
from flinkish.launch.termination import application_of, can_kill, kill_job
from flinkish.messages.launch import Launch
from flinkish.messages.requests import CancelArguments
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, ProcessRef, RequestKind, RequestState
from flinkish.registry.liveness import is_alive, process_ref
from tests.launch.conftest import Run, wait

SUBMITTED = "echo 'INFO YarnClientImpl: Submitted application application_1_1'"
REPORT = "echo 'INFO Client: Application report for application_1_1 (state: {})'"
CLUSTER = {"spark.submit.deployMode": "cluster"}


@pytest.fixture
def registry_url(tmp_path: Path) -> str:
    """SQLite alone: what is tested is the same with any registry."""
    return f"sqlite:///{tmp_path}/registry.db"


@pytest.fixture
def registry(sqlite_registry: Registry) -> Registry:
    return sqlite_registry


@pytest.fixture
def submit(run: Run, tmp_path: Path, registry: Registry) -> Any:
    """Submit a job to YARN by a script; its driver, on another host, runs then."""
    (tmp_path / "app.py").touch()

    def start(script: str, **fields: Any) -> JobRecord:
        job = run(
            script, application=str(tmp_path / "app.py"), master="yarn", conf=CLUSTER, **fields
        )
        job = wait(registry, job, lambda now: now.supervisor is not None)
        registry.update_job(job.job_id, driver=ProcessRef("node1", 1, None))
        registry.transition(job.job_id, JobState.CREATED)
        running = registry.transition(job.job_id, JobState.RUNNING)
        registry.heartbeat(job.job_id, [])
        return running

    return start


def gone(registry: Registry, job: JobRecord) -> None:
    """Wait until the supervisor has ended."""
    supervisor = registry.job(job.job_id).supervisor
    assert supervisor is not None
    deadline = time.monotonic() + 60
    while is_alive(supervisor):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_job_outlives_its_submission(submit: Any, registry: Registry) -> None:
    """A submission that was killed says nothing about the driver; its heartbeats do."""
    job = submit(f"{SUBMITTED}; kill -9 $$")
    time.sleep(1)
    assert registry.job(job.job_id).state is JobState.RUNNING
    registry.transition(job.job_id, JobState.FINISHED, "by its driver")
    gone(registry, job)
    assert registry.job(job.job_id).state is JobState.FINISHED


def test_a_job_outlives_this_host(submit: Any, registry: Registry, tmp_path: Path) -> None:
    """At a shutdown the supervisor and the submission end; the driver is left alone."""
    job = submit(f"{SUBMITTED}; touch {tmp_path}/up; exec sleep 60")
    wait(registry, job, lambda _now: (tmp_path / "up").exists())
    os.kill(registry.job(job.job_id).supervisor.pid, signal.SIGTERM)  # type: ignore[union-attr]
    gone(registry, job)
    assert registry.job(job.job_id).state is JobState.RUNNING


@pytest.mark.parametrize("state", ["FAILED", "KILLED"])
def test_an_end_that_the_cluster_reports_fails_the_job(
    submit: Any, registry: Registry, tmp_path: Path, state: str
) -> None:
    """At once: no heartbeat is waited for."""
    report = f"{SUBMITTED}; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; "
    job = submit(report + REPORT.format(state) + "; exit 1")
    (tmp_path / "go").touch()
    began = time.monotonic()
    final = wait(registry, job, lambda now: now.state.is_final)
    assert final.state is JobState.FAILED
    assert final.exit_status == 1
    assert time.monotonic() - began < 25


def test_the_cluster_is_asked_to_end_it(submit: Any, registry: Registry, tmp_path: Path) -> None:
    job = submit(f"{SUBMITTED}; exec sleep 60")
    wait(registry, job, application_of)
    request = registry.submit(job.job_id, RequestKind.CANCEL, CancelArguments())
    home = Path(str(job.launch.spark_home))
    command = home / "bin" / "spark-class"
    command.write_text("#!/bin/sh\necho 'the queue is closed'; exit 3\n")
    command.chmod(0o755)
    with pytest.raises(LaunchFailed, match="the queue is closed"):
        kill_job(registry, registry.job(job.job_id), request.request_id)
    assert registry.request(request.request_id).state is RequestState.PENDING
    command.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/killed\n')
    final = kill_job(registry, registry.job(job.job_id), request.request_id)
    assert final.state is JobState.CANCELED
    assert (tmp_path / "killed").read_text().split()[1:] == [
        "application",
        "-kill",
        "application_1_1",
    ]


def test_a_driver_of_an_unknown_application_is_not_recorded_as_ended(
    registry: Registry, make_job: Callable[..., JobRecord]
) -> None:
    job = make_job(
        state=JobState.RUNNING,
        launch=Launch("/app.py", master="yarn", conf=CLUSTER),
        driver=ProcessRef("node1", 1, None),
    )
    registry.add_job(job)
    request = registry.submit(job.job_id, RequestKind.CANCEL, CancelArguments())
    with pytest.raises(LaunchFailed, match="does not name its application"):
        kill_job(registry, job, request.request_id)
    assert registry.job(job.job_id).state is JobState.RUNNING
    assert registry.request(request.request_id).state is RequestState.PENDING


#: Seconds since the epoch at which the job of the next test starts.
START = 1_000_000.0


@pytest.mark.parametrize(
    ("log", "reports", "silent", "has_ended"),
    [
        ("ACCEPTED", False, 60, False),
        ("ACCEPTED", False, 601, True),
        ("RUNNING", True, 20, False),
        ("RUNNING", True, 60, True),
        ("KILLED", True, 1, True),
        (None, True, 20, False),
        (None, False, 1, True),
    ],
)
def test_how_long_an_unsupervised_driver_may_be_silent(
    registry: Registry,
    registry_url: str,
    make_job: Callable[..., JobRecord],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    log: str | None,
    reports: bool,
    silent: float,
    has_ended: bool,
) -> None:
    """Ten minutes until it first reports: it may wait for the resources of its cluster."""
    path = tmp_path / "job.log"
    path.write_text(f"INFO Client: Application report for application_1_1 (state: {log})\n")
    job = make_job(
        state=JobState.RUNNING,
        start_time=START,
        launch=Launch("/app.py", master="yarn", conf=CLUSTER),
        log_path=str(path) if log else None,
        supervisor=process_ref(),
        driver=ProcessRef("node1", 1, None) if reports else None,
        heartbeat=START if reports else None,
    )
    registry.add_job(job)
    monkeypatch.setattr(Registry, "now", lambda _registry: START + silent)
    assert supervisor._has_ended(registry_url, job.job_id) is has_ended


def test_silence_counts_only_while_the_registry_can_be_reached(
    registry: Registry,
    registry_url: str,
    make_job: Callable[..., JobRecord],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Even if a reader has declared the job lost: its driver takes that back once it can."""
    job = make_job(
        state=JobState.RUNNING,
        launch=Launch("/app.py", master="yarn", conf=CLUSTER),
        supervisor=process_ref(),
        driver=ProcessRef("node1", 1, None),
        heartbeat=START,
    )
    registry.add_job(job)
    lost = DriverLost("no heartbeat from node1 for 60 s").to_record()
    registry.transition(job.job_id, JobState.FAILED, failure=lost)
    monkeypatch.setattr(Registry, "now", lambda _registry: START + 60)
    assert not supervisor._has_ended(registry_url, job.job_id, watched=20)
    assert supervisor._has_ended(registry_url, job.job_id, watched=40)

    times = iter([100, 100, 102, 160, 170, 172])
    answers: Iterator[bool | Exception] = iter(
        [False, False, RegistryError("it is down"), False, True]
    )
    seen: list[float] = []

    def has_ended(_url: str, _job_id: str, watched: float) -> bool:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        seen.append(watched)
        return answer

    monkeypatch.setattr(supervisor, "_has_ended", has_ended)
    monkeypatch.setattr(supervisor, "_persistently", _until_it_answers)
    clock = SimpleNamespace(monotonic=lambda: next(times), sleep=lambda _seconds: None)
    monkeypatch.setattr(supervisor, "time", clock)
    driver = SimpleNamespace(end_requested=False)
    assert supervisor._await_remote_end(cast(DriverProcess, driver), registry_url, job.job_id)
    assert seen == [0, 2, 0, 2]


def _until_it_answers(look: Callable[[], bool]) -> bool:
    while True:
        with suppress(RegistryError):
            return look()


def test_a_job_that_is_not_submitted_yet(submit: Any, registry: Registry) -> None:
    """There is nothing on the cluster to be ended, and nothing on this host but the submission."""
    job = submit("exec sleep 60")
    assert can_kill(registry.job(job.job_id))
    ended = replace(registry.job(job.job_id), state=JobState.FAILED, supervisor=None)
    assert not can_kill(ended)
