"""``wait``: jobs whose driver is this very process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from flinkish import Client
from flinkish.cli.base import Command as FlinkishCommand
from flinkish.cli.commands.checkpoint import checkpoint
from flinkish.cli.commands.run import run
from flinkish.cli.commands.wait import wait
from flinkish.errors import UsageError, WaitTimeout
from flinkish.messages.launch import Launch
from flinkish.messages.queries import QueryStatus
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.registry.liveness import process_ref
from tests.cli.conftest import Command

JOB = "a" * 32
BROKEN = {"id": "incompatible", "code": 4, "message": "it broke"}
QUERY = QueryStatus("q", "id", "run", "/cp", batch_id=5, waits_for_input=True, trigger_interval=0.0)


@pytest.fixture
def registry(cli: Command) -> Iterator[Registry]:
    """The registry, with a job that this process drives: RUNNING, its query at batch 5."""
    with cli.registry() as opened:
        record = JobRecord(JOB, "rides", JobState.RUNNING, opened.now(), Launch("/app.py"))
        opened.add_job(replace(record, driver=process_ref(), heartbeat=opened.now()))
        opened.heartbeat(JOB, [QUERY])
        yield opened


@contextmanager
def beats(registry: Registry, query: QueryStatus = QUERY) -> Iterator[None]:
    """Commit a batch now, and then report what a driver does, often."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(0.05):
            registry.heartbeat(JOB, [query])

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_running_is_the_default(cli: Command, registry: Registry) -> None:
    assert cli.ok("wait", "rides").out.splitlines() == [
        f"Job rides ({JOB}) is RUNNING.",
        "QUERY  BATCH",
        "q          5",
    ]
    assert cli.ok("wait", "rides", "-q").out == "RUNNING\n"
    document = cli.ok("wait", "rides", "--json").json()
    assert (document["job_id"], document["state"]) == (JOB, "RUNNING")
    assert document["queries"] == cli.status(JOB)["queries"]


def test_a_job_that_starts(cli: Command) -> None:
    job = cli.ok(*cli.run_words("serve", "--no-wait", "-q")).out.strip()
    assert cli.ok("wait", job, "-q").out == "RUNNING\n"
    assert cli.ok("wait", job, "--for", "batch=7", "--query", "counts", "-q").out == "RUNNING\n"


def test_a_batch_that_comes(cli: Command, registry: Registry) -> None:
    with beats(registry, replace(QUERY, batch_id=9)):
        waited = cli.ok("wait", "rides", "--for", "batch=9", "--json").json()
    assert waited["queries"][0]["batch_id"] == 9


def test_patience_ends_with_what_is_lacking(cli: Command, registry: Registry) -> None:
    late = cli("wait", "rides", "--for", "batch=7", "--timeout", "0")
    assert late.code == 14
    assert "query 'q' is at batch 5, not 7" in late.err
    error = cli("wait", "rides", "--for", "ended", "--timeout", "0", "--json").error()
    assert (error["code"], error["state"], error["job_id"]) == (14, "RUNNING", JOB)
    assert cli("wait", "rides", "--for", "batch=5", "--query", "x", "--timeout", "0").code == 14


@pytest.mark.parametrize(
    ("end", "codes"),
    [
        (JobState.FINISHED, {"running": 13, "batch=5": 0, "batch=6": 13, "idle": 13, "ended": 0}),
        (JobState.CANCELED, {"running": 13, "batch=5": 13, "idle": 13, "ended": 1}),
        (JobState.FAILED, {"running": 4, "batch=5": 4, "idle": 4, "ended": 4}),
    ],
)
def test_a_job_that_has_ended(
    cli: Command, registry: Registry, end: JobState, codes: dict[str, int]
) -> None:
    if end is JobState.CANCELED:
        registry.transition(JOB, JobState.CANCELLING)
    registry.transition(JOB, end, failure=BROKEN if end is JobState.FAILED else None)
    got = {goal: cli("wait", JOB, "--for", goal, "--timeout", "9") for goal in codes}
    assert {goal: result.code for goal, result in got.items()} == codes
    if end is JobState.FINISHED:
        assert "is FINISHED: query 'q' is at batch 5, not 6" in got["batch=6"].err


def test_mistakes(cli: Command, registry: Registry) -> None:
    assert cli("wait", "nobody").code == 10
    for words in (("--for", "done"), ("--for", "ended", "--query", "q")):
        assert cli("wait", "rides", *words).code == 2


def test_from_python(cli: Command, registry: Registry) -> None:
    with Client() as client:
        job = client.job("rides")
        assert job.wait(9, until="batch=5", query="q").state is JobState.RUNNING
        with pytest.raises(WaitTimeout, match="is at batch 5, not 6"):
            job.wait(0, until="batch=6")
        with pytest.raises(UsageError):
            job.wait(until="never")
        with beats(registry):
            assert job.wait(60, until="idle").state is JobState.RUNNING


@pytest.mark.parametrize("command", [wait, checkpoint])
def test_every_failure_of_a_job_is_a_declared_exit_code(command: FlinkishCommand) -> None:
    assert set(run.exit_codes) <= set(command.exit_codes)
