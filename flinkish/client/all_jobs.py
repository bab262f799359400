"""Savepoints of all running jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flinkish.client import requests
from flinkish.client.context import Context
from flinkish.errors import FlinkishError, Locked, WrongState, from_record
from flinkish.registry.jobs import JobRecord, JobState, Request, RequestKind, RequestState
from flinkish.registry.liveness import reconcile
from flinkish.registry.lookup import name_matches
from flinkish.registry.waiting import wait_request


@dataclass(frozen=True)
class JobOutcome:
    """The outcome for one job: a savepoint, an error, or the reason why none was attempted.

    Parameters
    ----------
    job : JobRecord
        The job's record.
    request_id : str or None
        The request to its driver, if there is one.
    savepoint : mapping or None
        The savepoint as its driver reports it; has a ``path``.
    error : FlinkishError or None
        The error that occurred.
    skipped : str or None
        Why no savepoint was attempted.
    left_out : sequence of mappings
        Queries that are not in the savepoint, ``{"query", "reason"}`` each.
    warnings : sequence of str
        Sentences about what the savepoint does not have.
    """

    job: JobRecord
    request_id: str | None = None
    savepoint: Mapping[str, Any] | None = None
    error: FlinkishError | None = None
    skipped: str | None = None
    left_out: Sequence[Mapping[str, Any]] = ()
    warnings: Sequence[str] = ()

    @property
    def who(self) -> str:
        """The job's name and id, for messages."""
        return f"{self.job.name} ({self.job.job_id})"


def running_jobs(context: Context, pattern: str | None = None) -> list[JobRecord]:
    """Return the jobs that run according to the registry; one whose driver has died is FAILED.

    Parameters
    ----------
    context : Context
        Has the registry.
    pattern : str, optional
        Only jobs whose name matches it; ``*`` and ``?`` are wildcards.
    """
    registry = context.registry
    listed = registry.jobs(states={JobState.RUNNING})
    return reconcile(
        registry, [job for job in listed if pattern is None or name_matches(job.name, pattern)]
    )


def save_all(
    context: Context,
    jobs: Sequence[JobRecord],
    target: str,
    timeout: float,
    *,
    full: bool = False,
    format_: str = "native",
    on_outcome: Callable[[JobOutcome], object] = lambda _outcome: None,
) -> list[JobOutcome]:
    """Take a savepoint of each job, all at the same time.

    Parameters
    ----------
    context : Context
        Has the registry.
    jobs : sequence of JobRecord
        As :func:`running_jobs` returns them.
    target : str
        The directory of savepoints, absolute.
    timeout : float
        Seconds to wait for all of them together; what is not there by then goes on.
    full : bool
        Whether they share no files with earlier savepoints.
    format_ : str
        ``native`` or ``canonical``.
    on_outcome : callable
        Called with each outcome as soon as it is known.

    Returns
    -------
    list of JobOutcome
        In the order of the jobs. Failures are part of the outcomes, not raised.
    """
    deadline = time.monotonic() + timeout
    outcomes = [_begin(context, job, target, full=full, format_=format_) for job in jobs]
    for index, outcome in enumerate(outcomes):
        if outcome.request_id is not None:
            outcomes[index] = _await(context, outcome, max(deadline - time.monotonic(), 0.0))
        on_outcome(outcomes[index])
    return outcomes


def why_skip(history: Sequence[Request]) -> str | None:
    """Return why no savepoint is requested now, or None.

    ``history`` has all requests of the job.
    """
    for request in history:
        if request.state.is_final:
            continue
        created = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(request.created))
        since = f"since {created}"
        if request.kind is RequestKind.SAVEPOINT:
            return f"its savepoint {request.request_id} is still being written, {since}"
        return f"it is being ended by the {request.kind.value} {request.request_id}, {since}"
    return None


def _begin(
    context: Context, job: JobRecord, target: str, *, full: bool, format_: str
) -> JobOutcome:
    """Request a savepoint from the job's driver, unless there is a reason not to."""
    if job.state.is_final:  # RUNNING in the registry, but its process is gone
        return _ended(job)
    reason = why_skip(context.registry.requests(job.job_id))
    if reason is not None:
        return JobOutcome(job, skipped=reason)
    try:
        request = requests.submit(
            context,
            job,
            RequestKind.SAVEPOINT,
            target,
            full=full,
            format_=format_,
        )
    except WrongState:  # it ended after it was read
        return _ended(context.registry.job(job.job_id))
    return JobOutcome(job, request.request_id)


def _ended(job: JobRecord) -> JobOutcome:
    """Return the outcome for a job that has ended; FAILED is an error, so that it is reported."""
    if job.state is JobState.FAILED:
        return JobOutcome(job, error=from_record(job.failure or {"message": "it has failed"}))
    return JobOutcome(job, skipped=f"it is {job.state.value}")


def _await(context: Context, outcome: JobOutcome, timeout: float) -> JobOutcome:
    assert outcome.request_id is not None
    try:
        request = wait_request(context.registry, outcome.request_id, timeout)
    except FlinkishError as error:
        return replace(outcome, error=error)
    if request.state is RequestState.COMPLETED:
        savepoint = requests.shown_result(request).get("savepoint") or {}
        return replace(
            outcome,
            savepoint=savepoint,
            left_out=requests.left_out(request),
            warnings=requests.warnings_of(request),
        )
    failure = requests.failure_of(request)
    if isinstance(failure, Locked):  # another host holds the target
        return replace(outcome, skipped=failure.message)
    return replace(outcome, error=failure)
