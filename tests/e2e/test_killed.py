"""kill -9 of each process of a job: FAILED with the reason within 5 s, no daemon anywhere."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from flinkish.errors import DriverLost
from flinkish.jobs.model import JobState
from flinkish.jobs.registry import Registry
from tests.support.cli.command import Flinkish

pytestmark = pytest.mark.spark


def processes_of(job: str) -> dict[str, int]:
    """The job's supervisor, Spark JVM and Python driver, found by their environment."""
    found: dict[str, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            environ = (entry / "environ").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "flinkish.jobs.supervisor" in command and job in command:
            found["supervisor"] = int(entry.name)
        elif f"FLINKISH_JOB_ID={job}" in environ:
            if "org.apache.spark.deploy.SparkSubmit" in command and "java" in command:
                found["jvm"] = int(entry.name)
            elif "driver/__main__.py" in command and "java" not in command:
                found["driver"] = int(entry.name)
    return found


def state_within(flinkish: Flinkish, job: str, seconds: float) -> dict[str, Any]:
    """The listed state once it is final, at most ``seconds`` after now."""
    deadline = time.monotonic() + seconds
    while True:
        (listed,) = flinkish.ok("list", "-a", "--json").json()["jobs"]
        if listed["state"] == "FAILED" or time.monotonic() > deadline:
            return flinkish.job(job)
        time.sleep(0.2)


@pytest.mark.parametrize(
    "victim", [*(pytest.param(one, marks=pytest.mark.matrix) for one in ("driver", "jvm")), "all"]
)
def test_a_killed_driver_is_shown_failed(flinkish: Flinkish, victim: str) -> None:
    job = flinkish.run("rate.py")
    flinkish.wait_for_batch(job, 0)
    processes = processes_of(job)
    assert set(processes) == {"supervisor", "jvm", "driver"}
    victims = list(processes.values()) if victim == "all" else [processes[victim]]
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    record = state_within(flinkish, job, 5.0)
    assert record["state"] == "FAILED"
    assert record["state_history"][-1]["reason"]
    assert flinkish.ok("list", "--json").json()["jobs"] == []
    # Nothing of it is left behind.
    deadline = time.monotonic() + 15
    while processes_of(job) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert processes_of(job) == {}
    failed = flinkish("stop", job, "-p", "sp")
    assert failed.code == 13
    assert "FAILED" in failed.err


def test_the_job_outlives_its_supervisor(flinkish: Flinkish, tmp_path: Path) -> None:
    job = flinkish.run("rate.py")
    flinkish.wait_for_batch(job, 0)
    os.kill(processes_of(job)["supervisor"], signal.SIGKILL)
    time.sleep(1)
    batch = flinkish.job(job)["queries"][0]["batch_id"]
    flinkish.wait_for_batch(job, batch + 1)
    flinkish.ok("stop", job, "-p", str(tmp_path / "sp"))
    assert flinkish.job(job)["state"] == "FINISHED"


def test_a_driver_that_was_declared_lost_ends_itself(flinkish: Flinkish) -> None:
    """A reader on another host took it for dead during a pause: another job may have been started
    from its savepoint, so it must not go on behind a FAILED."""
    job = flinkish.run("rate.py")
    flinkish.wait_for_batch(job, 0)
    url = f"sqlite:///{flinkish.directory}/state/flinkish/registry.db"
    with Registry.open(url) as registry:
        lost = DriverLost("no heartbeat for 33 s")
        registry.transition(job, JobState.FAILED, lost.message, failure=lost.to_record())
    deadline = time.monotonic() + 30
    while "driver" in processes_of(job) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert processes_of(job).get("driver") is None
    assert flinkish.job(job)["state"] == "FAILED"
