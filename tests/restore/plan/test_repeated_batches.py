"""What is written to a Kafka sink again: by other jobs of the query, and of a planned batch."""

from __future__ import annotations

import pytest

from flinkish.messages.plan import RestoreOutcome
from flinkish.registry.jobs import JobState
from flinkish.restore.plan.query_id import OtherRun
from flinkish.restore.plan.repeated_batches import judge_repeats, may_repeat, sink_format

FINISHED, FAILED, CANCELED = JobState.FINISHED, JobState.FAILED, JobState.CANCELED


def run(state: JobState, last: int | None, job: str = "j1") -> OtherRun:
    return OtherRun(job, state, last)


def gone_back(since: int, batches: int, state: JobState = FINISHED) -> OtherRun:
    return OtherRun("j3", state, since + batches, since=since)


@pytest.mark.parametrize(
    ("runs", "planned", "batches"),
    [
        ([], False, 0),
        ([], True, 1),
        ([run(FINISHED, 7)], False, 0),
        ([run(FINISHED, 7)], True, 1),
        ([run(FINISHED, 5)], False, 0),  # an ancestor
        ([run(FAILED, 5)], False, 0),
        ([run(FAILED, None)], False, 0),
        ([run(FINISHED, 10)], False, 3),
        ([run(FINISHED, 10)], True, 3),  # the planned batch is the first of them
        ([run(FAILED, 10)], False, 4),
        ([run(CANCELED, 7)], False, 1),
        ([run(FAILED, 7)], True, 1),
        ([run(FAILED, 9), run(FINISHED, 12, "j2")], False, 5),
        ([run(FINISHED, 10), gone_back(3, 4)], False, 4),  # whatever its batches hold
        ([gone_back(3, 4)], False, 4),
        ([gone_back(7, 2)], False, 2),
        ([gone_back(9, 2)], False, 4),  # two of the query's own, and these
        ([gone_back(7, 0)], False, 0),
        ([gone_back(7, 2, CANCELED)], False, 3),
    ],
)
def test_batches_after_the_savepoint(runs: list[OtherRun], planned: bool, batches: int) -> None:
    found = judge_repeats("q", "Kafka", "kafka", 7, runs, planned=planned)
    assert found is not None
    assert found.batches == batches
    assert found.outcome is (RestoreOutcome.WARNING if batches else RestoreOutcome.NOTE)
    assert "at-least-once" in found.text
    assert bool(found.advice) is bool(batches)


def test_it_says_which_batches_and_why() -> None:
    runs = [run(FINISHED, 7, "j0"), run(FAILED, 9)]
    found = judge_repeats("q", "kafka", None, 7, runs, planned=True)
    assert found is not None
    assert found.text == (
        "query 'q': the Kafka sink is at-least-once: what it already has of 3 batches, 8 to 10, is "
        "written again (job j1 continued to batch 9 and may have started batch 10; batch 8 was "
        "planned and is replayed)"
    )
    alone = judge_repeats("q", "kafka", None, 7, [run(CANCELED, 7)], planned=False)
    assert alone is not None
    assert "of batch 8 is" in alone.text
    assert "ended with batch 7 and may have started batch 8" in alone.text


def test_it_says_that_a_job_went_back() -> None:
    found = judge_repeats("q", "kafka", "kafka", 7, [gone_back(3, 2)], planned=False)
    assert found is not None
    assert "of 2 batches, 8 to 9, is written again" in found.text
    assert (
        "(job j3 went back to batch 3 under another query id and may have started 2" in found.text
    )


def test_nobody_knows_while_a_job_goes_on() -> None:
    runs = [run(FINISHED, 9, "j0"), run(JobState.RUNNING, 8)]
    found = judge_repeats("q", "kafka", "kafka", 7, runs, planned=False)
    assert found is not None
    assert (found.outcome, found.batches) == (RestoreOutcome.WARNING, None)
    assert "all that job j1 (RUNNING) writes" in found.text


def test_other_sinks() -> None:
    for format in (None, "parquet", "console"):
        assert judge_repeats("q", format, "kafka", 7, [run(FAILED, 9)], planned=True) is None
    found = judge_repeats("q", "kafka", "console", 7, [run(FAILED, 9)], planned=True)
    assert found is not None
    assert (found.outcome, found.batches) == (RestoreOutcome.NOTE, 0)


def test_the_format_of_a_saved_sink() -> None:
    assert sink_format({"format": "kafka"}) == "kafka"
    assert sink_format({}) is None
    assert sink_format({"format": 1}) is None


def test_a_kafka_sink_that_was_named_by_its_class_is_one() -> None:
    assert may_repeat("org.apache.spark.sql.kafka010.KafkaSourceProvider")
    assert may_repeat(None)
    assert not may_repeat("csv")
