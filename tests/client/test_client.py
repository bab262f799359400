"""The front door: jobs are started, listed and found; nothing is printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import flinkish
from flinkish import Client
from flinkish.errors import (
    FlinkishError,
    InvalidConfiguration,
    JobNotFound,
    ProgramFailed,
    RegistryError,
    SavepointNotFound,
    UsageError,
)
from flinkish.messages.launch import Program
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobState
from tests.cli.conftest import ROOT, Command
from tests.client.conftest import Told


def test_a_job_is_started_found_and_cancelled(
    cli: Command, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    job = client.run(
        Program(
            str(cli.program),
            ("serve", "a b"),
            spark_home=str(cli.spark_home),
            conf={"spark.x": "1"},
        ),
        name="counts",
        parallelism=4,
    )
    assert (job.state, job.is_final) == (JobState.RUNNING, False)
    assert [query.name for query in job.queries()] == ["counts"]
    assert job.start().plan is None
    launch = job.record.launch
    assert launch.application == str(cli.program)
    assert launch.arguments == ("serve", "a b")
    assert launch.conf == {"spark.x": "1", "spark.sql.shuffle.partitions": "4"}
    # The same job for the command line, which has the same registry.
    assert cli.status(job.job_id)["name"] == "counts"
    assert client.jobs() == [job.refresh()]
    assert client.jobs(name="other") == []
    assert client.job("counts").job_id == client.job(job.job_id[:6]).job_id == job.job_id
    ended = job.cancel()
    assert ended.state is JobState.CANCELED
    assert client.jobs() == []
    assert client.jobs(include_final=True) == [ended]
    assert job.state is JobState.RUNNING  # as it was
    out, err = capsys.readouterr()
    assert (out, err) == ("", "")


def test_a_batch_program_is_waited_for(cli: Command, client: Client) -> None:
    spark = str(cli.spark_home)
    job = client.run(Program(str(cli.program), ("bounded",), spark_home=spark))
    assert job.wait(timeout=60).state is JobState.FINISHED
    at_once = client.run(Program(str(cli.program), ("bounded",), spark_home=spark), wait=False)
    assert at_once.state is JobState.INITIALIZING
    assert at_once.wait_until_started().state in (JobState.RUNNING, JobState.FINISHED)
    at_once.wait()


def test_a_program_that_fails_is_an_error(cli: Command, client: Client, told: Told) -> None:
    with pytest.raises(ProgramFailed, match="No module named 'nothing'") as raised:
        client.run(Program(str(cli.program), ("die",), spark_home=str(cli.spark_home)))
    assert raised.value.data["state"] == "FAILED"
    assert told.notes == ["  a", "  b"]
    silent = client.run(Program(str(cli.program), ("serve",), spark_home=str(cli.spark_home)))
    silent.cancel()
    with pytest.raises(FlinkishError, match="was canceled"):
        silent.wait()


def test_what_cannot_be_run_is_refused(cli: Command, client: Client, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"does not exist: nowhere\.py"):
        client.run("nowhere.py")
    with pytest.raises(UsageError, match="no program was specified"):
        client.run()
    with pytest.raises(UsageError, match="mutually exclusive"):
        client.run(Program(str(cli.program), module="app"))
    with pytest.raises(UsageError, match="a fork needs a savepoint to restore from"):
        client.run(cli.program, restore=RestoreOptions(fork=True))
    twice = RestoreOptions(uid_map=(("a", "c"), ("b", "c")))
    with pytest.raises(UsageError, match="contains one new uid twice"):
        client.run(cli.program, from_savepoint="sp", restore=twice)
    mapping: Any = {"in": "earliest"}
    with pytest.raises(UsageError, match="set_offsets is"):
        client.run(cli.program, from_savepoint="sp", restore=RestoreOptions(set_offsets=mapping))
    word: Any = "in"
    with pytest.raises(UsageError, match="arguments is 'in'"):
        client.run(Program(str(cli.program), word))
    mode: Any = 5
    with pytest.raises(UsageError, match="sink_ahead is 5"):
        client.run(cli.program, restore=RestoreOptions(sink_ahead=mode))
    assert client.jobs() == []
    with pytest.raises(UsageError, match="a plan and a savepoint are mutually exclusive"):
        client.run(cli.program, from_savepoint="sp", plan="plan.json")
    with pytest.raises(UsageError, match="no plan at"):
        client.run(plan=tmp_path / "plan.json")
    with pytest.raises(SavepointNotFound):
        client.run(
            Program(str(cli.program), spark_home=str(cli.spark_home)), from_savepoint=tmp_path
        )
    assert client.jobs(include_final=True) == []
    with pytest.raises(JobNotFound):
        client.job("nobody")


def test_the_registry_and_the_settings_are_those_given(private: Path) -> None:
    url = f"sqlite:///{private}/elsewhere/registry.db"
    (private / "elsewhere").mkdir()
    with pytest.raises(RegistryError, match="there is no registry"), Client(url) as client:
        client.jobs()
    Registry.open(url).close()
    with Client(url, options={"client.timeout": "5 s"}) as client:
        assert client.jobs() == []
        assert client._context.timeout(None) == 5
    with Registry.open(url, create=False) as registry:
        assert registry.jobs() == []
    assert not (private / "state").exists()
    with pytest.raises(InvalidConfiguration):
        Client(options={"client.timeout": "soon"})


def test_importing_flinkish_loads_nothing_it_does_not_need() -> None:
    script = (
        "import sys; before = set(sys.modules); import flinkish; "
        "new = {m for m in set(sys.modules) - before}; "
        "assert new == {'flinkish'}, new; "
        "flinkish.Client; assert 'click' not in sys.modules; assert 'rich' not in sys.modules; "
        "assert 'pyspark' not in sys.modules; assert 'fastavro' not in sys.modules, 'fastavro'"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)


def test_the_package_has_its_public_names() -> None:
    from flinkish import client

    shown = ("Client", "Program", "RestoreOptions", "Savepoint")
    assert flinkish.__all__ == [*shown, "__version__", "attach", "history_batch", "uid", "uid_hash"]
    for module in (flinkish, client):
        for name in module.__all__:
            assert getattr(module, name) is not None
        with pytest.raises(AttributeError, match="no attribute 'nothing'"):
            _ = module.nothing
