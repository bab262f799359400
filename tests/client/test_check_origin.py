"""What ``check`` starts from: a job or a savepoint, and which words name it."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkish import Client
from flinkish.client.check_origin import find_origin, split_words
from flinkish.config import Config
from flinkish.errors import (
    AmbiguousJob,
    JobNotFound,
    NoCommittedBatch,
    SavepointNotFound,
    UsageError,
)
from flinkish.launch.job_origin import job_origin
from flinkish.messages.launch import Launch, Program
from flinkish.messages.plan import RestorePlan
from flinkish.messages.queries import QueryStatus
from flinkish.registry.jobs import JobRecord, JobState
from tests.cli.conftest import Command
from tests.support.checkpoints.handwritten import CheckpointLikeness

CONFIGURED = {"execution.state-recovery.path": "/sp"}


@pytest.mark.parametrize(
    ("words", "settings", "named", "has_program", "origin"),
    [
        (("j", "app.py", "x"), {}, False, False, "j"),
        (("j", "other.py"), {}, False, False, "j"),
        (("app.py", "x"), {}, True, False, None),
        (("app.py", "x"), CONFIGURED, False, False, None),
        (("missing.py",), CONFIGURED, False, False, None),
        (("j", "app.py"), CONFIGURED, False, False, "j"),
        (("j",), {}, False, True, "j"),
        (("app.py", "x"), CONFIGURED, False, True, None),
        (("sp/_metadata", "app.py"), {}, False, False, "sp/_metadata"),
    ],
)
def test_the_words(
    cli: Command,
    words: tuple[str, ...],
    settings: dict[str, str],
    named: bool,
    has_program: bool,
    origin: str | None,
) -> None:
    (cli.directory / "sp").mkdir()
    (cli.directory / "sp/_metadata").touch()
    config = Config.load(flags=settings)
    found = split_words(words, config, named=named, has_program=has_program)
    assert found == (origin, words if origin is None else words[1:])


@pytest.mark.parametrize("words", [(), ("j",), ("app.py",), ("app.py", "x")])
def test_without_an_origin(cli: Command, words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="no savepoint or job, and no program"):
        split_words(words, Config.load(), named=False, has_program=False)


def add(cli: Command, digit: str, name: str, *queries: QueryStatus) -> JobRecord:
    cli.ok("list")
    job = JobRecord(digit * 32, name, JobState.INITIALIZING, 1.0, Launch("/app.py"))
    with cli.registry() as registry:
        registry.add_job(job)
        registry.heartbeat(job.job_id, queries)
        registry.transition(job.job_id, JobState.CREATED)
        registry.transition(job.job_id, JobState.RUNNING)
        registry.transition(job.job_id, JobState.FINISHED)
        return registry.job(job.job_id)


def test_a_job_or_a_savepoint(cli: Command, client: Client, tmp_path: Path) -> None:
    job = add(cli, "a", "rides")
    add(cli, "b", "twice")
    add(cli, "c", "twice")
    context = client._context
    for word in ("rides", "aaaa", "a" * 32):
        assert find_origin(context, word) == job
    for word in ("s3://b/sp", "file:/sp", str(tmp_path), "app.py"):
        assert find_origin(context, word) == word
    with pytest.raises(AmbiguousJob):
        find_origin(context, "twice")
    with pytest.raises(JobNotFound, match="nor a savepoint at that path"):
        find_origin(context, "nobody")
    with pytest.raises(SavepointNotFound, match=r"\./rides"):
        find_origin(context, "./rides")
    (tmp_path / "rides").mkdir()
    (tmp_path / "twice").mkdir()
    with pytest.raises(
        UsageError, match=r"'rides' is ambiguous: it means job rides \(a{32}\), and"
    ):
        find_origin(context, "rides")
    with pytest.raises(UsageError, match="'twice' is ambiguous: it means several jobs, and"):
        find_origin(context, "twice")
    assert find_origin(context, "./rides") == "./rides"
    assert find_origin(context, "aaaa") == job


def test_the_queries_that_a_savepoint_would_have(
    cli: Command, client: Client, tmp_path: Path
) -> None:
    root = CheckpointLikeness(tmp_path / "one").run_to(2).root
    one = QueryStatus("one", "i", "r", str(root), batch_id=2, notes=("n",), plan=RestorePlan())
    none = QueryStatus("none", "j", "r", str(tmp_path / "none"))
    job = add(cli, "a", "rides", one, none)
    found = job_origin(client._context.registry, job)
    assert [(query.name, query.plan) for query in found.queries] == [("one", None)]
    assert [each.query for each in found.left_out] == ["none"]
    assert (found.running, found.complete) == (False, True)

    running = JobRecord("d" * 32, "now", JobState.RUNNING, 1.0, Launch("/app.py"))
    with cli.registry() as registry:
        registry.add_job(running)
        registry.heartbeat(running.job_id, [one, none])
    with pytest.raises(NoCommittedBatch, match="query 'none' of job now"):
        job_origin(client._context.registry, running)


def test_the_client_takes_jobs_too(cli: Command, client: Client) -> None:
    add(cli, "a", "rides")
    refused = "never started a streaming query"
    spark = str(cli.spark_home)
    for job in ("rides", client.job("rides")):
        with pytest.raises(Exception, match=refused):
            client.check(job, Program(str(cli.program), spark_home=spark))
    with pytest.raises(JobNotFound):
        client.check("nobody", Program(str(cli.program), spark_home=spark))
