"""What drivers say of their queries, and what stays of it when they are gone."""

from __future__ import annotations

from collections.abc import Callable

from flinkish.messages.queries import QueryFacts, QueryStatus
from flinkish.messages.requests import RequestResult, SavepointArguments
from flinkish.registry.job_registry import Registry, new_request_id
from flinkish.registry.jobs import (
    JobRecord,
    JobState,
    ProcessRef,
    Request,
    RequestKind,
    RequestState,
)

MakeJob = Callable[..., JobRecord]
FACTS = QueryFacts(
    run_id="r",
    sources=({"uid": "lines", "signature": "json k:int"},),
    sink={"format": "parquet"},
    operators=({"ordinal": 0, "uid": "counts", "meaning": None},),
    problem={"id": "not-savepointable", "message": "m"},
)


def status(name: str, query_id: str) -> QueryStatus:
    return QueryStatus(name, query_id, "r", f"/c/{name}")


def test_facts_are_of_the_newest_query_of_a_name(registry: Registry, make_job: MakeJob) -> None:
    job = make_job(state=JobState.RUNNING)
    registry.add_job(job)
    registry.heartbeat(job.job_id, [status("a", "1"), status("b", "2")])
    assert registry.facts(job.job_id) == {}
    registry.record_facts(job.job_id, "a", "1", FACTS)
    registry.heartbeat(job.job_id, [status("a", "1"), status("b", "2")])
    assert registry.facts(job.job_id) == {"a": FACTS}  # a heartbeat leaves them alone
    registry.heartbeat(job.job_id, [status("a", "3")])  # another query of the same name
    assert registry.facts(job.job_id) == {}
    later = QueryFacts(run_id="s")
    registry.record_facts(job.job_id, "a", "3", later)
    assert registry.facts(job.job_id) == {"a": later}
    assert [query.query_id for query in registry.queries(job.job_id)] == ["3", "2"]


def test_a_replaced_driver_changes_nothing(registry: Registry, make_job: MakeJob) -> None:
    """After an outage it records what has changed meanwhile, for queries that its successor has."""
    old, new = ProcessRef("pod-1", 1, 1), ProcessRef("pod-2", 1, 1)
    job = make_job(state=JobState.RUNNING, driver=old)
    registry.add_job(job)
    registry.act_as(job.job_id, old)
    registry.heartbeat(job.job_id, [status("a", "1")])
    registry.update_job(job.job_id, application_id="app-1")
    registry.record_facts(job.job_id, "a", "1", FACTS)
    assert registry.facts(job.job_id) == {"a": FACTS}
    failed = registry.transition(job.job_id, JobState.FAILED)
    registry.restart(failed, "started again", driver=new)
    registry.record_facts(job.job_id, "a", "1", QueryFacts(run_id="of the old one"))
    registry.update_job(job.job_id, application_id="app-0", failure={"message": "it broke"})
    assert registry.facts(job.job_id) == {"a": FACTS}
    assert registry.job(job.job_id).application_id != "app-0"
    registry.act_as(job.job_id, new)
    later = QueryFacts(run_id="of the new one")
    registry.record_facts(job.job_id, "a", "1", later)
    registry.update_job(job.job_id, application_id="app-2")
    assert registry.facts(job.job_id) == {"a": later}
    assert registry.job(job.job_id).application_id == "app-2"


def test_what_a_client_did_itself_is_in_the_history(registry: Registry, make_job: MakeJob) -> None:
    job = make_job(state=JobState.RUNNING)
    registry.add_job(job)
    asked = registry.submit(job.job_id, RequestKind.SAVEPOINT, SavepointArguments("/sp"))
    registry.transition(job.job_id, JobState.FAILED)
    done = Request(
        new_request_id(),
        job.job_id,
        RequestKind.SAVEPOINT,
        RequestState.COMPLETED,
        created=1.0,
        arguments=SavepointArguments("/sp", offline=True),
        requester="eva@host",
        started=1.0,
        finished=2.0,
        result=RequestResult(),
    )
    registry.record_request(done)
    assert registry.requests(job.job_id) == [registry.request(asked.request_id), done]
    assert registry.claim(job.job_id) is None  # it is nobody's work any more
