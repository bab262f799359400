"""The job or the savepoint that a word means, and the queries that a job would be resumed with."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkish import Client
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
        assert context.find_origin(word) == job
    for word in ("s3://b/sp", "file:/sp", str(tmp_path), "app.py"):
        assert context.find_origin(word) == word
    with pytest.raises(AmbiguousJob):
        context.find_origin("twice")
    with pytest.raises(JobNotFound, match="nor a savepoint at that path"):
        context.find_origin("nobody")
    with pytest.raises(SavepointNotFound, match=r"\./rides"):
        context.find_origin("./rides")
    (tmp_path / "rides").mkdir()
    (tmp_path / "twice").mkdir()
    with pytest.raises(
        UsageError, match=r"'rides' is ambiguous: it means job rides \(a{32}\), and"
    ):
        context.find_origin("rides")
    with pytest.raises(UsageError, match="'twice' is ambiguous: it means several jobs, and"):
        context.find_origin("twice")
    assert context.find_origin("./rides") == "./rides"
    assert context.find_origin("aaaa") == job


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
