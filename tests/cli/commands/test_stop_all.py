"""``stop --all`` and ``restart --all``: jobs stopped together, and started again together.

The drivers are processes without Spark.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish import Client
from flinkish.client import all_jobs, requests, together
from flinkish.client.all_jobs import JobOutcome
from flinkish.client.context import Context
from flinkish.client.together import newest_together, restart_all
from flinkish.config import Config
from flinkish.errors import FlinkishError
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.plan import QueryRow, RestorePlan
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import RequestResult, SavepointArguments, SavepointSummary
from flinkish.registry.jobs import JobRecord, JobState, Request, RequestKind, RequestState
from flinkish.registry.liveness import process_ref
from tests.cli.conftest import Command
from tests.support.launcher_fakes import make_spark

STOP = ("stop", "--all", "-p", "sp", "--json")
RESTART = ("restart", "--all", "--json")


def make_checkpoint(root: Path) -> None:
    """Write the logs of one committed batch."""
    for log, text in (("offsets", 'v1\n{"batchWatermarkMs":0}\n0'), ("commits", "v1\n{}")):
        (root / log).mkdir(parents=True)
        (root / log / "0").write_text(text)


def names(entries: list[dict[str, Any]]) -> list[str]:
    return [str(entry["name"]) for entry in entries]


def test_all_are_stopped_and_started_again(cli: Command, tmp_path: Path) -> None:
    one, two = cli.start("saving", "--name", "one"), cli.start("saving", "--name", "two")
    ended = cli.start("batch", "--name", "ended")
    stopped = cli.ok(*STOP).json()
    assert names(stopped["savepoints"]) == ["one", "two"]
    assert {cli.status(job)["state"] for job in (one, two)} == {"FINISHED"}
    would = cli.ok("restart", "--all", "--dry-run").out.splitlines()
    paths = {each["job_id"]: each["path"] for each in stopped["savepoints"]}
    assert would == [
        f"Would restart job one ({one}): from {paths[one]}, as a new job.",
        f"Would restart job two ({two}): from {paths[two]}, as a new job.",
    ]
    started = cli.ok(*RESTART).json()
    assert (started["failed"], started["skipped"]) == ([], [])
    for entry in started["restarted"]:
        new = cli.status(entry["new_job_id"])
        assert (new["name"], new["state"]) == (entry["name"], "RUNNING")
        assert entry["savepoint"] == paths[entry["job_id"]]
        with cli.registry() as registry:
            restore = registry.job(entry["new_job_id"]).launch.restore
        assert restore is not None
        assert restore.path == paths[entry["job_id"]]
    assert cli.status(ended)["state"] == "FINISHED"
    again = cli.ok(*RESTART).json()
    assert (names(again["skipped"]), again["restarted"]) == (["one", "two"], [])


def test_a_job_that_cannot_be_stopped_is_stopped_by_the_next_call(cli: Command) -> None:
    cli.start("saving", "--name", "good")
    bad = cli.start("refuse", "--name", "bad")
    first = cli(*STOP)
    assert first.code == 3
    assert names(first.json()["failed"]) == ["bad"]
    assert cli.status(bad)["state"] == "RUNNING"
    refused = cli(*RESTART, "--name", "b*").json()
    assert (names(refused["skipped"]), refused["failed"]) == (["bad"], [])
    cli.ok("cancel", bad)
    cli.start("saving", "--name", "late")
    assert names(cli.ok(*STOP).json()["savepoints"]) == ["late"]
    result = cli(*RESTART)
    assert result.code == 3
    document = result.json()
    assert names(document["restarted"]) == ["good", "late"], "both calls stopped them together"
    (failed,) = document["failed"]
    assert "it was not stopped with a savepoint" in failed["error"]["message"]
    assert f"flinkish restart {bad}" in failed["error"]["hint"]
    # What was started again is stopped anew, without what the earlier calls could not stop.
    assert names(cli.ok(*STOP).json()["savepoints"]) == ["good", "late"]
    assert names(cli.ok(*RESTART).json()["restarted"]) == ["good", "late"]


def test_a_stop_that_goes_on_belongs_to_the_next_call(cli: Command) -> None:
    """Although a job of the same call runs again, and is stopped again."""
    slow, again = "a" * 32, "b" * 32
    first = SavepointArguments("sp", together="f" * 32)
    with cli.registry() as registry:
        for job in (slow, again):
            registry.add_job(JobRecord(job, job[:1], JobState.RUNNING, 1.0, Launch("/a.py")))
            registry.update_job(job, supervisor=process_ref(), driver=process_ref())
        registry.submit(slow, RequestKind.STOP, first)
        done = Request("c" * 32, again, RequestKind.STOP, RequestState.COMPLETED, 1.0, first)
        registry.record_request(replace(done, finished=2.0))
        for state in (JobState.RESTARTING, JobState.CREATED, JobState.RUNNING):
            registry.transition(again, state)
        with Client() as client:
            client.stop_all("sp", timeout=0.0)
        assert [stop.job_id for stop in newest_together(registry)] == [again, slow]


def test_only_what_was_stopped_together_is_started(cli: Command) -> None:
    cli.start("saving", "--name", "old")
    cli.ok(*STOP)
    cli.start("saving", "--name", "new")
    other = cli.start("saving", "--name", "other")
    assert names(cli.ok(*STOP, "--name", "n*").json()["savepoints"]) == ["new"]
    assert names(cli.ok(*RESTART).json()["restarted"]) == ["new"]
    assert cli.status(other)["state"] == "RUNNING"
    assert (
        "no running or starting job matches 'x*'"
        in cli.ok("stop", "--all", "-p", "sp", "--name", "x*").err
    )


def test_a_second_call_starts_what_has_not_come_up(cli: Command, tmp_path: Path) -> None:
    job = cli.start("saving", "--name", "rides")
    cli.ok(*STOP)
    broken = make_spark(tmp_path / "broken", "exit 1\n")
    first = cli(*RESTART, "--spark-home", str(broken))
    assert first.code == 1
    (failed,) = first.json()["failed"]
    assert failed["job_id"] == job
    assert cli.ok("list", "-q").out == ""
    (restarted,) = cli.ok(*RESTART, "--spark-home", str(cli.spark_home)).json()["restarted"]
    assert restarted["state"] == "RUNNING"


def stopped(cli: Command, *digits: str) -> None:
    """Add jobs that one call stopped, with savepoints that are gone."""
    launch = Launch(str(cli.program), spark_home=str(cli.spark_home))
    for job in (digit * 32 for digit in digits):
        saved = SavepointSummary("/no/such", job, 1.0, "native", bytes=1, files=1, duration=0.1)
        stop = Request(
            *(job, job, RequestKind.STOP, RequestState.COMPLETED, 1.0),
            SavepointArguments("/no", together="f" * 32),
            finished=2.0,
            result=RequestResult(saved),
        )
        with cli.registry() as registry:
            registry.add_job(JobRecord(job, job[:1], JobState.RUNNING, 1.0, launch))
            registry.transition(job, JobState.FINISHED)
            registry.record_request(stop)


def went_on(cli: Command, place: str = "/gone", batch: int | None = None) -> str:
    """Add a job that went on from the savepoint of the job "a" of :func:`stopped`, and ended."""
    saved = SavepointSummary("/no/such", "a" * 32, 1.0, "native", bytes=1, files=1, duration=0.1)
    launch = Launch(
        str(cli.program), spark_home=str(cli.spark_home), restore=RestoreSpec(saved.path)
    )
    plan = RestorePlan(queries=(QueryRow("q", origin="q", from_batch=3, batch_id=3),))
    query = QueryStatus("q", "i", "r", place, batch_id=batch, plan=plan)
    with cli.registry() as registry:
        registry.add_savepoint(saved)
        job = JobRecord("b" * 32, "later", JobState.RUNNING, registry.now(), launch)
        registry.add_job(job)
        registry.heartbeat(job.job_id, [query])
        registry.transition(job.job_id, JobState.CANCELED)
    return job.job_id


def test_what_is_not_started_is_told_before_the_others_are_waited_for(
    cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(cli, "a", "b")

    def start(_context: object, job: JobRecord, *_more: object, **_named: object) -> JobRecord:
        if job.name == "b":
            raise FlinkishError("no")
        return job

    monkeypatch.setattr(together, "restart_from", start)
    monkeypatch.setattr(together, "wait_until_restored", lambda _context, job, _path: job)
    told: list[str] = []
    with Context(Config.load()) as context:
        result = restart_all(context, on_outcome=lambda outcome: told.append(outcome.job.name))
    assert told == ["b", "a"]
    assert [outcome.job.name for outcome in result.outcomes] == ["a", "b"]


def test_a_job_may_end_within_what_is_left_of_the_timeout(
    cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(cli, "a")
    with cli.registry() as registry:
        job, (stop,) = registry.job("a" * 32), registry.requests("a" * 32)
    clock, waits = [1000.0], []

    def answer(*_: object) -> Request:
        clock[0] += 590
        return stop

    monkeypatch.setattr(all_jobs, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(all_jobs, "wait_request", answer)
    monkeypatch.setattr(requests, "wait_end", lambda *given: waits.append(given[-1]))
    with Context(Config.load()) as context:
        all_jobs.all_answers(
            context,
            [job],
            lambda each: JobOutcome(each, stop.request_id),
            timeout=600,
            on_outcome=lambda _outcome: None,
        )
    assert waits == [10]


def test_a_dry_run_finds_a_savepoint_that_is_gone(cli: Command) -> None:
    stopped(cli, "a")
    refused = cli(*RESTART, "--dry-run")
    assert refused.code == 1
    assert [each["error"]["id"] for each in refused.json()["failed"]] == ["savepoint-not-found"]


@pytest.mark.parametrize("has_committed", [False, True])
def test_a_job_that_has_gone_on_is_not_started_again(cli: Command, has_committed: bool) -> None:
    job = cli.start("saving", "--name", "rides")
    cli.ok(*STOP)
    (restarted,) = cli.ok(*RESTART).json()["restarted"]
    new = restarted["new_job_id"]
    cli.ok("cancel", new)
    with cli.registry() as registry:
        (query,) = registry.queries(new)
        registry.heartbeat(new, [replace(query, batch_id=None)])  # only its log can tell
    if has_committed:
        make_checkpoint(Path(query.checkpoint_dir))
    document = cli(*RESTART).json()
    if has_committed:
        (failed,) = document["failed"]
        assert failed["job_id"] == job
        assert f"flinkish restart {new}" in failed["error"]["hint"]
        assert "the savepoint that this job was stopped with" in failed["error"]["message"]
    else:
        assert names(document["restarted"]) == ["rides"]


@pytest.mark.parametrize(
    ("place", "batch", "error"),
    [
        ("/gone", None, "savepoint-not-found"),
        ("/gone", 3, "savepoint-not-found"),
        ("/gone", 4, "wrong-state"),
        ("unknown://gone", 3, "storage"),
        ("unknown://gone", 4, "wrong-state"),
    ],
)
def test_a_job_whose_checkpoint_is_gone_has_gone_on_by_what_it_reported(
    cli: Command, place: str, batch: int | None, error: str
) -> None:
    """Or its checkpoint is on another host, or cannot be reached; it began with batch 3."""
    stopped(cli, "a")
    went_on(cli, place, batch)
    (failed,) = cli(*RESTART, "--dry-run").json()["failed"]
    assert failed["error"]["id"] == error


def test_another_spark_for_one_job_starts_from_its_savepoint(cli: Command, tmp_path: Path) -> None:
    other = make_spark(tmp_path / "other", (cli.spark_home / "bin/spark-submit").read_text())
    job = cli.start("saving", "--name", "rides")
    changes = ("--spark-home", str(other), "-m", "local[1]")
    path = cli.ok("stop", job, "-p", "sp", "-q").out.strip()
    new = cli.ok("restart", job, "-q", *changes).out.strip()
    assert new != job
    with cli.registry() as registry:
        launch = registry.job(new).launch
    assert (launch.spark_home, launch.master) == (str(other), "local[1]")
    assert launch.restore is not None
    assert launch.restore.path == path
    cli.ok("cancel", new)
    refused = cli("restart", new, "--json", *changes)
    assert refused.code == 13
    assert "did not end with a savepoint" in refused.error()["message"]


def test_another_spark_is_no_reason_to_go_back_to_a_savepoint_that_another_job_has_continued(
    cli: Command,
) -> None:
    stopped(cli, "a")
    later = went_on(cli)
    words = ("restart", "a" * 32, "--dry-run", "--json", "-m", "local[1]")
    refused = cli(*words)
    assert refused.code == 13
    assert f"job later ({later}), which is CANCELED, has resumed" in refused.error()["message"]
    named = cli(*words, "--from", "/no/such")
    assert named.error()["id"] == "savepoint-not-found", "that it goes back there is what was asked"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("stop --all abcd", "--all takes no JOB"),
        ("stop --all --drain", "cannot be combined with --drain"),
        ("stop --all -detached", "or -detached"),
        ("stop abcd --name x", "--name requires --all"),
        ("stop", "missing argument 'JOB'"),
        ("restart", "missing argument 'JOB'"),
        ("restart --all --from x", "cannot be combined with --from"),
        ("restart --all abcd", "--all takes no JOB"),
    ],
)
def test_what_excludes_what(cli: Command, words: str, message: str) -> None:
    result = cli(*words.split())
    assert result.code == 2
    assert message in result.err


def test_nothing_was_stopped(cli: Command) -> None:
    result = cli.ok("restart", "--all")
    assert result.out == ""
    assert "stop --all has stopped no job" in result.err
    assert "no registry" in result.err


def test_what_was_not_stopped_is_not_to_be_started_again(cli: Command) -> None:
    job = cli.start("refuse")
    would = cli.ok("stop", "--all", "-p", "sp", "--dry-run").out
    assert would == f"Would stop job app ({job}) with a savepoint in {cli.directory}/sp.\n"
    stopped = cli("stop", "--all", "-p", "sp")
    assert stopped.code == 1
    assert "restart --all" not in stopped.err
