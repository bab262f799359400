"""Take a savepoint of a job, stop it, or cancel it; each function returns the outcome."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from flinkish.client import requests
from flinkish.client.context import Context, interruptible
from flinkish.client.pruning import with_removal
from flinkish.client.reporter import Progress
from flinkish.client.requests import Outcome, reported
from flinkish.errors import (
    FlinkishError,
    JobNotFound,
    UsageError,
    WrongState,
    quoted,
    quoted_path,
)
from flinkish.registry.jobs import JobRecord, JobState, Request, RequestKind, RequestState

if TYPE_CHECKING:
    from flinkish.savepoint.manage.retention import Policy


def job_to_save(context: Context, reference: str, target: str | None) -> JobRecord:
    """Return the job of ``savepoint REFERENCE TARGET``; UsageError if the two are swapped."""
    try:
        return context.find_job(reference)
    except (JobNotFound, UsageError):
        if target is None or "/" not in reference:
            raise
        try:
            job = context.find_job(target)
        except FlinkishError:
            job = None
        if job is None:
            raise
        raise UsageError(
            f"{target!r} is a job, {reference!r} is not: name the job first, then the directory",
            hint=f"flinkish savepoint {quoted(target)} {quoted_path(reference)}",
        ) from None


def save_job(
    context: Context,
    job: JobRecord,
    target: str | None,
    *,
    full: bool = False,
    format_: str = "native",
    batch: int | str | None = None,
    keep: Policy | None = None,
    timeout: float | None = None,
    detached: bool = False,
    dry_run: bool = False,
    on_taken: Callable[[Outcome], object] = lambda _outcome: None,
) -> Outcome:
    """Take a savepoint of a job, which continues; for a dead job, of the checkpoints that it left.

    ``target``: the directory of savepoints. Default: ``execution.checkpointing.savepoint-dir``.
    ``batch``: the committed batch of a dead job, as for :func:`.offline.save_checkpoints`.
    ``keep``: which of the job's savepoints stay in ``target``. Default: all. ``timeout``: seconds
    to wait for a driver's answer. Default: ``client.timeout``. ``detached``: return once the
    request is recorded. ``dry_run``: only check that the savepoint can be requested or taken.
    ``on_taken``: called with the outcome before old savepoints are removed.

    Raises UsageError for a dead job with ``detached``, or a running one with ``batch``; WaitTimeout
    if the savepoint takes too long (the work continues); FlinkishError if it fails.
    """
    directory = requests.savepoint_target(context, target, job)
    if job.state.is_final:
        from flinkish.client.offline import save_dead_job

        if detached:
            raise UsageError(
                f"job {job.name} ({job.job_id}) is {job.state.value}: the command itself "
                "saves its checkpoint, so it cannot be -detached",
                hint="omit -detached",
            )
        outcome = save_dead_job(
            context, job, directory, full=full, format_=format_, dry_run=dry_run, batch=batch
        )
        return with_removal(context, outcome, keep, on_taken)
    if batch is not None:
        raise UsageError(
            f"job {job.name} ({job.job_id}) is {job.state.value}: its driver takes savepoints at "
            "the newest batch",
            hint="omit --batch",
        )
    if dry_run:
        return _dry_run(job, RequestKind.SAVEPOINT, directory)
    seconds = context.timeout(timeout)
    context.reporter.note(f"Triggering savepoint for job {job.job_id}.")
    request = requests.submit(
        context, job, RequestKind.SAVEPOINT, directory, full=full, format_=format_
    )
    if detached:
        return Outcome.of(request)
    context.reporter.note("Waiting for response...")
    completed = _answered(context, request, seconds)
    outcome = reported(context.reporter, Outcome.of(completed, context.registry.job(job.job_id)))
    return with_removal(context, outcome, keep, on_taken)


def stop(
    context: Context,
    job: JobRecord,
    target: str | None,
    *,
    format_: str = "native",
    drain: bool = False,
    timeout: float | None = None,
    detached: bool = False,
    dry_run: bool = False,
) -> Outcome:
    """Stop a job with a savepoint and wait until it has ended; see :func:`save_job`.

    With ``drain`` the job first emits the rows that wait for the watermark.

    Raises WrongState if the job has ended already, and Locked if it is being stopped or canceled.
    """
    directory = requests.savepoint_target(context, target, job)
    if dry_run:
        return _dry_run(job, RequestKind.STOP, directory)
    seconds = context.timeout(timeout)
    doing = "Draining" if drain else "Suspending"
    context.reporter.note(f'{doing} job "{job.job_id}" with a {format_.upper()} savepoint.')
    context.reporter.note(f"Triggering stop-with-savepoint for job {job.job_id}.")
    request = requests.submit(
        context, job, RequestKind.STOP, directory, format_=format_, drain=drain
    )
    if detached:
        return Outcome.of(request)
    context.reporter.note("Waiting for response...")
    return _ended(context, request, seconds)


def earlier_stop(context: Context, job: JobRecord) -> Request | None:
    """Return the request that stopped or stops a job; None without one, or if the job ran since."""
    from flinkish.client.restarts import has_run_since

    for request in reversed(context.registry.requests(job.job_id)):
        if request.kind is RequestKind.STOP and request.state is not RequestState.FAILED:
            is_over = request.state.is_final and has_run_since(context.registry, request)
            return None if is_over else request
    return None


def cancel(
    context: Context,
    job: JobRecord,
    *,
    acknowledge: bool = False,
    timeout: float | None = None,
    detached: bool = False,
    dry_run: bool = False,
) -> Outcome:
    """Cancel a job without a savepoint and wait until it has ended; see :func:`save_job`.

    A silent driver is ended: on this host by signals, in cluster mode by its cluster. With
    ``acknowledge`` the failure of a failed job is acknowledged; cancelling it is still an error.
    """
    if dry_run:
        return _dry_run(job, RequestKind.CANCEL, None)
    seconds = context.timeout(timeout)
    context.reporter.note(f"Cancelling job {job.job_id}.")
    if acknowledge and job.state is JobState.FAILED and context.registry.acknowledge([job.job_id]):
        context.reporter.note(f"Job {job.job_id} has failed; its failure is now acknowledged.")
    request = requests.submit_cancel(context, job)
    return Outcome.of(request) if detached else _ended(context, request, seconds)


def cancel_with_savepoint(
    context: Context,
    job: JobRecord,
    target: str | None,
    *,
    format_: str = "native",
    timeout: float | None = None,
    detached: bool = False,
    dry_run: bool = False,
) -> Outcome:
    """Take a savepoint, then cancel the job; as :func:`stop`, but the job becomes CANCELED."""
    directory = requests.savepoint_target(context, target, job)
    if dry_run:
        return _dry_run(job, RequestKind.CANCEL, directory)
    seconds = context.timeout(timeout)
    context.reporter.note(f"Cancelling job {job.job_id} with a savepoint.")
    request = requests.submit(context, job, RequestKind.CANCEL, directory, format_=format_)
    if detached:
        return Outcome.of(request)
    context.reporter.note("Waiting for response...")
    return _ended(context, request, seconds)


def wait_for_request(context: Context, request: Request, timeout: float | None = None) -> Outcome:
    """Wait for the result of a request that was submitted earlier; no process is killed.

    ``timeout`` (seconds) applies to the result, and again to the end of a job that is being ended.
    """
    seconds = context.timeout(timeout)
    completed = _answered(context, request, seconds)
    if completed.kind is RequestKind.SAVEPOINT:
        job = context.registry.job(completed.job_id)
    else:
        job = _end_of(context, completed, seconds, requests.wait_end)
    return reported(context.reporter, Outcome.of(completed, job))


def _answered(
    context: Context,
    request: Request,
    timeout: float,
    wait: Callable[[Context, Request, float], Request] = requests.wait_result,
) -> Request:
    """Wait for a request's result; if interrupted, say that the work continues."""
    with interruptible(
        f"stopped waiting; the {request.kind.value} of job {request.job_id} continues",
        f"flinkish request wait {request.request_id}",
    ):
        return wait(context, request, timeout)


