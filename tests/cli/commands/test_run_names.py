"""``run --name`` and ``--if-not-running``: one job of a name at a time."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from flinkish import Client
from flinkish.errors import NameTaken
from flinkish.messages.launch import Program
from flinkish.registry.jobs import JobState
from flinkish.registry.liveness import is_alive
from tests.cli.conftest import PATIENCE, Command, wait_until
from tests.client.conftest import client as client
from tests.client.conftest import told as told


def test_a_name_that_is_taken_is_refused(cli: Command) -> None:
    job = cli.start("serve", "--name", "rides")
    refused = cli(*cli.run_words("serve", "-d", "--name", "rides", "--json"))
    error = refused.error()
    assert (refused.code, error["id"], error["job_id"]) == (13, "name-taken", job)
    assert f"{job}, which is RUNNING" in error["message"]
    for way_out in (f"flinkish stop {job}", "--name", "--if-not-running"):
        assert way_out in error["hint"]
    assert cli(*cli.run_words("serve", "--dry-run", "--name", "rides")).code == 13
    assert len(cli.ok("list", "-a", "-q").out.split()) == 1
    cli.ok("stop", job, "-p", str(cli.directory / "sp"))
    assert cli.start("serve", "--name", "rides") != job, "free again"


@pytest.mark.parametrize("is_default", [True, False], ids=["default", "configured"])
@pytest.mark.parametrize(
    "more",
    [("--name", "rides"), ("--if-not-running",), ("--name", "rides", "--resume")],
    ids=" ".join,
)
def test_a_dry_run_creates_no_registry(
    cli: Command, tmp_path: Path, more: tuple[str, ...], is_default: bool
) -> None:
    where = () if is_default else ("-D", f"registry.url={tmp_path}/my/registry.db")
    cli.ok(*cli.run_words("serve", "--dry-run", *where, *more))
    assert not list(tmp_path.rglob("*.db"))


def test_programs_without_a_name_run_side_by_side(cli: Command) -> None:
    first, second = cli.start(), cli.start()
    assert first != second
    refused = cli(*cli.run_words("serve", "-d", "--name", "app"))
    assert refused.code == 13
    assert second in refused.err, "the newest of them"


def test_a_dead_job_does_not_hold_its_name(cli: Command) -> None:
    job = cli.start("serve", "--name", "rides")
    with cli.registry() as registry:
        record = registry.job(job)
    assert record.supervisor is not None
    assert record.driver is not None
    os.kill(record.supervisor.pid, signal.SIGKILL)
    os.killpg(record.driver.pid, signal.SIGKILL)
    gone = [record.supervisor, record.driver]
    wait_until(lambda: not any(map(is_alive, gone)), "they are gone")
    assert cli.start("serve", "--name", "rides", "--if-not-running") != job
    assert cli.status(job)["state"] == "FAILED"


def test_if_not_running_shows_what_runs(cli: Command) -> None:
    job = cli.start("serve", "--name", "rides", "--if-not-running")
    words = cli.run_words("serve", "--name", "rides", "--if-not-running")
    assert cli.ok(*words).out == f"Job rides is already RUNNING, with JobID {job}\n"
    assert cli.ok(*words[:-2], "-q", "-d", *words[-2:]).out == f"{job}\n"
    shown = cli.ok(*words[:-2], "--json", *words[-2:]).json()
    assert shown == {
        "schema_version": 1,
        "job_id": job,
        "name": "rides",
        "state": "RUNNING",
        "already_running": True,
    }
    # What is not needed is not looked at: the savepoint may be gone by now.
    assert cli(*words[:-2], "-s", "/nope", *words[-2:]).code == 0


def test_if_not_running_goes_by_the_programs_name_too(cli: Command) -> None:
    job = cli.start()
    assert cli.start("serve", "--if-not-running") == job
    assert cli.start("serve", "--name", "other", "--if-not-running") != job


def test_of_two_at_once_one_starts(cli: Command) -> None:
    words = cli.run_words("serve", "--no-wait", "-q", "--name", "rides")
    started = [cli.process(*words) for _ in range(2)]
    codes = sorted(process.wait(PATIENCE) for process in started)
    assert codes == [0, 13]
    with cli.registry() as registry:
        (job,) = registry.jobs()
    logs = list(Path(cli.directory, "state/flinkish/logs").iterdir())
    assert [log.name for log in logs] == [f"{job.job_id}.log"]


def test_from_python(cli: Command, client: Client) -> None:
    home = str(cli.spark_home)
    job = client.run(Program(str(cli.program), ("serve",), spark_home=home), name="rides")
    with pytest.raises(NameTaken, match=job.job_id):
        client.run(Program(str(cli.program), ("serve",), spark_home=home), name="rides")
    same = client.run(
        Program(str(cli.program), ("serve",), spark_home=home), name="rides", if_not_running=True
    )
    assert (same.job_id, same.state) == (job.job_id, JobState.RUNNING)
