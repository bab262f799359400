"""When somebody is told of what happens to a job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flinkish.errors import Locked
from flinkish.launch.notices import Event, JobView, Notice, NoticeWatch
from flinkish.messages.launch import Launch
from flinkish.messages.requests import CancelArguments, SavepointArguments
from flinkish.registry.jobs import (
    JobRecord,
    JobState,
    JobStateChange,
    Request,
    RequestKind,
    RequestState,
)

S = JobState
STARTED = (S.INITIALIZING, S.CREATED, S.RUNNING)


def view(*states: JobState, requests: Any = (), last: float | None = None, now: float = 0) -> Any:
    """A job with these states, each a second after the one before."""
    job = JobRecord("a" * 32, "app", states[-1], 0.0, Launch("/app.py"))
    history = [JobStateChange(s, float(n), f"why {n}") for n, s in enumerate(states)]
    return JobView(job, history, requests, last, now or float(len(states)))


def asked(
    state: RequestState, number: int = 0, kind: RequestKind = RequestKind.SAVEPOINT
) -> Request:
    arguments = SavepointArguments("/sp")
    error = Locked("it is locked").to_record() if state is RequestState.FAILED else None
    return Request(str(number), "a" * 32, kind, state, 0.0, arguments, finished=5.0, error=error)


def events(watch: NoticeWatch, view: JobView) -> list[str]:
    return [notice.event.value for notice in watch.look(view)]


def test_a_failure_and_a_return_are_told_once() -> None:
    watch = NoticeWatch(view(S.INITIALIZING), None)
    assert watch.look(view(*STARTED)) == []  # its first start is no return
    failing = (*STARTED, S.FAILING)
    assert watch.look(view(*failing)) == [Notice(Event.FAILED, 3.0, S.FAILING, "why 3")]
    assert watch.look(view(*failing, S.RESTARTING)) == []
    again = (*failing, S.RESTARTING, S.CREATED, S.RUNNING)
    assert watch.look(view(*again)) == [Notice(Event.AGAIN, 6.0, S.RUNNING, "it runs again")]
    assert watch.look(view(*again)) == []
    assert events(watch, view(*again, S.FAILED)) == ["job-failed"]


def test_a_failure_that_ends_the_job_is_one() -> None:
    watch = NoticeWatch(view(*STARTED), None)
    failed = view(*STARTED, S.FAILING, S.FAILED)
    assert watch.look(failed) == [Notice(Event.FAILED, 3.0, S.FAILING, "why 3")]
    assert watch.look(failed) == []
    watch = NoticeWatch(view(*STARTED), None)
    assert events(watch, view(*STARTED, S.FAILING)) == ["job-failed"]
    assert events(watch, failed) == []


def test_what_happened_between_two_looks_is_told_in_its_order() -> None:
    watch = NoticeWatch(view(S.INITIALIZING), None)
    life = (S.FAILING, S.RESTARTING, S.CREATED, S.RUNNING)
    told = events(watch, view(*STARTED, *life, *life, S.FAILED))
    assert told == ["job-failed", "job-running-again"] * 2 + ["job-failed"]


def test_a_job_that_was_started_again_by_somebody_runs_again() -> None:
    watch = NoticeWatch(view(*STARTED, S.FAILED, S.RESTARTING), None)
    assert events(watch, view(*STARTED, S.FAILED, S.RESTARTING, S.RUNNING)) == ["job-running-again"]


def test_a_planned_end_is_no_event() -> None:
    watch = NoticeWatch(view(*STARTED), None)
    assert watch.look(view(*STARTED, S.CANCELLING, S.CANCELED)) == []
    assert watch.look(view(*STARTED, S.FINISHED)) == []


def test_a_savepoint_that_failed_is_told_once() -> None:
    old, new = asked(RequestState.FAILED, 1), asked(RequestState.FAILED, 2)
    watch = NoticeWatch(view(*STARTED, requests=[old]), None)
    waiting = view(*STARTED, requests=[old, replace(new, state=RequestState.IN_PROGRESS)])
    assert watch.look(waiting) == []
    failed = view(*STARTED, requests=[old, new])
    assert watch.look(failed) == [Notice(Event.SAVEPOINT_FAILED, 5.0, S.RUNNING, "it is locked")]
    assert watch.look(failed) == []
    stop = asked(RequestState.FAILED, 3, RequestKind.STOP)
    (told,) = watch.look(view(*STARTED, requests=[old, new, stop]))
    assert told.message == "the stop with a savepoint failed: it is locked"
    plain = replace(asked(RequestState.FAILED, 4, RequestKind.CANCEL), arguments=CancelArguments())
    done = asked(RequestState.COMPLETED, 5)
    assert watch.look(view(*STARTED, requests=[plain, done])) == []


def test_a_job_that_fails_takes_its_requests_with_it() -> None:
    watch = NoticeWatch(view(*STARTED), None)
    gone = view(*STARTED, S.FAILED, requests=[asked(RequestState.FAILED)])
    assert events(watch, gone) == ["job-failed"]
    assert watch.look(gone) == []


def test_a_savepoint_is_overdue_once_after_each() -> None:
    watch = NoticeWatch(view(*STARTED), 100.0)  # it runs since second 2
    assert watch.look(view(*STARTED, now=102.0)) == []
    (told,) = watch.look(view(*STARTED, now=103.0))
    assert (told.event, told.time) == (Event.OVERDUE, 103.0)
    assert told.message == "it has had no savepoint for 101 s"
    assert watch.look(view(*STARTED, now=900.0)) == []
    assert watch.look(view(*STARTED, last=850.0, now=900.0)) == []
    (told,) = watch.look(view(*STARTED, last=850.0, now=951.0))
    assert told.message == "it has had no further savepoint for 101 s"
    assert watch.look(view(*STARTED, last=850.0, now=1_000.0)) == []
    stopped = view(*STARTED, S.FINISHED, last=850.0, now=9_000.0)
    assert watch.look(stopped) == []
    never = NoticeWatch(view(*STARTED), None)
    assert never.look(view(*STARTED, now=1e9)) == []
