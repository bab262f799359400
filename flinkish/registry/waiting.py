"""Wait for a request's result or for a job's state, without waiting for dead processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from flinkish.errors import DriverLost, FlinkishError, WaitTimeout, WrongState, from_record
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, Request, RequestState
from flinkish.registry.liveness import reconcile

#: Seconds between two checks of the job's processes.
_LIVENESS_INTERVAL = 0.5
#: Seconds that a driver may still take to write a request's result after its job has ended.
_ORPHAN_GRACE = 3.0


def wait_request(
    registry: Registry,
    request_id: str,
    timeout: float | None,
    poll: float = 0.05,
    on_progress: Callable[[Request], Any] | None = None,
) -> Request:
    """Wait until a request is COMPLETED or FAILED, and return it in either case.

    If the job ends first, its request fails, because no process would ever finish it. ``timeout``
    is in seconds: None waits without limit, 0 checks once. ``on_progress`` is called first with the
    request as it is, then whenever its state or progress changes.

    Raises WaitTimeout (the work continues) and RequestNotFound. If the job has ended and the
    registry is read-only, raises the job's failure; if none is recorded, DriverLost for a FAILED
    job, else WrongState.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    reported: tuple[Any, ...] | None = None
    next_look = ended = 0.0
    while True:
        request = registry.request(request_id)
        if on_progress is not None and reported != (request.state, request.progress):
            reported = (request.state, request.progress)
            on_progress(request)
        if request.state.is_final:
            return request
        now = time.monotonic()
        if now >= next_look:
            next_look = now + _LIVENESS_INTERVAL
            job = reconcile(registry, [registry.job(request.job_id)])[0]
            if job.state.is_final:
                ended = ended or now
                if now - ended >= _ORPHAN_GRACE:
                    _give_up(registry, job)
                    next_look = 0.0
                    continue
        if deadline is not None and now >= deadline:
            raise WaitTimeout(
                f"no result of the {request.kind.value} request {request.request_id} "
                f"within {timeout:.15g} s ({_standing(registry, request)}); the work "
                "continues",
                hint=f"follow it with: flinkish request wait {request.request_id}",
                request_id=request.request_id,
                job_id=request.job_id,
                state=request.state.value,
            )
        _pause(poll, deadline)


def wait_job(
    registry: Registry,
    job_id: str,
    until: Callable[[JobRecord], bool],
    timeout: float | None,
    poll: float = 0.05,
) -> JobRecord:
    """Wait until ``until`` returns True for the job, and return the job.

    ``timeout`` and ``poll`` are seconds, as in :func:`wait_request`. Raises WaitTimeout and
    JobNotFound. If the job has ended and ``until`` is not True, raises the job's failure; if none
    is recorded, DriverLost for a FAILED job, else WrongState.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    next_look = 0.0
    while True:
        job = registry.job(job_id)
        now = time.monotonic()
        if now >= next_look:
            next_look = now + _LIVENESS_INTERVAL
            job = reconcile(registry, [job])[0]
        if until(job):
            return job
        if job.state.is_final:
            raise _ending(job)
        if deadline is not None and now >= deadline:
            raise WaitTimeout(
                f"job {job.name} ({job.job_id}) is still {job.state.value} after "
                f"{timeout:.15g} s; it continues",
                hint=f"follow it with: flinkish status {job.job_id}",
                job_id=job.job_id,
                state=job.state.value,
            )
        _pause(poll, deadline)


def _standing(registry: Registry, request: Request) -> str:
    """Return how far a request has come, for the message of a client that stops waiting."""
    state = request.state.value
    if request.state is RequestState.PENDING:
        return f"{state}, its job is {registry.job(request.job_id).state.value}"
    phase = (request.progress or {}).get("phase")
    return f"{state}, {phase}" if phase else state


def _give_up(registry: Registry, job: JobRecord) -> None:
    """Fail the unfinished requests of an ended job; if the registry is read-only, raise instead."""
    error = _ending(job)
    if registry.read_only:
        raise error
    registry.abandon(job.job_id, error.to_record())


def _ending(job: JobRecord) -> FlinkishError:
    if job.failure:
        return from_record(job.failure)
    if job.state.value == "FAILED":
        return DriverLost(f"job {job.name} ({job.job_id}) failed")
    return WrongState(
        f"job {job.name} ({job.job_id}) is {job.state.value}",
        job_id=job.job_id,
        state=job.state.value,
    )


def _pause(poll: float, deadline: float | None) -> None:
    left = poll if deadline is None else min(poll, deadline - time.monotonic())
    time.sleep(max(left, 0.001))
