"""The events of a job about which notices are sent, and when each is due; without I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, TypedDict

from flinkish.messages.json_schema import Format
from flinkish.registry.jobs import JobRecord, JobState, JobStateChange, Request, RequestState


class Event(str, Enum):
    """The events; a command or a URL gets their values."""

    FAILED = "job-failed"
    AGAIN = "job-running-again"
    SAVEPOINT_FAILED = "savepoint-failed"
    OVERDUE = "savepoint-overdue"

    def __str__(self) -> str:
        """Return the value."""
        return self.value


class NoticeDocument(TypedDict):
    """The notice of an event as a command or a URL gets it."""

    event: Event
    job_id: str
    name: str
    state: JobState
    time: Annotated[str, Format("date-time"), "UTC, ISO 8601"]
    message: str
    text: Annotated[str, "all of it in one sentence, for a chat"]


@dataclass(frozen=True)
class Notice:
    """One event of a job.

    ``time``: in seconds since the epoch. ``state``: the job's state after the event. ``message``: a
    sentence.
    """

    event: Event
    time: float
    state: JobState
    message: str


@dataclass(frozen=True)
class JobView:
    """What the registry says about a job at one time.

    ``requests``: those that have finished recently. ``last_savepoint``: when the newest savepoint
    was taken. ``now``: the time. Both are seconds since the epoch.
    """

    job: JobRecord
    history: Sequence[JobStateChange]
    requests: Sequence[Request]
    last_savepoint: float | None
    now: float


class NoticeWatch:
    """Compares each view of a job with the previous one; each event is due once.

    ``first`` is the view at the start: events before it are never due, except that a savepoint is
    overdue. ``max_age``: the seconds after which a savepoint is overdue; None: never.
    """

    def __init__(self, first: JobView, max_age: float | None) -> None:
        self._max_age = max_age
        self._changes = len(first.history)
        self._told = {each.request_id for each in first.requests if each.state.is_final}
        self._overdue: float | None = None

    def look(self, view: JobView) -> list[Notice]:
        """Return the notices that are due."""
        changed = list(self._changed(view.history))
        failed = any(notice.event is Event.FAILED for notice in changed)
        # When a job fails, its unfinished requests fail too, for the same reason.
        return [*changed, *self._failed_savepoints(view, told=failed), *self._late(view)]

    def _changed(self, history: Sequence[JobStateChange]) -> Iterator[Notice]:
        for index in range(self._changes, len(history)):
            change = history[index]
            reason = change.reason or "no reason was recorded"
            failed = change.state in (JobState.FAILING, JobState.FAILED)
            # A failure that ends the job is recorded twice, as FAILING and as FAILED.
            if failed and not (index and history[index - 1].state is JobState.FAILING):
                yield Notice(Event.FAILED, change.time, change.state, reason)
            elif change.state is JobState.RUNNING and _has_run(history[:index]):
                yield Notice(Event.AGAIN, change.time, change.state, "it runs again")
        self._changes = max(self._changes, len(history))

    def _failed_savepoints(self, view: JobView, *, told: bool) -> Iterator[Notice]:
        for request in view.requests:
            if not request.state.is_final or request.request_id in self._told:
                continue
            self._told.add(request.request_id)
            if request.state is RequestState.FAILED and request.savepoint is not None and not told:
                why = (request.error or {}).get("message") or "no reason was recorded"
                kind = request.kind.value
                text = why if kind == "savepoint" else f"the {kind} with a savepoint failed: {why}"
                yield _at(view, Event.SAVEPOINT_FAILED, text, request.finished)

    def _late(self, view: JobView) -> Iterator[Notice]:
        """Yield a notice if the next savepoint is overdue, once after each savepoint or start."""
        if self._max_age is None or view.job.state is not JobState.RUNNING:
            return
        runs = [change.time for change in view.history if change.state is JobState.RUNNING]
        since = max([*runs[-1:], view.last_savepoint or 0.0])
        if view.now - since > self._max_age and self._overdue != since:
            self._overdue = since
            last = "no savepoint" if view.last_savepoint is None else "no further savepoint"
            yield _at(view, Event.OVERDUE, f"it has had {last} for {view.now - since:,.0f} s")


def _has_run(history: Sequence[JobStateChange]) -> bool:
    return any(change.state is JobState.RUNNING for change in history)


def _at(view: JobView, event: Event, message: str, time: float | None = None) -> Notice:
    return Notice(event, view.now if time is None else time, view.job.state, message)
