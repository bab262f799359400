"""The rule for jobs that commit nothing though they have input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flinkish.client.stuck import Stuck, stuck_queries
from flinkish.messages.launch import Launch
from flinkish.messages.queries import QueryStatus
from flinkish.registry.jobs import JobRecord, JobState

#: 2026-01-01T00:00:00Z, and the timeout.
NOW, TIMEOUT = 1_767_225_600.0, 600.0
JOB = JobRecord("a" * 32, "app", JobState.RUNNING, 0.0, Launch("/app.py"), heartbeat=NOW - 1)
#: Has input, and has committed its newest batch 20 minutes ago.
QUERY = QueryStatus(
    "q", "id", "r", "/c", waits_for_input=False, last_batch_end="2025-12-31T23:40:00.000Z"
)


def stuck(running_since: float = 0.0, state: JobState = JobState.RUNNING, **query: Any) -> Any:
    job = replace(JOB, state=state)
    queries = [replace(QUERY, **query)]
    return stuck_queries(job, queries, running_since=running_since, now=NOW, timeout=TIMEOUT)


def test_a_query_with_input_that_commits_nothing() -> None:
    assert stuck() == [Stuck("q", 1200.0)]
    assert stuck()[0].describe() == "query 'q' has input but has committed nothing for 20 min"
    # Before its first batch, the time counts since the job runs.
    assert stuck(NOW - 700, last_batch_end=None) == [Stuck("q", 700.0)]
    assert stuck(last_batch_end="nonsense", running_since=NOW - 700) == [Stuck("q", 700.0)]


@pytest.mark.parametrize(
    "changes",
    [
        {"waits_for_input": True},
        {"waits_for_input": None},  # nobody knows
        {"active": False},
        {"last_batch_end": "2025-12-31T23:50:01.000Z"},
        {"last_batch_end": "2025-12-31T23:50:01+00:00"},
        {"waited_until": "2025-12-31T23:50:01.000Z"},  # its first batch after an idle night
        {"trigger_interval": 900.0},
        {"running_since": NOW - 100},  # the batch was that of an earlier driver
        {"state": JobState.RESTARTING},
    ],
    ids=str,
)
def test_what_is_not_stuck(changes: dict[str, Any]) -> None:
    assert stuck(**changes) == []


def test_a_query_that_has_failed_while_its_job_runs_on() -> None:
    """The program does not wait for it: nobody else tells."""
    failed: dict[str, Any] = {"active": False, "error": "boom", "waits_for_input": None}
    (found,) = stuck(**failed)
    assert found == Stuck("q", 1200.0, failed=True)
    assert found.describe() == "query 'q' has failed, and has committed nothing for 20 min"
    assert stuck(**failed, last_batch_end="2025-12-31T23:50:01.000Z") == []


def test_a_driver_that_runs_and_is_silent() -> None:
    silent = replace(JOB, heartbeat=NOW - 3_601)
    waits = replace(QUERY, waits_for_input=True)
    (found,) = stuck_queries(silent, [waits], running_since=0.0, now=NOW, timeout=TIMEOUT)
    assert found == Stuck(None, 3_601.0)
    assert found.describe() == "its driver runs but has not reported for 60 min"
    never = replace(JOB, heartbeat=None)
    assert stuck_queries(never, [], running_since=NOW - 5, now=NOW, timeout=TIMEOUT) == []
