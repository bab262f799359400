"""Requests to a job's driver (savepoint, stop, cancel): submission, waits, outcomes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from flinkish import __version__
from flinkish.client.context import Context, requester
from flinkish.client.reporter import Progress, Reporter
from flinkish.errors import (
    FlinkishError,
    Locked,
    NoSavepointDirectory,
    WaitTimeout,
    from_record,
)
from flinkish.messages.requests import LeftOut, RequestResult, SavepointSummary
from flinkish.registry.jobs import (
    JobRecord,
    JobState,
    Request,
    RequestKind,
    RequestState,
    arguments_for,
)
from flinkish.registry.waiting import wait_job, wait_request

SAVEPOINT_DIR = "execution.checkpointing.savepoint-dir"
#: Seconds that a driver's answer may take to reach a client that has a time limit.
_ANSWER = 3.0
#: Seconds that the driver gets to end after the grace period of its program.
_END_SLACK = 20.0
_PHASES = {
    RequestState.PENDING: "Waiting for the driver",
    RequestState.IN_PROGRESS: "Waiting for response",
    RequestState.COMPLETED: "Done",
    RequestState.FAILED: "Failed",
}


def savepoint_target(context: Context, target: str | None, job: JobRecord | None = None) -> str:
    """Return the location of ``target`` or else of the configured directory for savepoints.

    Raises NoSavepointDirectory if there is neither (the message names ``job``), and StorageError if
    the scheme of the URL is not supported.
    """
    location = target or context.config.get(SAVEPOINT_DIR)
    if location is None:
        untouched = f"; job {job.name} ({job.job_id}) is untouched" if job is not None else ""
        raise NoSavepointDirectory(
            f"no target directory for the savepoint: {SAVEPOINT_DIR} is not set{untouched}",
            key=SAVEPOINT_DIR,
        )
    from flinkish.storage import locate

    return locate(location)


def submit(
    context: Context,
    job: JobRecord,
    kind: RequestKind,
    target: str | None,
    *,
    limit: float | None = None,
    full: bool = False,
    format_: str = "native",
    drain: bool = False,
    together: str | None = None,
    request_id: str | None = None,
) -> Request:
    """Put a request into the job's mailbox, without waiting for its result (:func:`wait_result`).

    ``job``: the job whose driver gets the request. ``kind``: the kind of request. ``target``: the
    directory of savepoints, see :func:`savepoint_target`; None for a cancel without a savepoint.
    ``limit``: seconds that the driver waits for what the savepoint needs before the request fails,
    for callers that cannot use a later result; None: the job's ``execution.checkpointing.timeout``.
    ``full``: whether the savepoint shares no files with an earlier one. ``format_``: ``native`` or
    ``canonical``. ``drain``: whether a stop first emits what waits for the watermark. ``together``:
    the id of the ``stop --all`` that a stop belongs to. ``request_id``: the request's id, for
    callers that record it before the request is sent; None: a new one.

    Raises Locked if the job is already being stopped or canceled; WrongState if the job has ended.
    """
    agent = job.launch.external.agent if job.launch.external is not None else __version__
    if agent != __version__:
        context.reporter.warning(
            f"the driver of job {job.name} ({job.job_id}) has flinkish {agent}, but this "
            f"command has {__version__}: if requests fail, upgrade the older of the two"
        )
    arguments = arguments_for(
        kind, target, format=format_, timeout=limit, full=full, drain=drain, together=together
    )
    return context.registry.submit(job.job_id, kind, arguments, requester(), request_id=request_id)


def limit_within(timeout: float) -> float:
    """Return the limit of a request whose answer must arrive within ``timeout`` seconds. Pure.

    Callers need the limit if the request must not stay pending after the timeout. For instance, the
    job of an upgrade that was given up must not be stopped later.
    """
    return max(timeout - _ANSWER, timeout * 0.7)


def submit_cancel(context: Context, job: JobRecord) -> Request:
    """Request a cancel without savepoint; see :func:`submit`.

    If the driver does not answer an earlier request to end the job, that request is returned:
    waiting for it (:func:`wait_cancel`) ends the job.
    """
    try:
        return submit(context, job, RequestKind.CANCEL, None)
    except Locked as locked:
        from flinkish.launch.termination import answers_late

        registry = context.registry
        first = registry.request(str(locked.data.get("request_id")))
        grace = context.config.duration("execution.cancel.grace")
        is_busy = registry.is_serving(job.job_id)
        if answers_late(first, grace, registry.now(), is_busy=is_busy):
            return first  # the driver will never answer it
        raise


def wait_result(context: Context, request: Request, timeout: float) -> Request:
    """Wait for a request's result; its progress goes to the reporter.

    ``context``: has the registry and the reporter. ``request``: as :func:`submit` returned it.

    Raises WaitTimeout after the timeout (the work continues), and the error of a failed request.
    """
    answered = wait_request(
        context.registry,
        request.request_id,
        timeout,
        on_progress=lambda state: context.reporter.progress(progress_of(state)),
    )
    return checked(answered)


def wait_cancel(context: Context, request: Request, timeout: float) -> Request:
    """Wait for a cancel without savepoint; end a driver that does not answer.

    A driver on this host is ended by signals, and one in cluster mode by its cluster. Parameters,
    results and errors are those of :func:`wait_result`, and the errors also those of
    :func:`.termination.kill_job`.
    """
    from flinkish.launch.termination import await_cancel

    answered = await_cancel(
        context.registry,
        request,
        grace=context.config.duration("execution.cancel.grace"),
        timeout=timeout,
        on_progress=lambda state: context.reporter.progress(progress_of(state)),
    )
    return checked(answered)


def wait_end(context: Context, request: Request, timeout: float) -> JobRecord:
    """Wait until the job of a completed stop or cancel is final.

    The time limit is ``timeout`` seconds, but at least as long as the program may run after its job
    was stopped (``execution.shutdown.grace``).

    Raises WaitTimeout if the job has not ended.
    """
    grace = context.config.duration("execution.shutdown.grace") + _END_SLACK
    return wait_job(
        context.registry, request.job_id, lambda job: job.state.is_final, max(timeout, grace)
    )


def wait_cancel_end(context: Context, request: Request, timeout: float) -> JobRecord:
    """Wait until the job of a completed cancel is final; end its processes if it does not end.

    Only processes on this host, and drivers in cluster mode, are ended. Parameters and errors are
    those of :func:`wait_end`, and the errors also those of :func:`.termination.kill_job`.
    """
    from flinkish.launch.termination import can_kill, kill_job

    try:
        return wait_end(context, request, timeout)
    except WaitTimeout:
        job = context.registry.job(request.job_id)
        if not can_kill(job):
            raise
        return kill_job(context.registry, job, request.request_id)


def cancel(context: Context, job: JobRecord, timeout: float) -> JobRecord:
    """Cancel a job without a savepoint, as a step of a use case, and wait for its end."""
    deadline = time.monotonic() + timeout
    canceled = wait_cancel(context, submit_cancel(context, job), timeout)
    return wait_cancel_end(context, canceled, deadline - time.monotonic())


def checked(request: Request) -> Request:
    """Return the request; if it failed, raise its error."""
    if request.state is RequestState.FAILED:
        raise failure_of(request)
    return request


def failure_of(request: Request) -> FlinkishError:
    """Return the error of a failed request."""
    error = from_record(request.error or {})
    error.data.setdefault("request_id", request.request_id)
    error.data.setdefault("job_id", request.job_id)
    return error


def progress_of(request: Request) -> Progress:
    """Return a request's progress, as its driver reported it."""
    facts = dict(request.progress or {})
    counts = {name: facts.get(name) for name in Progress.__dataclass_fields__ if name != "phase"}
    return Progress(phase=str(facts.get("phase") or _PHASES[request.state]), **counts)


