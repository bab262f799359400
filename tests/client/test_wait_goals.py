"""What a job lacks of what one waits for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinkish.client.context import Context
from flinkish.client.wait_goals import Goal, GoalKind, Watch, parse_goal
from flinkish.client.waiting import not_failed
from flinkish.config import Config
from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.errors import DriverLost, UsageError
from flinkish.messages.launch import Launch
from flinkish.messages.plan import QueryRow, RestorePlan
from flinkish.messages.queries import QueryStatus
from flinkish.registry.jobs import JobRecord, JobState
from tests.cli.conftest import Command

BEGAN = 100.0
JOB = JobRecord("a" * 32, "rides", JobState.RUNNING, 1.0, Launch("/app.py"), heartbeat=101.0)
Q = QueryStatus("q", "id", "run", "/cp", batch_id=5, waits_for_input=True, trigger_interval=0.0)
IDLE = Goal(GoalKind.IDLE)


def at(seconds: float) -> JobRecord:
    return replace(JOB, heartbeat=BEGAN + seconds)


def in_state(state: JobState) -> JobRecord:
    return replace(JOB, state=state)


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("running", Goal(GoalKind.RUNNING)),
        ("Idle", Goal(GoalKind.IDLE)),
        ("ended", Goal(GoalKind.ENDED)),
        ("batch=0", Goal(GoalKind.BATCH, 0)),
        ("BATCH=12", Goal(GoalKind.BATCH, 12)),
        ("batch=+3", Goal(GoalKind.BATCH, 3, more=True)),
    ],
)
def test_words(text: str, goal: Goal) -> None:
    assert parse_goal(text) == goal


@pytest.mark.parametrize(
    "text",
    [
        *("", "batch", "batch=", "batch=-1", "batch=x", "batch=+", "batch=++1", "idle=3", "done"),
        "batch=" + "9" * 5000,  # more digits than int() takes
    ],
)
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="invalid --for"):
        parse_goal(text)


def test_a_query_counts_for_batches_and_idleness_only() -> None:
    assert parse_goal("batch=3", "q").query == parse_goal("idle", "q").query == "q"
    for text in ("running", "ended"):
        with pytest.raises(UsageError, match="--query cannot be combined with") as refused:
            parse_goal(text, "q")
        assert "batch=+N" in refused.value.hint


@pytest.mark.parametrize(
    ("state", "running", "ended"),
    [
        (JobState.CREATED, "it is CREATED", "it is CREATED"),
        (JobState.RUNNING, None, "it is RUNNING"),
        (JobState.FINISHED, "it is FINISHED", None),
        (JobState.FAILED, "it is FAILED", None),
    ],
)
def test_states(state: JobState, running: str | None, ended: str | None) -> None:
    assert Watch(Goal(GoalKind.RUNNING), BEGAN).lacking(in_state(state), [Q]) == running
    assert Watch(Goal(GoalKind.ENDED), BEGAN).lacking(in_state(state), [Q]) == ended


def test_batches() -> None:
    new = replace(Q, name="new", batch_id=None)
    gone = replace(Q, name="gone", active=False)
    queries = [Q, new, gone]

    def lacking(batch: int, query: str | None = None, job: JobRecord = JOB) -> str | None:
        return Watch(Goal(GoalKind.BATCH, batch, query), BEGAN).lacking(job, queries)

    assert lacking(5, "q") is None
    assert lacking(4, "q", in_state(JobState.FINISHED)) is None
    assert lacking(7, "q") == "query 'q' is at batch 5, not 7"
    assert lacking(5) == "query 'new' has committed no batch, not 5"
    assert lacking(6, "gone") == "query 'gone' has ended and is at batch 5, not 6"
    assert lacking(5, "x") == "it has no query 'x' (it has: 'q', 'new', 'gone')"
    assert lacking(5, "q", in_state(JobState.CREATED)) == "it is CREATED", "others may be started"
    assert lacking(5, "q", in_state(JobState.FAILED)) == "it is FAILED"
    assert Watch(Goal(GoalKind.BATCH, 0), BEGAN).lacking(JOB, []) == "it has no streaming query"


def test_more_batches_are_counted_from_the_first_look() -> None:
    restored = RestorePlan(queries=(QueryRow("new", batch_id=7),))
    new = replace(Q, name="new", batch_id=None, plan=restored)
    watch = Watch(parse_goal("batch=+2"), BEGAN)
    assert watch.lacking(JOB, [Q, new]) == (
        "query 'q' is at batch 5, not 7; query 'new' has committed no batch, not 9"
    )
    later = [replace(Q, batch_id=7), replace(new, batch_id=8)]
    assert watch.lacking(JOB, later) == "query 'new' is at batch 8, not 9"
    fresh = replace(Q, name="fresh", batch_id=None)
    assert watch.lacking(JOB, [replace(new, batch_id=9), fresh]) == (
        "query 'fresh' has committed no batch, not 1"
    )
    assert watch.lacking(JOB, [replace(new, batch_id=9), replace(fresh, batch_id=1)]) is None


def test_idle_is_what_has_waited_for_input_for_long_enough() -> None:
    watch = Watch(IDLE, BEGAN)
    assert watch.lacking(at(-5), [Q]) == "its driver has not reported since the wait began"
    assert "it has been idle for 0.0 s" in str(watch.lacking(at(1), [Q]))
    assert "it has been idle for 2.0 s" in str(watch.lacking(at(3), [Q])), "2 s: not more"
    assert watch.lacking(at(3.5), [Q]) is None


def test_idleness_begins_anew_with_each_batch() -> None:
    watch = Watch(IDLE, BEGAN)
    assert watch.lacking(at(1), [Q]) is not None
    working = replace(Q, waits_for_input=False)
    assert watch.lacking(at(3), [working]) == "query 'q' is processing batch 6"
    assert watch.lacking(at(5), [replace(Q, batch_id=6)]) is not None
    # It has committed between two reports, both of which say that it waits.
    assert watch.lacking(at(8), [replace(Q, batch_id=7)]) is not None
    assert watch.lacking(at(11), [replace(Q, batch_id=7)]) is None


def test_idle_lasts_longer_than_the_trigger() -> None:
    watch = Watch(IDLE, BEGAN)
    slow = replace(Q, name="slow", trigger_interval=60.0)
    ended = replace(Q, name="ended", active=False, trigger_interval=600.0, waits_for_input=False)
    for seconds in (1.0, 30.0, 61.0):
        assert watch.lacking(at(seconds), [Q, slow, ended]) is not None
    assert watch.lacking(at(61.5), [Q, slow, ended]) is None
    assert Watch(Goal(GoalKind.IDLE, query="q"), BEGAN).lacking(at(9), [Q, slow]) is not None


@pytest.mark.parametrize(
    ("query", "lack"),
    [
        (replace(Q, error="boom", active=False), "query 'q' has failed"),
        (replace(Q, waits_for_input=None), "query 'q' does not report whether it waits for input"),
        (replace(Q, waits_for_input=False, batch_id=None), "query 'q' is processing its first"),
    ],
)
def test_what_is_never_idle(query: QueryStatus, lack: str) -> None:
    watch = Watch(IDLE, BEGAN)
    for seconds in (1.0, 1000.0):
        assert str(watch.lacking(at(seconds), [query])).startswith(lack)
    assert watch.lacking(in_state(JobState.FINISHED), [Q]) == "it is FINISHED"


@pytest.mark.parametrize(
    ("trigger", "seconds"),
    [
        ({}, 0.0),
        ({"availableNow": True}, 0.0),
        ({"processingTime": "10 seconds"}, 10.0),
        ({"processingTime": "1 minute 30 seconds"}, 90.0),
        ({"processingTime": "interval 2 hours"}, 7200.0),
        ({"processingTime": "1 week"}, None),
        ({"processingTime": "often"}, None),
        ({"continuous": "1 second"}, None),
    ],
)
def test_intervals_of_triggers(trigger: dict[str, object], seconds: float | None) -> None:
    assert WriterFacts(trigger=trigger).trigger_interval == seconds


def test_a_failed_job_that_is_started_again_meanwhile_keeps_its_reason(cli: Command) -> None:
    """The restart clears the failure in the registry, while its reader waits for a better one."""
    cli.ok("list")
    with cli.registry() as registry, Context(Config.load()) as context:
        job = JobRecord("a" * 32, "rides", JobState.RUNNING, 1.0, Launch("/a.py"))
        registry.add_job(job)
        lost = DriverLost("the driver process 7 is gone").to_record()
        failed = registry.transition(job.job_id, JobState.FAILED, failure=lost)
        registry.restart(failed, "by its supervisor")
        with pytest.raises(DriverLost) as told:
            not_failed(context, failed)
        said = f"job rides ({job.job_id}) failed: the driver process 7 is gone"
        assert told.value.message == said
