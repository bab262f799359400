"""A query id runs once, and a file sink has one writer: on both databases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from flinkish.errors import DriverLost, NameTaken, Superseded, WrongState
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.queries import QueryStatus
from flinkish.registry.claims import file_resource, query_resource, table_resource
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, ProcessRef

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
    assert len(registry.claim_resources(b, "q", [OUT, ID], over={(a, OUT)})) == 1
    assert registry.claim_resources(b, "q", [OUT], over={(a, OUT)}) == []
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


DRIVER = ProcessRef("far", 1, 2)


def lost(registry: Registry, make_job: MakeJob, **fields: Any) -> JobRecord:
    """A job that held a query id, files and a table, and that a reader has declared lost."""
    job = make_job("lost", JobState.CREATED, driver=DRIVER, **fields)
    registry.add_job(job)
    registry.transition(job.job_id, JobState.RUNNING)
    assert registry.claim_resources(job.job_id, "q", [ID, OUT, TABLE]) == []
    registry.heartbeat(job.job_id, [status("q", "i")])
    failure = DriverLost("no heartbeat from far for 31 s").to_record()
    return registry.transition(job.job_id, JobState.FAILED, failure=failure)


def test_a_lost_job_whose_driver_reports_again_goes_on_with_its_claims(
    registry: Registry, make_job: MakeJob
) -> None:
    job = lost(registry, make_job)
    _, other = jobs(registry, make_job)
    assert registry.claim_resources(other, "q", [TABLE]) == [], "tables have several writers"
    assert registry.take_back(job.job_id, ProcessRef("far", 1, 3)) is JobState.FAILED
    assert registry.take_back(job.job_id, DRIVER) is JobState.RUNNING
    again = registry.job(job.job_id)
    assert (again.end_time, again.failure, again.driver) == (None, None, DRIVER)
    history = [change.state.value for change in registry.state_history(job.job_id)]
    assert history == ["CREATED", "RUNNING", "FAILED", "RUNNING"]
    for resource in (ID, OUT):
        holders = registry.claim_resources(other, "q", [resource])
        assert [claim.job.job_id for claim in holders] == [job.job_id]
    with pytest.raises(WrongState):
        registry.restart(job, "by somebody who saw it lost")


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("resource", [ID, OUT])
def test_a_lost_job_does_not_go_on_once_another_has_claimed_what_it_held(
    registry: Registry, make_job: MakeJob, resource: str, *, ended: bool
) -> None:
    job = lost(registry, make_job)
    _, other = jobs(registry, make_job)
    assert registry.claim_resources(other, "q", [resource]) == []
    if ended:
        registry.transition(other, JobState.FINISHED)
    with pytest.raises(Superseded, match=other):
        registry.take_back(job.job_id, DRIVER)
    assert registry.job(job.job_id).state is JobState.FAILED


def resumed(registry: Registry, make_job: MakeJob, job: JobRecord) -> None:
    launch = Launch("/a.py", restore=RestoreSpec("", job=job.job_id))
    at = registry.now() + 1
    registry.add_job(make_job("b", JobState.INITIALIZING, launch=launch, start_time=at))


def named(registry: Registry, make_job: MakeJob, _job: JobRecord) -> None:
    registry.add_job(make_job("lost", JobState.INITIALIZING))


def purged(registry: Registry, _make_job: MakeJob, job: JobRecord) -> None:
    registry.begin_purge(job, {})


@pytest.mark.parametrize(
    ("happens", "error"), [(resumed, Superseded), (named, NameTaken), (purged, WrongState)]
)
def test_a_lost_job_does_not_go_on_beside_what_has_replaced_it(
    registry: Registry,
    make_job: MakeJob,
    happens: Callable[[Registry, MakeJob, JobRecord], None],
    error: type[WrongState],
) -> None:
    job = lost(registry, make_job, launch=Launch("/a.py", named=True))
    happens(registry, make_job, job)
    with pytest.raises(WrongState) as caught:
        registry.take_back(job.job_id, DRIVER)
    assert type(caught.value) is error
    assert registry.job(job.job_id).state is JobState.FAILED


def test_a_lost_job_that_was_started_again_has_another_driver(
    registry: Registry, make_job: MakeJob
) -> None:
    job = registry.restart(lost(registry, make_job), "again")
    assert registry.take_back(job.job_id, DRIVER) is JobState.RESTARTING
    registry.update_job(job.job_id, driver=ProcessRef("near", 1, 2))
    failure = DriverLost("the driver process 1 on near is gone").to_record()
    registry.transition(job.job_id, JobState.FAILED, failure=failure)
    assert registry.take_back(job.job_id, DRIVER) is JobState.FAILED


def test_a_claim_is_new_even_after_a_lost_job(registry: Registry, make_job: MakeJob) -> None:
    first = lost(registry, make_job)
    second = lost(registry, make_job)
    with pytest.raises(Superseded):
        registry.take_back(first.job_id, DRIVER)
    assert registry.take_back(second.job_id, DRIVER) is JobState.RUNNING