def _end_of(
    context: Context,
    request: Request,
    timeout: float,
    wait: Callable[[Context, Request, float], JobRecord],
) -> JobRecord:
    """Wait for the end of the job of a completed request."""
    context.reporter.progress(Progress("Waiting for the job to end"))
    with interruptible(
        f"stopped waiting; job {request.job_id} is ending", f"flinkish status {request.job_id}"
    ):
        return wait(context, request, timeout)


def _ended(context: Context, request: Request, timeout: float) -> Outcome:
    """Wait for the result of a stop or a cancel, then for the end of its job."""
    deadline = time.monotonic() + timeout
    is_plain = request.savepoint is None
    completed = _answered(
        context,
        request,
        timeout,
        requests.wait_cancel if is_plain else requests.wait_result,
    )
    is_cancel = request.kind is RequestKind.CANCEL
    job = _end_of(
        context,
        completed,
        deadline - time.monotonic(),
        requests.wait_cancel_end if is_cancel else requests.wait_end,
    )
    if is_cancel:  # killing the job may have completed the request
        completed = context.registry.request(request.request_id)
    return reported(context.reporter, Outcome.of(completed, job))


def _dry_run(job: JobRecord, kind: RequestKind, target: str | None) -> Outcome:
    """Return the outcome of a dry run; raise WrongState if :func:`.requests.submit` would."""
    if job.state.is_final:
        raise WrongState(
            f"cannot {kind.value} job {job.name} ({job.job_id}): it has already reached "
            f"the terminal state {job.state.value}",
            hint=f"save its checkpoint with: flinkish savepoint {job.job_id} TARGET"
            if target
            else "see what is running with: flinkish list",
        )
    return Outcome(job_id=job.job_id, kind=kind, target=target)
