"""``checkpoint``: the wait for the next committed batch. Drivers are processes without Spark."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flinkish.registry.jobs import JobState
from tests.cli.conftest import Command, Result
from tests.support.checkpoints.handwritten import CheckpointLikeness


@pytest.fixture
def job(cli: Command) -> str:
    return cli.start("deaf")


def log_of(cli: Command, job: str) -> CheckpointLikeness:
    """The checkpoint of the job's query, at the batch that its driver reports."""
    (query,) = cli.ok("checkpoint", job, "--no-wait", "--json").json()["queries"]
    return CheckpointLikeness(Path(query["checkpoint_dir"])).run_to(7)


def while_waiting(cli: Command, job: str, do: Callable[[], object], *options: str) -> Result:
    """``checkpoint`` during which something happens, a little later."""

    def later() -> None:
        time.sleep(0.5)
        do()

    with ThreadPoolExecutor(1) as pool:
        happened = pool.submit(later)
        result = cli("checkpoint", job, *options)
        happened.result(60)
    return result


def end(
    cli: Command, job: str, *states: JobState, failure: dict[str, object] | None = None
) -> None:
    with cli.registry() as registry:
        for state in states:
            registry.transition(job, state, failure=failure)


def test_it_waits_for_the_next_batch(cli: Command, job: str) -> None:
    log = log_of(cli, job)
    result = while_waiting(cli, job, lambda: log.run_to(8), "--json")
    assert result.code == 0, result.err
    assert [query["batch_id"] for query in result.json()["queries"]] == [8]
    assert while_waiting(cli, job, lambda: log.run_to(9), "-q").out == "9\n"


def test_no_wait_shows_the_newest(cli: Command, job: str) -> None:
    assert cli.ok("checkpoint", job, "--no-wait").out.splitlines()[1].split()[:2] == ["counts", "7"]


def test_a_program_without_queries_has_no_batches(cli: Command) -> None:
    batch = cli.ok(*cli.run_words("batch", "-d", "-q")).out.strip()
    for options in ((), ("--no-wait",)):
        assert cli("checkpoint", batch, *options).code == 13


def test_it_waits_no_longer_than_asked(cli: Command, job: str) -> None:
    log_of(cli, job)
    late = cli("checkpoint", job, "--timeout", "0.2 s", "--json")
    assert late.code == 14
    error = late.error()
    assert "within 0.2 s by 'counts' (at batch 7) of job app" in error["message"]
    assert "Spark runs no batch" in error["hint"]
    assert cli("checkpoint", job, "-D", "client.timeout=100 ms").code == 14


def test_a_job_that_finishes_shows_its_newest(cli: Command, job: str) -> None:
    log_of(cli, job)
    result = while_waiting(cli, job, lambda: end(cli, job, JobState.FINISHED), "--json")
    assert result.code == 0, result.err
    document = result.json()
    assert document["state"] == "FINISHED"
    assert [query["batch_id"] for query in document["queries"]] == [7]
    assert cli.ok("checkpoint", job, "-q").out == "7\n"


def test_a_job_that_fails_gives_its_failure(cli: Command, job: str) -> None:
    broken: dict[str, object] = {"id": "corrupt", "code": 15, "message": "half a file", "hint": ""}

    def fail() -> None:
        end(cli, job, JobState.FAILED, failure=broken)

    result = while_waiting(cli, job, fail, "--json")
    assert result.code == 15
    assert "half a file" in result.error()["message"]
    assert cli("checkpoint", job).code == 15
    assert cli.ok("checkpoint", job, "--no-wait", "-q").out == "7\n"


def test_a_job_that_is_canceled_fails_the_wait(cli: Command, job: str) -> None:
    def cancel() -> None:
        end(cli, job, JobState.CANCELLING, JobState.CANCELED)

    result = while_waiting(cli, job, cancel, "--json")
    assert result.code == 1
    assert "was canceled" in result.error()["message"]


def test_the_help_tells_how_it_differs_from_flinks(cli: Command) -> None:
    text = " ".join(cli.ok("checkpoint", "--help").out.split())
    assert "Flink's command triggers a checkpoint. Spark checkpoints every batch" in text
