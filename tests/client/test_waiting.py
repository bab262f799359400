"""How a job has started; waiting itself is proven in tests/cli/test_lifecycle.py."""

from __future__ import annotations

import pytest

from flinkish import Client
from flinkish.client.waiting import Start, wait_until_started
from flinkish.errors import WaitTimeout
from flinkish.messages.launch import Launch
from flinkish.messages.plan import QueryRow, RestorePlan
from flinkish.messages.queries import QueryStatus
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.registry.liveness import process_ref


@pytest.mark.parametrize(
    ("plan", "notes", "further"),
    [
        (None, ["a"], ["a"]),
        (RestorePlan(), ["a"], ["a"]),
        (RestorePlan(queries=(QueryRow("q", notes=("a",)),)), ["a", "b"], ["b"]),
        # The job has another query, which was not restored: its notes name the query.
        (RestorePlan(queries=(QueryRow("q", notes=("a",)),)), ["query 'q': a", "b"], ["b"]),
    ],
)
def test_notes_of_the_plan_are_not_repeated(
    plan: RestorePlan | None, notes: list[str], further: list[str]
) -> None:
    assert Start(plan, notes).further_notes == further


def test_queries_that_have_ended_are_not_said_to_run(client: Client) -> None:
    launch = Launch("/a.py", options={"execution.start.queries": "3"})
    job = JobRecord("a" * 32, "rides", JobState.RUNNING, 1.0, launch)
    registry = client._context.writable_registry
    registry.add_job(job)
    registry.update_job(job.job_id, supervisor=process_ref(), driver=process_ref())
    runs, ended = (QueryStatus(name, name, "r", "/cp", name == "new") for name in ("new", "old"))
    registry.heartbeat(job.job_id, [runs, ended])
    with pytest.raises(WaitTimeout, match=r"the 3 announced queries \(running: 'new'\)"):
        wait_until_started(client._context, job)
