"""A query id runs once, and a file sink has one writer: on both databases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from flinkish.errors import WrongState
from flinkish.messages.queries import QueryStatus
from flinkish.registry.claims import file_resource, query_resource, table_resource
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState

MakeJob = Callable[..., JobRecord]
ID, OUT, TABLE = query_resource("i"), file_resource("/out"), table_resource("/t")


def status(name: str, query_id: str, *, active: bool = True) -> QueryStatus:
    return replace(QueryStatus(name, query_id, "r", f"/c/{name}"), active=active)


def jobs(registry: Registry, make_job: MakeJob) -> tuple[str, str]:
    found = [make_job(name, JobState.RUNNING) for name in ("a", "b")]
    for job in found:
        registry.add_job(job)
    return found[0].job_id, found[1].job_id


def test_the_second_learns_of_the_first(registry: Registry, make_job: MakeJob) -> None:
    a, b = jobs(registry, make_job)
    assert registry.claim_resources(a, "q", [ID, OUT, TABLE]) == []
    assert registry.claim_resources(a, "q", [ID, OUT, TABLE]) == [], "its own"
    held = registry.claim_resources(b, "q", [TABLE, OUT, ID])
    assert [(c.resource, c.job.job_id, c.query) for c in held] == [(OUT, a, "q"), (ID, a, "q")]
    assert registry.claim_resources(b, "q", [TABLE]) == [], "tables have several writers"
    assert registry.claim_resources(b, "q", [OUT], over={a}) == []
    assert {(c.place, c.is_table, c.job.job_id) for c in registry.writers()} == {
        *(("/out", False, a), ("/t", True, a)),
        ("/out", False, b),
    }
    registry.transition(a, JobState.FAILED)
    assert registry.claim_resources(b, "q", [ID, OUT]) == []
    assert [c.job.job_id for c in registry.writers()] == [b]


def test_a_query_that_has_ended_holds_nothing(registry: Registry, make_job: MakeJob) -> None:
    a, b = jobs(registry, make_job)
    registry.heartbeat(a, [status("q", "i")])
    assert len(registry.claim_resources(b, "q", [ID])) == 1, "it began with a new id"
    assert registry.claim_resources(a, "q", [ID, OUT]) == []
    registry.heartbeat(a, [status("q", "i", active=False)])
    assert registry.claim_resources(b, "q", [ID, OUT]) == []
    registry.transition(b, JobState.FAILED)
    assert registry.claim_resources(a, "q", [ID, OUT]) == [], "it is about to start again"
    assert len(registry.writers()) == 1, "what it reported before does not count"


def test_two_queries_of_one_job_on_one_file_sink(registry: Registry, make_job: MakeJob) -> None:
    a, b = jobs(registry, make_job)
    assert registry.claim_resources(a, "q1", [ID, OUT, TABLE]) == []
    held = registry.claim_resources(a, "q2", [OUT])
    assert [(c.resource, c.job.job_id, c.query) for c in held] == [(OUT, a, "q1")]
    assert registry.claim_resources(a, "q2", [ID, TABLE]) == [], "Spark knows its own queries"
    assert registry.claim_resources(a, "q1", [OUT]) == [], "the next round of a loop"
    registry.heartbeat(a, [status("q1", "i", active=False)])
    assert registry.claim_resources(a, "q2", [OUT]) == [], "behind the end of the first"
    assert [(c.place, c.query) for c in registry.writers()] == [("/out", "q2")]
    assert [c.query for c in registry.claim_resources(b, "q", [OUT])] == ["q2"]


def test_a_driver_s_claims_are_not_those_of_the_next(registry: Registry, make_job: MakeJob) -> None:
    a, b = jobs(registry, make_job)
    assert registry.claim_resources(a, "q1", [OUT]) == []
    registry.heartbeat(a, [status("q1", "i")])
    registry.restart(registry.transition(a, JobState.FAILING), "again")
    assert registry.claim_resources(a, "renamed", [OUT]) == []
    assert [c.query for c in registry.claim_resources(b, "q", [OUT])] == ["renamed"]
    assert len(registry.claim_resources(b, "q", [ID])) == 1, "its queries are to go on"


def test_a_driver_that_was_taken_for_dead_takes_nothing(
    registry: Registry, make_job: MakeJob
) -> None:
    a, b = jobs(registry, make_job)
    registry.transition(a, JobState.FAILED)
    with pytest.raises(WrongState, match="is FAILED by now"):
        registry.claim_resources(a, "q", [OUT])
    assert registry.claim_resources(b, "q", [OUT]) == []
