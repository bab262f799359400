"""A query that is about to start takes its query id and its output, or learns who has them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.driver.restore import other_jobs
from flinkish.driver.restore.other_jobs import OtherJobs
from flinkish.errors import ConsentNeeded
from flinkish.messages.launch import Launch
from flinkish.messages.queries import QueryStatus
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, ProcessRef
from flinkish.registry.liveness import process_ref
from flinkish.restore.origin.restore_inputs import NewSink

OUT = NewSink("csv", "/out")


KAFKA = NewSink("kafka")


@pytest.fixture
def unread_sinks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sink of a job on this host is not looked at."""

    def unasked(*_: object) -> None:
        raise AssertionError("a sink was looked at")

    monkeypatch.setattr(other_jobs, "file_sink_status", unasked)


def add(registry: Registry, letter: str) -> OtherJobs:
    job = JobRecord(
        letter * 32, letter, JobState.RUNNING, 1.0, Launch("/a.py"), driver=process_ref()
    )
    registry.add_job(job)
    return OtherJobs(registry, job.job_id)


@pytest.mark.usefixtures("unread_sinks")
def test_of_two_queries_of_one_program_the_second_is_refused(registry: Registry) -> None:
    job = add(registry, "a")
    job.take("q1", OUT, None, None)
    with pytest.raises(
        ConsentNeeded, match="the running query 'q1' of the same program writes"
    ) as refused:
        job.take("q2", OUT, None, None)
    assert refused.value.to_record()["reasons"] == ["sink-in-use"]
    ended = replace(QueryStatus("q1", "i", "r", "/c"), active=False)
    registry.heartbeat("a" * 32, [ended])
    job.take("q2", OUT, None, None)
    with pytest.raises(ConsentNeeded, match="query 'q2' of the RUNNING job a "):
        add(registry, "b").take("q", OUT, None, None)


@pytest.mark.usefixtures("unread_sinks")
def test_of_two_first_runs_in_one_checkpoint_the_second_is_refused(registry: Registry) -> None:
    """The checkpoint has no query id yet by which they would know of each other."""
    one, other = add(registry, "a"), add(registry, "b")
    one.take("q", KAFKA, None, None, checkpoint="/chk")
    with pytest.raises(
        ConsentNeeded, match="the checkpoint /chk, which query 'q' of the RUNNING job a "
    ):
        other.take("q", KAFKA, None, None, checkpoint="file:///chk/")
    assert other.writers() == [], "nobody writes there"
    one.take("renamed", KAFKA, None, None, checkpoint="/chk")
    other.take("q", KAFKA, None, None, checkpoint="/another")
    registry.transition("a" * 32, JobState.FAILED)
    other.take("q", KAFKA, None, None, checkpoint="/chk")


def test_a_local_sink_of_another_host(registry: Registry, tmp_path: Path) -> None:
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    (log / "3").write_text("v1\n{}")
    out = NewSink("csv", str(tmp_path))
    add(registry, "a").take("q", out, None, None)
    registry.update_job("a" * 32, driver=ProcessRef("another-host", 1))
    registry.heartbeat("a" * 32, [replace(QueryStatus("q", "i", "r", "/c"), batch_id=3)])
    other = add(registry, "b")
    with pytest.raises(ConsentNeeded) as refused:  # maybe both have mounted it
        other.take("q", out, None, None)
    assert "try again a minute after that job's next batch" in refused.value.hint
    registry.heartbeat("a" * 32, [replace(QueryStatus("q", "i", "r", "/c"), batch_id=4)])
    other.take("q", out, None, None)


def test_the_first_batch_of_another_host_may_be_for_the_same_directory(
    registry: Registry, tmp_path: Path
) -> None:
    out = NewSink("csv", str(tmp_path))
    add(registry, "a").take("q", out, None, None)
    registry.update_job("a" * 32, driver=ProcessRef("another-host", 1))
    registry.heartbeat("a" * 32, [QueryStatus("q", "i", "r", "/c")])
    other = add(registry, "b")
    with pytest.raises(ConsentNeeded, match="to which query 'q' of the RUNNING job a"):
        other.take("q", out, None, None)
    registry.heartbeat("a" * 32, [replace(QueryStatus("q", "i", "r", "/c"), batch_id=0)])
    other.take("q", out, None, None)


@pytest.mark.usefixtures("unread_sinks")
def test_a_local_checkpoint_of_another_host_is_another(registry: Registry) -> None:
    add(registry, "a").take("q", KAFKA, "id", None, checkpoint="/chk")
    registry.update_job("a" * 32, driver=ProcessRef("another-host", 1))
    registry.heartbeat("a" * 32, [QueryStatus("q", "id", "r", "/chk")])
    other = add(registry, "b")
    with pytest.raises(ConsentNeeded, match="the query id and the batches of query 'q'"):
        other.take("q", KAFKA, "id", None, checkpoint="/chk")  # a copy: the id is the same
    other.take("q", KAFKA, None, None, checkpoint="/chk")
