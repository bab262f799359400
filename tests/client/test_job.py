"""A job's savepoints and its end, from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkish import Client, Savepoint
from flinkish.errors import (
    Locked,
    NoSavepointDirectory,
    NotSavepointable,
    UsageError,
    WaitTimeout,
    WrongState,
)
from flinkish.messages.launch import Program
from flinkish.registry.jobs import JobState
from tests.cli.conftest import Command
from tests.cli.test_offline import JOB, facts_for, register
from tests.client.conftest import Told
from tests.support.checkpoints.recorded import unpack


def test_savepoint_then_stop(cli: Command, client: Client, tmp_path: Path) -> None:
    job = client.run(Program(str(cli.program), ("saving",), spark_home=str(cli.spark_home)))
    first = job.savepoint("sp")
    assert Path(first.path).parent == tmp_path / "sp"
    assert (first.header.job.job_id, first.left_out) == (job.job_id, {})
    assert [query.batch_id for query in first.queries] == [4]
    assert job.refresh().state is JobState.RUNNING
    last = job.stop("sp")
    assert job.refresh().state is JobState.FINISHED
    assert {record.path for record in job.savepoints()} == {first.path, last.path}
    assert Savepoint.open(last.path) == last != first
    with pytest.raises(WrongState, match="FINISHED"):
        job.stop("sp")


def test_another_process_waits_for_what_was_requested(cli: Command, client: Client) -> None:
    job = client.run(Program(str(cli.program), ("saving",), spark_home=str(cli.spark_home)))
    saving = job.begin_savepoint("sp")
    with Client() as other:
        saved = other.pending(saving.request_id).result()
        stopping = other.job(job.job_id).begin_stop("sp")
        stopped = client.pending(stopping.request_id).result()
    assert saving.is_done
    assert stopping.is_done
    assert job.refresh().state is JobState.FINISHED
    assert [each.path for each in job.savepoints()] == [saved.path, stopped.path]
    with pytest.raises(UsageError, match="cannot be -detached"):
        job.begin_savepoint("sp")
    refusing = client.run(Program(str(cli.program), ("refuse",), spark_home=str(cli.spark_home)))
    refused = refusing.begin_stop("sp")
    with pytest.raises(NotSavepointable, match="memory sink"):
        refused.result()
    assert refused.is_done


def test_cancel_with_savepoint(cli: Command, client: Client) -> None:
    job = client.run(Program(str(cli.program), ("saving",), spark_home=str(cli.spark_home)))
    taken = job.cancel_with_savepoint("sp")
    assert taken.verify().ok
    assert job.refresh().state is JobState.CANCELED


def test_the_target_may_be_configured(cli: Command, tmp_path: Path) -> None:
    with Client() as client:
        job = client.run(Program(str(cli.program), ("saving",), spark_home=str(cli.spark_home)))
        with pytest.raises(NoSavepointDirectory, match="is untouched"):
            job.savepoint()
    options = {"execution.checkpointing.savepoint-dir": str(tmp_path / "configured")}
    with Client(options=options) as client:
        taken = client.job(job.job_id).stop()
    assert Path(taken.path).parent == tmp_path / "configured"


def test_what_the_driver_refuses_is_raised(cli: Command, client: Client) -> None:
    job = client.run(Program(str(cli.program), ("refuse",), spark_home=str(cli.spark_home)))
    with pytest.raises(NotSavepointable, match="memory sink") as raised:
        job.stop("sp")
    assert raised.value.data["job_id"] == job.job_id
    locked = client.run(Program(str(cli.program), ("locked",), spark_home=str(cli.spark_home)))
    with pytest.raises(Locked, match="eva on host2"):
        locked.savepoint("sp")


def test_progress_is_reported_and_patience_ends(cli: Command, client: Client, told: Told) -> None:
    job = client.run(Program(str(cli.program), ("slow",), spark_home=str(cli.spark_home)))
    with pytest.raises(WaitTimeout, match="the work continues"):
        job.stop("sp", timeout=0.3)
    assert told.steps[0].phase in ("Waiting for the driver", "Waiting for response", "copying")
    assert {step.files_total for step in told.steps if step.phase == "copying"} == {10}


def test_of_a_job_that_has_ended(cli: Command, client: Client, told: Told, tmp_path: Path) -> None:
    root = unpack("spark43-rocksdb-dedup", tmp_path)
    register(cli, root, facts_for(root))
    taken = client.job(JOB).savepoint("sp")
    assert taken.header.trigger == "offline"
    assert taken.verify("quick").ok
    assert "saving its checkpoint" in told.warnings[0]
    assert {step.phase for step in told.steps} >= {"files", "metadata"}
