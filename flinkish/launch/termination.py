"""The end of a job's processes: waited for, or forced when its driver does not answer."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from flinkish.errors import LaunchFailed, WaitTimeout, WrongState
from flinkish.launch import job_logs, spark_submit
from flinkish.launch.deploy_mode import is_cluster_mode, kill_command
from flinkish.launch.restart_strategy import name_of
from flinkish.messages.requests import RequestResult
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import (
    JobRecord,
    JobState,
    ProcessRef,
    Request,
    RequestKind,
    RequestState,
)
from flinkish.registry.liveness import is_alive, is_stopped
from flinkish.registry.waiting import wait_request

#: Seconds that a driver that has claimed a plain cancel gets beyond twice its grace period.
_ANSWER_SLACK = 20.0
#: Seconds after SIGTERM in which the processes should end, and after the SIGKILL that follows.
_TERM_PATIENCE = 15.0
_KILL_PATIENCE = 5.0
#: Seconds that a cluster manager gets to take a command.
_CLUSTER_PATIENCE = 120.0
#: Seconds between two checks whether the driver answers.
_LOOK = 0.5
#: Seconds that the processes of an ended job get to end, and between two looks for them.
_GONE_PATIENCE = 30.0
_POLL = 0.1


def answers_late(request: Request, grace: float, now: float, *, is_busy: bool) -> bool:
    """Return whether a driver should have reacted to a request to end its job by now. Pure.

    A driver that is busy with another request is alive and will process this one later. ``grace``
    is ``execution.cancel.grace`` in seconds; ``now`` is in seconds since the epoch by the
    registry's clock.
    """
    if request.state.is_final:
        return False
    if request.state is RequestState.PENDING:
        return not is_busy and now - request.created > grace
    if request.kind is not RequestKind.CANCEL or request.savepoint is not None:
        return False
    started = request.started if request.started is not None else request.created
    return now - started > 2 * grace + _ANSWER_SLACK


def await_cancel(
    registry: Registry,
    request: Request,
    *,
    grace: float,
    timeout: float,
    on_progress: Callable[[Request], Any] | None = None,
) -> Request:
    """Wait for a plain cancel, and return the request; kill the job if its driver does not answer.

    ``grace`` (``execution.cancel.grace``) and ``timeout`` are seconds. Raises WaitTimeout, and
    what :func:`kill_job` and :func:`~flinkish.registry.waiting.wait_request` raise.
    """
    deadline = time.monotonic() + timeout
    while True:
        left = deadline - time.monotonic()
        try:
            return wait_request(
                registry, request.request_id, min(left, _LOOK), on_progress=on_progress
            )
        except WaitTimeout:
            current = registry.request(request.request_id)
            is_busy = registry.is_serving(request.job_id)
            if answers_late(current, grace, registry.now(), is_busy=is_busy):
                job = registry.job(request.job_id)
                if can_kill(job):
                    kill_job(registry, job, request.request_id)
                    continue
            if left <= _LOOK:
                raise WaitTimeout(
                    f"no answer to the cancel request {request.request_id} within "
                    f"{timeout:.15g} s; the request continues",
                    hint=f"follow it with: flinkish request wait {request.request_id}",
                    request_id=request.request_id,
                ) from None


def can_kill(job: JobRecord) -> bool:
    """Return whether a process of the job runs on this host, or its cluster can end it."""
    if application_of(job) is not None:
        return not job.state.is_final
    return any(ref is not None and is_alive(ref) for ref in (job.supervisor, job.driver))


def application_of(job: JobRecord) -> str | None:
    """Return the cluster's id of a job's running application in cluster mode; None without one."""
    if not is_cluster_mode(job.launch):
        return None
    submission = job_logs.submission_in(job.log_path)
    if submission is not None and not submission.has_ended:
        return submission.application
    return None


def _check_known(job: JobRecord) -> None:
    """Raise LaunchFailed if the log does not name the application of a driver on the cluster.

    Such a driver would continue to write after the processes of this host were ended.
    """
    if not is_cluster_mode(job.launch) or job.driver is None or is_alive(job.driver) is False:
        return
    if job_logs.submission_in(job.log_path) is None:
        raise LaunchFailed(
            f"job {job.name} ({job.job_id}) cannot be ended: its driver on {job.driver.host} does "
            "not answer, and the job's log does not name its application",
            hint="end the application with the tools of its cluster",
        )


def kill_job(
    registry: Registry,
    job: JobRecord,
    request_id: str,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> JobRecord:
    """End the processes of ``job``, record it as CANCELED, and return its final record.

    Sends SIGTERM to the supervisor (which ends the driver's process group and records the end), or
    to the group if the supervisor is gone, then SIGKILL to the group. In cluster mode the cluster
    manager is asked to end the application. If another launcher started the job, only the driver's
    process is signaled. The cancel request is completed with the stop method ``kill`` once the
    processes were told to end. Requires that :func:`can_kill` is True for the job.

    Raises WaitTimeout if the processes survive SIGKILL; LaunchFailed if the cluster manager
    cannot be asked or does not end the application, or the application's id is not known; and
    WrongState, before anything is changed, if a process belongs to another user or the job has
    ended by now.
    """
    _check_known(job)
    application = application_of(job)
    if application is None:
        _check_permitted(job)
    registry.transition(job.job_id, JobState.CANCELLING, "its driver does not answer: ending it")
    result = RequestResult(stop_method="kill")
    if application is not None:
        _kill_application(job, application)
        registry.complete(request_id, result)
        final = registry.job(job.job_id)
        if not final.state.is_final:
            final = registry.transition(job.job_id, JobState.CANCELED, "its cluster has ended it")
        return final
    if job.launch.external is not None:
        registry.complete(request_id, result)
        return _kill_attached(registry, job, sleep)
    group = _group(job.driver)
    if job.supervisor is not None and is_alive(job.supervisor):
        with suppress(ProcessLookupError):
            os.kill(job.supervisor.pid, signal.SIGTERM)
    elif group is not None:
        _kill_group(group, signal.SIGTERM)
    registry.complete(request_id, result)
    if not _gone(registry, job.job_id, _TERM_PATIENCE, sleep):
        if group is not None:
            _kill_group(group, signal.SIGKILL)
        if not _gone(registry, job.job_id, _KILL_PATIENCE, sleep):
            raise WaitTimeout(
                f"the processes of job {job.name} ({job.job_id}) survive SIGKILL",
                hint="they may be blocked on storage: see their state with ps",
            )
    final = registry.job(job.job_id)
    if not final.state.is_final:
        final = registry.transition(job.job_id, JobState.CANCELED, "its processes were ended")
    return final


def _check_permitted(job: JobRecord) -> None:
    """Raise WrongState if a process of the job belongs to another user."""
    for ref in (job.supervisor, job.driver):
        if ref is None or not is_alive(ref):
            continue
        try:
            os.kill(ref.pid, 0)
        except ProcessLookupError:
            continue
        except PermissionError as error:
            raise WrongState(
                f"the driver of job {job.name} ({job.job_id}) does not answer, and its process "
                f"{ref.pid} belongs to another user",
                hint="cancel the job as that user",
                job_id=job.job_id,
                state=job.state.value,
            ) from error


def _kill_attached(registry: Registry, job: JobRecord, sleep: Callable[[float], None]) -> JobRecord:
    """End the driver of a job that another launcher has started.

    Only the driver's process is signaled: its process group may be that of the launcher.
    """
    driver = job.driver
    for number, patience in ((signal.SIGTERM, _TERM_PATIENCE), (signal.SIGKILL, _KILL_PATIENCE)):
        if driver is not None and is_alive(driver):
            with suppress(ProcessLookupError):
                os.kill(driver.pid, number)
        if _gone(registry, job.job_id, patience, sleep):
            final = registry.job(job.job_id)
            if not final.state.is_final:
                final = registry.transition(job.job_id, JobState.CANCELED, "its driver was ended")
            return final
    raise WaitTimeout(
        f"the driver of job {job.name} ({job.job_id}) survives SIGKILL",
        hint="it may be blocked on storage: see its state with ps",
    )


def _kill_application(job: JobRecord, application: str) -> None:
    """Make the cluster manager end a job's application. Raises LaunchFailed."""
    import shlex
    import subprocess

    installation = spark_submit.resolve(job.launch, os.environ)
    command = kill_command(job.launch, installation.spark_home, application)
    environment = {**os.environ, "SPARK_HOME": installation.spark_home}
    try:
        process = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_CLUSTER_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchFailed(
            f"the cluster manager could not be asked to end {application}: {error}",
            hint=f"end it with: {shlex.join(command)}",
        ) from error
    if process.returncode != 0:
        lines = process.stdout.decode("utf-8", "replace").strip().splitlines() or ["no output"]
        raise LaunchFailed(
            f"the cluster manager did not end {application}: {lines[-1]}",
            hint=f"end it with: {shlex.join(command)}",
        )


def _group(ref: ProcessRef | None) -> int | None:
    """Return the process group of a live process of this host, never this process's own."""
    if ref is None or not is_alive(ref):
        return None
    try:
        group = os.getpgid(ref.pid)
    except ProcessLookupError:
        return None
    # To killpg, 0 (the group of a process of another pid namespace) means the caller's own group.
    return None if group <= 1 or group == os.getpgid(0) else group


def _kill_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


def _gone(registry: Registry, job_id: str, patience: float, sleep: Callable[[float], None]) -> bool:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        job = registry.job(job_id)
        if job.state.is_final or not can_kill(job):
            return True
        sleep(0.05)
    return False


def wait_until_gone(registry: Registry, job: JobRecord, patience: float = _GONE_PATIENCE) -> None:
    """Wait until an ended job has no process left: a driver records its end before it exits.

    ``patience`` is in seconds. Raises WrongState if the job was restarted meanwhile, or one of its
    processes does not end.
    """
    deadline = time.monotonic() + patience
    while True:
        now = registry.job(job.job_id)
        if (now.state, now.end_time) != (job.state, job.end_time):
            raise WrongState(
                f"job {now.name} ({now.job_id}) is {now.state.value} by now: it was started again",
                hint=f"see what runs with: flinkish status {now.job_id}",
                job_id=now.job_id,
                state=now.state.value,
            )
        alive = [ref for ref in (now.supervisor, now.driver) if ref is not None and is_alive(ref)]
        if not alive:
            return
        if time.monotonic() >= deadline:
            raise _held(now, alive[0])
        time.sleep(_POLL)


def _held(job: JobRecord, ref: ProcessRef) -> WrongState:
    """Return the error for an ended job that has a process that does not end."""
    who = f"job {job.name} ({job.job_id}) has ended, and"
    hint = f"follow it with: flinkish status {job.job_id}"
    if ref != job.supervisor:
        text = f"{who} its driver, process {ref.pid}, has not"
        hint = "try again when the process is gone, or end it"
    elif is_stopped(ref):
        text = (
            f"{who} its supervisor, process {ref.pid}, is stopped by a signal: when it "
            "continues, it decides whether the job is started again"
        )
        hint = f"resume it with: kill -CONT {ref.pid}; or start the program from a savepoint"
    else:
        text = (
            f"{who} its supervisor, process {ref.pid}, still runs: it decides whether the job is "
            f"started again (restart strategy {name_of(job.launch)})"
        )
    return WrongState(text, hint=hint, job_id=job.job_id, state=job.state.value)
