"""A real job whose registry is a real PostgreSQL server."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from flinkish.registry.job_registry import Registry
from tests.e2e.test_attached import Launcher
from tests.e2e.test_killed import processes_of
from tests.registry.conftest import PASSWORD, Cluster, cluster
from tests.support.cli.command import PATIENCE, Flinkish, wait_until

__all__ = ["cluster"]  # the fixture: a private server

pytestmark = [pytest.mark.spark, pytest.mark.postgres, pytest.mark.timeout(600)]


@pytest.fixture
def on_postgres(tmp_path: Path, cluster: Cluster) -> Iterator[Flinkish]:
    command = Flinkish(tmp_path)
    command.environ["FLINKISH_REGISTRY"] = cluster.new_schema()
    yield command
    command.clean_up()


@pytest.mark.deep
def test_lifecycle_and_kill(on_postgres: Flinkish, tmp_path: Path) -> None:
    flinkish = on_postgres
    job = flinkish.run("rate.py")
    flinkish.wait_for_batch(job, 1)
    path = flinkish.ok("savepoint", "-q", job, str(tmp_path / "sp")).out.strip()
    flinkish.ok("stop", "-p", str(tmp_path / "sp"), job)
    assert flinkish.job(job)["state"] == "FINISHED"
    again = flinkish.run("rate.py", options=("-s", path))
    flinkish.wait_for_batch(again, 2)
    os.kill(processes_of(again)["driver"], signal.SIGKILL)
    flinkish.wait_for_state(again, "FAILED")
    listed = {j["job_id"]: j["state"] for j in flinkish.ok("list", "-a", "--json").json()["jobs"]}
    assert listed == {job: "FINISHED", again: "FAILED"}
    assert not (tmp_path / "state" / "flinkish" / "registry.db").exists()
    for command in (("status", again), ("config", "show", "--origin"), ("logs", again)):
        shown = flinkish.ok(*command)
        assert PASSWORD not in shown.out + shown.err


@pytest.mark.deep
def test_a_program_that_attaches_itself_outlives_an_outage(
    on_postgres: Flinkish, cluster: Cluster, tmp_path: Path
) -> None:
    launcher = Launcher(on_postgres, tmp_path)
    try:
        process = launcher.start(FLINKISH_NAME="job")
        launcher.wait_for_batch(1)
        on_postgres.wait_for_state("job", "RUNNING")
        cluster.stop()
        try:
            wait_until(lambda: "cannot be reached" in launcher.log())
            launcher.wait_for_batch(launcher.newest() + 3)
        finally:
            cluster.start()
        wait_until(lambda: "has been reached" in launcher.log())
        assert launcher.log().count("cannot be reached") == 1
        path = on_postgres.ok("savepoint", "-q", "job", str(tmp_path / "sp")).out.strip()
        assert on_postgres.ok("savepoint", "verify", path).code == 0
        on_postgres.ok("stop", "job", "-p", str(tmp_path / "sp"))
        assert process.wait(PATIENCE) == 0, launcher.log()
        assert on_postgres.job("job")["state"] == "FINISHED"
        assert PASSWORD not in launcher.log()
        launcher.check_counts()
    finally:
        launcher.close()


def test_a_server_that_is_away(on_postgres: Flinkish, cluster: Cluster) -> None:
    """It was there a moment ago and is again later, with what the registry had."""
    nowhere = on_postgres("list", "--json")
    assert nowhere.code == 16
    assert "there is no registry in postgresql://" in nowhere.err
    Registry.open(on_postgres.environ["FLINKISH_REGISTRY"]).close()
    assert on_postgres.ok("list", "--json").json()["jobs"] == []
    cluster.stop()
    try:
        away = [on_postgres(*words) for words in (("list",), ("status", "x"), ("stop", "x"))]
    finally:
        cluster.start()
    for result in away:
        assert result.code == 16, result.err
        assert f"127.0.0.1:{cluster.port}" in result.err
        assert result.out == ""
        for secret in (PASSWORD, quote(PASSWORD, safe="")):
            assert secret not in result.err
        assert "Traceback" not in result.err
    assert on_postgres.ok("list", "--json").json()["jobs"] == []
