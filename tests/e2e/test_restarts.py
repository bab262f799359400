"""Jobs that come back: by their restart strategy, by ``recover`` after a reboot, by ``restart``.

What each batch has to put out is worked out in Python: batch N counts the numbers below 10 (N + 1).
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.test_killed import processes_of
from tests.support.cli.command import PATIENCE, Flinkish, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

COMES_BACK = (
    *("--restart-strategy", "fixed-delay"),
    *("-D", "restart-strategy.fixed-delay.attempts=3"),
    *("-D", "restart-strategy.fixed-delay.delay=100 ms"),
)


def check_counted(directory: Path) -> int:
    """Compare the output of every batch; returns the number of the newest."""
    found = {int(path.stem): json.loads(path.read_text()) for path in directory.glob("*.json")}
    newest = max(found)
    assert sorted(found) == list(range(newest + 1)), "no batch is missing"
    for batch, counts in found.items():
        expected = Counter(number % 7 for number in range(10 * (batch + 1)))
        assert {int(k): count for k, count in counts.items()} == expected
    return newest


def start(flinkish: Flinkish, name: str, out: Path) -> str:
    out.mkdir()
    return flinkish.run("counted.py", str(out), options=("--name", name, *COMES_BACK))


def goes_on(flinkish: Flinkish, job: str, out: Path, more: int = 2) -> None:
    """Wait until the job runs and has put out more batches."""
    flinkish.wait_for_state(job, "RUNNING")
    batch = check_counted(out) + more
    wait_until(lambda: (out / f"{batch}.json").exists(), PATIENCE)


def kill(pids: Iterable[int], number: signal.Signals = signal.SIGKILL) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # ended with one that was killed before it
            os.kill(pid, number)


def states(flinkish: Flinkish, job: str) -> list[str]:
    return [change["state"] for change in flinkish.job(job)["state_history"]]


@pytest.mark.deep
def test_the_strategy_brings_back_a_killed_driver(flinkish: Flinkish, tmp_path: Path) -> None:
    out = tmp_path / "a"
    job = start(flinkish, "a", out)
    flinkish.wait_for_batch(job, 1)
    query_id = flinkish.job(job)["queries"][0]["query_id"]
    processes = processes_of(job)
    kill([processes["jvm"], processes["driver"]])
    flinkish.wait(job, lambda record: "RESTARTING" in states(flinkish, job))
    goes_on(flinkish, job, out)
    assert flinkish.job(job)["queries"][0]["query_id"] == query_id
    shown = flinkish.ok("status", job).out
    assert "restarts" in shown
    assert "attempt 1, in 0.1 s, after: the driver" in shown
    flinkish.ok("cancel", job)


@pytest.mark.deep
def test_jobs_come_back_after_a_reboot_a_stop_and_another_cluster(
    flinkish: Flinkish, tmp_path: Path
) -> None:
    outs = {"a": tmp_path / "a", "b": tmp_path / "b"}
    jobs = {name: start(flinkish, name, out) for name, out in outs.items()}
    a, b = jobs["a"], jobs["b"]
    flinkish.wait_for_batch(a, 1)

    # The machine restarts: one job is told to end, there is no time for the other.
    flinkish.wait_for_batch(b, 1)
    kill(list(processes_of(b).values()), signal.SIGTERM)
    kill(list(processes_of(a).values()))
    wait_until(lambda: not flinkish.processes())
    lost = flinkish("savepoint", "--all", "-q", str(tmp_path / "sp"))
    assert lost.code == 3
    would = flinkish.ok("recover", "--dry-run").out
    assert would.count("Would restart job") == 2
    assert flinkish.job(a)["state"] == "FAILED"
    done = flinkish.ok("recover", "--json").json()
    assert [job["job_id"] for job in done["restarted"]] == [a, b]
    assert done["failed"] == []
    for name, job in jobs.items():
        goes_on(flinkish, job, outs[name])
    assert "Nothing to do" in flinkish.ok("recover").err
    assert "failed" not in flinkish.ok("list").err

    # One that was stopped goes on where it ended, if nobody has gone on from it since.
    assert flinkish("restart", a).code == 13
    flinkish.ok("stop", "-q", a, "-p", str(tmp_path / "sp"))
    ended = check_counted(outs["a"])
    assert f"query 'counted' after batch {ended}" in flinkish.ok("restart", a, "--dry-run").out
    assert flinkish.ok("restart", "-q", a).out.strip() == a
    goes_on(flinkish, a, outs["a"])
    assert states(flinkish, a)[-4:] == ["FINISHED", "RESTARTING", "CREATED", "RUNNING"]

    # The cluster is exchanged: all jobs are stopped together, and started again on the new one.
    stopped = flinkish.ok("stop", "--all", "-p", str(tmp_path / "sp"), "--json").json()
    assert {each["job_id"]: each["queries"][0]["batch_id"] for each in stopped["savepoints"]} == {
        job: check_counted(outs[name]) for name, job in jobs.items()
    }
    again = flinkish.ok("restart", "--all", "-m", "local[1]", "--json").json()["restarted"]
    assert {each["name"]: each["job_id"] for each in again} == jobs
    for each in again:
        new = each["new_job_id"]
        goes_on(flinkish, new, outs[each["name"]])
        with flinkish.registry() as registry:
            assert registry.job(new).launch.master == "local[1]"
    assert len(flinkish.ok("restart", "--all", "--json").json()["skipped"]) == 2
    for each in again:
        flinkish.ok("cancel", each["new_job_id"])
    for out in outs.values():
        check_counted(out)


@pytest.mark.deep
def test_from_a_savepoint_it_is_another_job(flinkish: Flinkish, tmp_path: Path) -> None:
    """What it goes on from cannot be started in place any more."""
    outs = {"a": tmp_path / "a", "b": tmp_path / "b"}
    jobs = {name: start(flinkish, name, out) for name, out in outs.items()}
    a, b = jobs["a"], jobs["b"]
    for job in jobs.values():
        flinkish.wait_for_batch(job, 1)
    savepoint = flinkish.ok("stop", "-q", a, "-p", str(tmp_path / "sp")).out.strip()
    flinkish.ok("cancel", b)
    other = flinkish.ok("restart", "-q", b, "--from", savepoint).out.strip()
    assert other not in jobs.values()
    assert flinkish.job(other)["name"] == "b"
    refused = flinkish("restart", b, "--json")
    assert refused.code == 13
    assert other in refused.error()["message"]
    refused = flinkish("restart", a)
    assert refused.code == 13
    assert "has resumed from its state" in refused.err
    flinkish.ok("cancel", other)
    check_counted(outs["a"])
