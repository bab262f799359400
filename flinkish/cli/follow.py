"""Waiting for a launched job: until it runs (``run -d``), or to its end with its log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from flinkish.cli.arguments import interruptible, requester
from flinkish.cli.output import Output, copy_log
from flinkish.cli.session import Interrupted, Session
from flinkish.errors import FlinkishError, WaitTimeout, WrongState, from_record
from flinkish.jobs.liveness import reconcile
from flinkish.jobs.logs import Follower
from flinkish.jobs.model import Job, JobState, RequestKind

_POLL = 0.1
#: States from which on a job has started, or never will.
_STARTING = (JobState.INITIALIZING, JobState.CREATED)
#: Seconds the supervisor gets to add what it knows of a dead driver.
_REASON_PATIENCE = 3.0


def wait_until_started(session: Session, job: Job) -> Job:
    """Wait until ``job`` runs, or has finished (a batch program); raises its error when it failed.

    Without limit, as a first start may have much to fetch; ``client.timeout`` counts where it was
    set on purpose.
    """
    setting = session.config.setting("client.timeout")
    timeout = None if setting.origin == "default" else session.config.duration("client.timeout")
    deadline = None if timeout is None else time.monotonic() + timeout
    message = f"stopped waiting; job {job.job_id} goes on starting"
    with interruptible(message, f"flinkish status {job.job_id}"):
        while True:
            current = _look(session, job)
            if current.state not in _STARTING:
                break
            if deadline is not None and time.monotonic() >= deadline:
                raise WaitTimeout(
                    f"job {job.name} ({job.job_id}) is still {current.state.value} after "
                    f"{timeout:g} s; it goes on",
                    hint=f"follow it with: flinkish status {job.job_id}",
                    job_id=job.job_id,
                    state=current.state.value,
                )
            time.sleep(_POLL)
    return _not_canceled(_not_failed(session, current))


def follow_to_the_end(
    session: Session,
    job: Job,
    show_submitted: Callable[[Output, Job], int],
    *,
    cancel_on_exit: bool,
) -> int:
    """Show the job's log on stderr until it ends; returns 0 when it FINISHED.

    A failed job raises its error; a canceled one too, as an attached ``flink run`` does.
    """
    out = session.out
    assert job.log_path is not None
    log = Follower(job.log_path)
    submitted = out.json  # one document only: at the end
    try:
        while True:
            current = _look(session, job)
            _copy(out, log.read())
            if not submitted and current.state not in (*_STARTING, JobState.FAILED):
                show_submitted(out, current)
                sys.stdout.flush()
                submitted = True
            if current.state.is_final:
                break
            time.sleep(_POLL)
    except (KeyboardInterrupt, Interrupted) as stop:
        raise _left(session, job, stop, cancel_on_exit=cancel_on_exit) from None
    finished = _not_failed(session, current)
    _copy(out, log.rest())
    _not_canceled(finished)
    if out.json:
        return show_submitted(out, finished)
    seconds = (finished.end_time or finished.start_time) - finished.start_time
    out.note("Program execution finished")
    out.note(f"Job with JobID {job.job_id} has finished.")
    out.note(f"Job Runtime: {seconds * 1000:.0f} ms")
    return 0


def _not_canceled(job: Job) -> Job:
    """The job; raises when it was canceled (a failure of the wait, as in Flink)."""
    if job.state is JobState.CANCELED:
        raise FlinkishError(
            f"job {job.name} ({job.job_id}) was canceled",
            hint="",
            job_id=job.job_id,
            state=job.state.value,
        )
    return job


def _look(session: Session, job: Job) -> Job:
    return reconcile(session.registry, [session.registry.job(job.job_id)])[0]


def _not_failed(session: Session, job: Job) -> Job:
    """The job; raises the error it failed with."""
    if job.state is not JobState.FAILED:
        return job
    # A reader's guess (driver-lost) gives way to what the supervisor knows, if it comes soon.
    deadline = time.monotonic() + _REASON_PATIENCE
    while (
        (job.failure or {}).get("id") == "driver-lost"
        and job.exit_status is None
        and time.monotonic() < deadline
    ):
        time.sleep(_POLL)
        job = session.registry.job(job.job_id)
    failure = dict(job.failure or {"message": f"job {job.name} failed"})
    tail = [str(line) for line in failure.get("tail") or ()]
    message = str(failure.get("message"))
    for line in tail:
        session.out.note(f"  {line}")
    error = from_record(
        {
            **failure,
            "message": f"job {job.name} ({job.job_id}) failed: {message}",
            "hint": (failure.get("hint") or "see its log with: flinkish logs JOB").replace(
                " JOB", f" {job.job_id}"
            ),
        }
    )
    error.data.update(job_id=job.job_id, state=job.state.value)
    raise error


def _copy(out: Output, text: str) -> None:
    if text and not (out.json or out.quiet):
        copy_log(text, sys.stderr)


def _left(
    session: Session, job: Job, stop: BaseException, *, cancel_on_exit: bool
) -> BaseException:
    """What to raise when the user stops following: the job goes on, or is being canceled."""
    code = stop.code if isinstance(stop, Interrupted) else 130
    if not cancel_on_exit:
        return Interrupted(
            code, f"stopped following; job {job.job_id} goes on", f"flinkish logs -f {job.job_id}"
        )
    try:
        request = session.registry.submit(job.job_id, RequestKind.CANCEL, {}, requester())
    except WrongState:
        return Interrupted(code, f"job {job.job_id} has ended")
    return Interrupted(
        code,
        f"canceling job {job.job_id} (-sae)",
        f"flinkish request wait {request.request_id}",
    )