#: The warning about a savepoint of a program that may still be starting queries.
INCOMPLETE = (
    "the program may not have started all its queries yet: later ones are not in the "
    "savepoint, and a restore needs consent (-n) to start them empty"
)


@dataclass(frozen=True)
class Removal:
    """The old savepoints that were removed after a new one was taken.

    ``removed``: locations of the savepoints that are gone. ``error``: why some of the savepoints to
    be removed are still there. ``warnings``: sentences about damaged or unreadable savepoints of
    the jobs with new savepoints, and about savepoints with times in the future.
    """

    removed: tuple[str, ...] = ()
    error: FlinkishError | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The outcome of a savepoint, a stop or a cancel.

    ``job_id``: the job; for checkpoints without a job the id recorded in their savepoint.
    ``target``: the directory of savepoints; None for a cancel without a savepoint. ``request_id``:
    the request in the job's history; None for a dry run, and for checkpoints without a job.
    ``state``: COMPLETED; PENDING if its result was not waited for; None for a dry run.
    ``job_state``: the job's state afterwards; None if it was not waited for, or there is no job.
    ``result``: the request's result; None if it was not waited for, or for a dry run. ``removal``:
    the old savepoints that the retention policy did not keep.
    """

    job_id: str
    kind: RequestKind
    target: str | None
    request_id: str | None = None
    state: RequestState | None = None
    job_state: JobState | None = None
    result: RequestResult | None = None
    removal: Removal = Removal()

    @classmethod
    def of(cls, request: Request, job: JobRecord | None = None) -> Outcome:
        """Return the outcome of a request so far; ``job`` is the job's record afterwards."""
        return cls(
            job_id=request.job_id,
            kind=request.kind,
            target=request.arguments.target,
            request_id=request.request_id,
            state=request.state,
            job_state=None if job is None else job.state,
            result=request.result,
        )

    @property
    def savepoint(self) -> SavepointSummary | None:
        """The new savepoint, if there is one."""
        return None if self.result is None else self.result.savepoint

    @property
    def left_out(self) -> Sequence[LeftOut]:
        """The queries that are not in the savepoint."""
        return () if self.result is None else self.result.left_out


def warnings_of(result: RequestResult | None) -> list[str]:
    """Return sentences about what a request's savepoint lacks. Pure."""
    if result is None:
        return []
    missing = [
        f"query '{each.query}' is not in the savepoint: {each.reason}" for each in result.left_out
    ]
    return missing if result.complete else [*missing, INCOMPLETE]


def reported(reporter: Reporter, outcome: Outcome) -> Outcome:
    """Warn about what the savepoint of an outcome lacks, and return the outcome."""
    for warning in warnings_of(outcome.result):
        reporter.warning(warning)
    return outcome
