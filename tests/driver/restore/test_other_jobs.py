"""A query that is about to start takes its query id and its output, or learns who has them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinkish.driver.restore.other_jobs import OtherJobs
from flinkish.errors import ConsentNeeded
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, Launch, QueryStatus
from flinkish.registry.liveness import process_ref
from flinkish.restore.source.restore_inputs import NewSink

OUT = NewSink("csv", "/out")


def add(registry: Registry, letter: str) -> OtherJobs:
    job = JobRecord(
        letter * 32, letter, JobState.RUNNING, 1.0, Launch("/a.py"), driver=process_ref()
    )
    registry.add_job(job)
    return OtherJobs(registry, job.job_id)


def test_of_two_queries_of_one_program_the_second_is_refused(registry: Registry) -> None:
    job = add(registry, "a")
    job.take("q1", OUT, None, None, is_empty=True)
    with pytest.raises(ConsentNeeded, match="as query 'q1' of the same program") as refused:
        job.take("q2", OUT, None, None, is_empty=True)
    assert refused.value.to_record()["reasons"] == ["sink-in-use"]
    ended = replace(QueryStatus("q1", "i", "r", "/c"), active=False)
    registry.heartbeat("a" * 32, [ended])
    job.take("q2", OUT, None, None, is_empty=True)
    with pytest.raises(ConsentNeeded, match="as query 'q2' of job a "):
        add(registry, "b").take("q", OUT, None, None, is_empty=True)
