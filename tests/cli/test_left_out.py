"""Queries that are not in a savepoint because they never committed: said by every command."""

from __future__ import annotations

import json
import time

import pytest

from flinkish.cli.commands import request_result
from flinkish.cli.commands.savepoint_all import document, tell
from flinkish.cli.output.printer import Output, masked
from flinkish.client.all_jobs import AllSaved, JobOutcome
from flinkish.client.listing import Troubles
from flinkish.client.requests import Outcome, Removal
from flinkish.errors import NoCommittedBatch
from flinkish.launch.offline import check_savable
from flinkish.messages.launch import Launch
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import (
    CancelArguments,
    LeftOut,
    RequestResult,
    SavepointArguments,
    SavepointSummary,
)
from flinkish.registry.jobs import JobRecord, JobState, Request, RequestKind, RequestState
from flinkish.savepoint.manage.retention import Policy
from tests.cli.conftest import Command

JOB = JobRecord("a" * 32, "flights", JobState.FAILED, 1.0, Launch("/app.py"))
LEFT = [{"query": "c4", "reason": "it ended before it committed a batch"}]
RESULT = RequestResult(
    SavepointSummary("/t/savepoint-1", "j", 1.0, "native", bytes=1, files=1, duration=0.1),
    left_out=(LeftOut(LEFT[0]["query"], LEFT[0]["reason"]),),
)


def query(name: str, batch_id: int | None) -> QueryStatus:
    return QueryStatus(name, f"id-{name}", "run", f"/cp/{name}", batch_id=batch_id)


def test_a_dead_job_is_saved_without_them() -> None:
    queries = [query("c1", 3), query("c4", None)]
    assert check_savable(JOB, queries, {}, {"c1": 4, "c4": None}) == ["c4"]
    assert check_savable(JOB, queries, {}, {"c1": 4, "c4": 0}) == []


@pytest.mark.parametrize(
    ("queries", "committed", "named"),
    [
        # It has reported batch 3: its checkpoint is gone.
        ([query("c1", 3), query("c4", 2)], {"c1": 4, "c4": None}, "c4"),
        ([query("c4", None)], {"c4": None}, "c4"),
        ([query("c3", None), query("c4", None)], {}, "c3"),
    ],
)
def test_but_not_without_one_that_had_state(
    queries: list[QueryStatus], committed: dict[str, int | None], named: str
) -> None:
    with pytest.raises(NoCommittedBatch, match=f"/cp/{named} .*'{named}'"):
        check_savable(JOB, queries, {}, committed)


def test_request_show(cli: Command) -> None:
    cli.ok("list")
    with cli.registry() as registry:
        registry.add_job(
            JobRecord(JOB.job_id, "flights", JobState.INITIALIZING, time.time(), JOB.launch)
        )
        registry.transition(JOB.job_id, JobState.CREATED)
        registry.transition(JOB.job_id, JobState.RUNNING)
        request = registry.submit(JOB.job_id, RequestKind.SAVEPOINT, SavepointArguments("/t"), "me")
        registry.complete(request.request_id, RESULT)
    shown = cli.ok("request", "show", request.request_id).out
    assert "left out   query 'c4': it ended before it committed a batch" in shown
    waited = cli("request", "wait", request.request_id)
    assert "warning: query 'c4' is not in the savepoint: it ended" in waited.err
    assert cli("request", "wait", request.request_id, "--json").json()["left_out"] == LEFT


def test_savepoint_all(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = JobOutcome(JOB, "r", RESULT)
    tell(Output(quiet=True), outcome)
    assert "query 'c4' is not in the savepoint" in capsys.readouterr().err
    saved = document(AllSaved([outcome], Troubles(), Removal()), Policy())
    (entry,) = masked(saved)["savepoints"]
    assert entry["left_out"] == LEFT


def test_nothing_left_out_is_an_empty_list() -> None:
    request = Request(
        "r", JOB.job_id, RequestKind.CANCEL, RequestState.COMPLETED, 1.0, CancelArguments()
    )
    assert json.dumps(request_result.result_document(Outcome.of(request, JOB))["left_out"]) == "[]"
