"""Any sequence of calls leaves a legal history and requests that end once."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flinkish.errors import Locked, WrongState
from flinkish.messages.launch import Launch
from flinkish.messages.requests import RequestResult
from flinkish.registry.job_registry import Registry, new_job_id
from flinkish.registry.jobs import (
    JobRecord,
    JobState,
    Request,
    RequestKind,
    RequestState,
    arguments_for,
    may_follow,
)

_CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("transition"), st.sampled_from(list(JobState))),
        st.tuples(st.just("submit"), st.sampled_from(list(RequestKind))),
        st.tuples(st.just("claim"), st.none()),
        st.tuples(st.sampled_from(["complete", "fail"]), st.integers(0, 5)),
        st.tuples(st.just("abandon"), st.none()),
    ),
    max_size=30,
)


# The registry is shared by the examples on purpose: each has a job of its own in it.
@settings(
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(calls=_CALLS)
def test_any_calls_leave_a_legal_story(
    sqlite_registry: Registry, calls: list[tuple[str, object]]
) -> None:
    registry = sqlite_registry
    job = JobRecord(new_job_id(), "n", JobState.INITIALIZING, 1.0, Launch("/a.py"))
    registry.add_job(job)
    expected, ended = JobState.INITIALIZING, dict[str, Request]()
    for name, argument in calls:
        requests = registry.requests(job.job_id)
        if isinstance(argument, JobState):
            try:
                registry.transition(job.job_id, argument)
                assert argument is expected or may_follow(expected, argument)
                expected = argument
            except WrongState:
                assert not may_follow(expected, argument)
        elif isinstance(argument, RequestKind):
            # A plain cancel overrides a stop that waits; only another plain cancel is in its way.
            kinds = {"cancel"} if argument is RequestKind.CANCEL else {"stop", "cancel"}
            ending = [r for r in requests if r.kind.value in kinds and not r.state.is_final]
            try:
                plain = argument is RequestKind.CANCEL
                asked = arguments_for(argument, None if plain else "/sp")
                registry.submit(job.job_id, argument, asked)
                assert not expected.is_final
                assert argument is RequestKind.SAVEPOINT or not ending
            except WrongState:
                assert expected.is_final
            except Locked:
                assert argument is not RequestKind.SAVEPOINT
                assert ending
        elif name == "claim":
            pending = [r for r in requests if r.state is RequestState.PENDING]
            claimed = registry.claim(job.job_id)
            assert (claimed and claimed.request_id) == (pending[0].request_id if pending else None)
        elif name == "abandon":
            unfinished = [r for r in requests if not r.state.is_final]
            assert registry.abandon(job.job_id, {"id": "gone"}) == len(unfinished)
        elif isinstance(argument, int) and argument < len(requests):
            chosen = requests[argument]
            if name == "complete":
                settled = registry.complete(chosen.request_id, RequestResult())
            else:
                settled = registry.fail(chosen.request_id, {"by": name})
            assert settled == (not chosen.state.is_final)
        for request in registry.requests(job.job_id):
            if request.state.is_final:
                assert ended.setdefault(request.request_id, request) == request
                assert request.finished is not None
                assert (request.result is None) != (request.error is None)
    history = [line.state for line in registry.state_history(job.job_id)]
    assert history[0] is JobState.INITIALIZING
    assert all(may_follow(old, new) for old, new in pairwise(history))
    final = registry.job(job.job_id)
    assert final.state is history[-1] is expected
    assert (final.end_time is not None) == expected.is_final
    if expected.is_final:
        assert all(request.state.is_final for request in registry.requests(job.job_id))
