"""kill -9 of each process of a job: FAILED with the reason, no daemon anywhere.

How soon it is FAILED is decided by ``jobs.liveness.verdict``, whose limits are tested there with
times that are given; how fast this machine is decides nothing here.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from flinkish.errors import DriverLost
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.registry.jobs import JobRecord, JobState
from tests.support.cli.command import Flinkish, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.deep]


def processes_of(job: str) -> dict[str, int]:
    """The job's supervisor, Spark JVM and Python driver, found by their environment."""
    found: dict[str, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            environ = (entry / "environ").read_bytes().decode(errors="replace")
            is_leader = os.getpgid(int(entry.name)) == int(entry.name)
        except OSError:
            continue
        if "flinkish.launch.supervisor" in command and job in command:
            found["supervisor"] = int(entry.name)
        elif f"FLINKISH_JOB_ID={job}" in environ:
            if "org.apache.spark.deploy.SparkSubmit" in command and "java" in command:
                if is_leader:  # not a child of it that is about to become `chmod`
                    found["jvm"] = int(entry.name)
            elif "driver/__main__.py" in command and "java" not in command:
                found["driver"] = int(entry.name)
    return found


@pytest.mark.parametrize("victim", ["driver", "jvm", "all"])
def test_a_killed_driver_is_shown_failed(flinkish: Flinkish, victim: str) -> None:
    job = flinkish.run("rate.py")
    flinkish.wait_for_batch(job, 0)
    processes = processes_of(job)
    assert set(processes) == {"supervisor", "jvm", "driver"}
    victims = list(processes.values()) if victim == "all" else [processes[victim]]
    for pid in victims:
        os.kill(pid, signal.SIGKILL)

    def listed() -> list[str]:
        return [j["state"] for j in flinkish.ok("list", "-a", "--json").json()["jobs"]]

    wait_until(lambda: listed() == ["FAILED"])
    assert flinkish.job(job)["state_history"][-1]["reason"]
    assert flinkish.ok("list", "--json").json()["jobs"] == []
    wait_until(lambda: not processes_of(job))  # nothing of it is left behind
    failed = flinkish("stop", job, "-p", "sp")
    assert failed.code == 13
    assert "FAILED" in failed.err


def test_the_job_outlives_its_supervisor(flinkish: Flinkish, tmp_path: Path) -> None:
    job = flinkish.run("rate.py")
    flinkish.wait_for_batch(job, 0)
    os.kill(processes_of(job)["supervisor"], signal.SIGKILL)
    wait_until(lambda: "supervisor" not in processes_of(job))
    # Two more, so that at least one of them began when the supervisor was gone.
    batch = flinkish.job(job)["queries"][0]["batch_id"]
    flinkish.wait_for_batch(job, batch + 2)
    assert set(processes_of(job)) == {"jvm", "driver"}
    flinkish.ok("stop", job, "-p", str(tmp_path / "sp"))
    assert flinkish.job(job)["state"] == "FINISHED"


def test_a_driver_that_was_declared_lost_goes_on_unless_another_job_does(
    flinkish: Flinkish,
) -> None:
    """A reader on another host took it for dead while the registry could not be reached."""
    job = flinkish.run("rate.py")
    flinkish.wait_for_batch(job, 0)
    lost = DriverLost("no heartbeat for 33 s")
    with flinkish.registry() as registry:
        registry.transition(job, JobState.FAILED, lost.message, failure=lost.to_record())
        wait_until(lambda: registry.job(job).state is JobState.RUNNING)
        batch = flinkish.job(job)["queries"][0]["batch_id"]
        flinkish.wait_for_batch(job, batch + 2)
        launch = Launch("/app.py", restore=RestoreSpec("", job=job))
        registry.add_job(
            JobRecord("ab" * 16, "next", JobState.INITIALIZING, registry.now() + 3600, launch)
        )
        registry.transition(job, JobState.FAILED, lost.message, failure=lost.to_record())
        wait_until(lambda: "driver" not in processes_of(job))
        registry.transition("ab" * 16, JobState.FAILED)
    assert flinkish.job(job)["state"] == "FAILED"
