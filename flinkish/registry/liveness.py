"""Whether a job's process is still there: compare the registry with the processes of this host.

A killed driver writes nothing, and no daemon watches it. Every reader of a job (``list``,
``status``, a waiting client) therefore compares the registry with the processes of this host and
corrects the registry. For a driver on another host only the heartbeat can be judged.

A process is identified by its pid and its start time (``/proc/<pid>/stat`` field 22, proc(5)), so
a reused pid is not mistaken for the old process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from flinkish.config import parse_duration
from flinkish.errors import DriverLost, RegistryError, WrongState
from flinkish.messages.requests import RequestResult
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import ENDS, JobRecord, JobState, ProcessRef, may_follow

#: The least number of seconds without a heartbeat after which a driver on another host counts as
#: lost; see :func:`silence_limit`.
STALE = 30.0
#: The same until the driver has registered itself, because a cluster may take long to start it.
STALE_START = 600.0
#: The least number of seconds after the last heartbeat during which a dead driver does not count as
#: lost while its supervisor lives. The supervisor is about to record how the driver ended, which is
#: more precise. Until then a reader may show an outdated state.
SUPERVISOR_GRACE = 4.5
#: The same for a job whose supervisor will start its driver again; the job is shown as FAILING.
RESTART_GRACE = 60.0
#: Seconds after the next heartbeat was due during which such a driver does not count as lost,
#: however long the interval of the heartbeats is.
_MISSED = 2.5
#: Seconds allowed between the registration of a job and the start of its supervisor.
LAUNCH_GRACE = 60.0

_TAIL_BYTES = 16384
_TAIL_LINES = 20


def process_ref(pid: int | None = None) -> ProcessRef:
    """Return the process ``pid`` of this host (default: this process)."""
    number = os.getpid() if pid is None else pid
    stat = _stat(number)
    return ProcessRef(os.uname().nodename, number, stat[1] if stat else None)


def is_alive(ref: ProcessRef) -> bool | None:
    """Return True if the process runs, False if it is gone, None if it is on another host.

    A zombie (ended, not yet waited for by its parent) counts as gone. If its start time or its
    entry in /proc is missing, the pid alone decides.
    """
    if ref.host != os.uname().nodename:
        return None
    stat = _stat(ref.pid)
    if stat is not None:
        status, ticks = stat
        return status not in "ZX" and ref.start_ticks in (None, ticks)
    try:
        # No /proc, or one that hides the processes of other users (mount option hidepid).
        os.kill(ref.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def is_stopped(ref: ProcessRef) -> bool:
    """Return whether a process of this host exists and is stopped by a signal (SIGSTOP)."""
    if ref.host != os.uname().nodename:
        return False
    stat = _stat(ref.pid)
    return stat is not None and stat[0] in "Tt" and ref.start_ticks in (None, stat[1])


def loss_reason(
    job: JobRecord,
    alive_supervisor: bool | None,
    alive_driver: bool | None,
    heartbeat_age: float,
    *,
    restarts: bool = False,
) -> str | None:
    """Return why the job is lost, or None if it is not (or not yet). Pure.

    ``alive_supervisor`` and ``alive_driver`` are :func:`is_alive` of the processes, or None if
    there is no such process yet. ``heartbeat_age`` is :func:`silence`. ``restarts`` says that a
    living supervisor would restart the driver.
    """
    if job.state.is_final or alive_driver:
        return None
    if job.driver is not None and alive_driver is False:
        grace = RESTART_GRACE if restarts else SUPERVISOR_GRACE
        if alive_supervisor and heartbeat_age < max(grace, _interval(job) + _MISSED):
            return None
        return f"the driver process {job.driver.pid} on {job.driver.host} is gone"
    if alive_supervisor:
        return None
    if job.driver is not None:
        return _stale(job, job.driver.host, heartbeat_age)
    if job.supervisor is None:
        if heartbeat_age < LAUNCH_GRACE:
            return None
        return "its launch was interrupted: it never got a supervisor process"
    if alive_supervisor is None:
        return _stale(job, job.supervisor.host, heartbeat_age)
    return (
        f"the supervisor process {job.supervisor.pid} on {job.supervisor.host} ended "
        "before the driver had started"
    )


def _interval(job: JobRecord) -> float:
    """Return the seconds between the heartbeats of the job's driver; 0 if they are not recorded."""
    text = job.launch.options.get("execution.heartbeat.interval")
    return parse_duration(text) if text else 0.0


def _restarts(job: JobRecord) -> bool:
    """Return whether a supervisor starts the job's driver again when it has failed."""
    named = job.launch.options.get("restart-strategy.type") or "none"
    return named.lower() not in ("none", "off", "disable")


def silence_limit(job: JobRecord) -> float:
    """Return the seconds without a heartbeat after which a driver out of sight counts as lost.

    That is :data:`STALE`, or three heartbeat intervals of the job if they are longer. Until a
    driver has registered itself, it is :data:`STALE_START`: the job's heartbeat, if there is one,
    is then only the time of its restart.
    """
    if job.heartbeat is None or job.driver is None:
        return STALE_START
    return max(STALE, 3 * _interval(job))


def _stale(job: JobRecord, host: str, age: float) -> str | None:
    return f"no heartbeat from {host} for {age:.0f} s" if age > silence_limit(job) else None


def silence(registry: Registry, job: JobRecord, now: float) -> float:
    """Return the seconds since a job's last heartbeat, or since its start if it has none.

    The time before the registry's server was started does not count, because no driver could report
    while the server was down.
    """
    since = job.start_time if job.heartbeat is None else job.heartbeat
    return now - max(since, registry.up_since)


def reconcile(
    registry: Registry, jobs: Iterable[JobRecord], now: float | None = None
) -> list[JobRecord]:
    """Return the current records of jobs; a job that counts as lost becomes FAILED.

    If it was stopped or canceled before its driver died, or a plain cancel was to end it, it
    becomes FINISHED or CANCELED instead. A job whose supervisor is about to start a new driver is
    only shown as FAILING. A FAILED job gets a ``driver-lost`` failure with the end of its log,
    which a supervisor that knows the real failure may replace afterwards. The unfinished requests
    of a lost job fail, except for a plain cancel that is carried out. If the registry cannot be
    written, the jobs are only *shown* in their new states. ``now`` is in seconds since the epoch by
    the registry's clock.
    """
    moment = registry.now() if now is None else now
    return [_reconciled(registry, job, moment) for job in jobs]


def _reconciled(registry: Registry, job: JobRecord, now: float) -> JobRecord:
    if job.state.is_final:
        return job
    supervisor = is_alive(job.supervisor) if job.supervisor else None
    driver = is_alive(job.driver) if job.driver else None
    # A supervisor that is stopped by a signal restarts nothing.
    restarts = _restarts(job) and job.supervisor is not None and not is_stopped(job.supervisor)
    age = silence(registry, job, now)
    reason = loss_reason(job, supervisor, driver, age, restarts=restarts)
    if reason is None:
        is_failing = restarts and supervisor and driver is False and job.state is JobState.RUNNING
        return replace(job, state=JobState.FAILING) if is_failing else job
    tail = log_tail(job.log_path)
    lost = DriverLost(reason, tail=tail).to_record()
    ended_by = registry.ended_by(job.job_id)
    if ended_by is not None and may_follow(job.state, ENDS[ended_by]):
        state, failure = ENDS[ended_by], None
        reason = f"{reason}, after the {ended_by.value} was complete"
    elif job.state is JobState.CANCELLING or registry.plain_cancel(job.job_id) is not None:
        state, failure = JobState.CANCELED, None
    else:
        state, failure = JobState.FAILED, lost
    if tail and failure is not None:
        reason = f"{reason}; its log ends with: {tail[-1][:200]}"
    if not registry.read_only:
        try:
            if state is JobState.CANCELED and ended_by is None:
                canceled = carry_out_cancel(registry, job.job_id, reason, seen=job)
                return canceled or registry.job(job.job_id)
            return registry.transition(job.job_id, state, reason, failure=failure, seen=job)
        except WrongState:
            return registry.job(job.job_id)  # it ended properly or was restarted after it was read
        except RegistryError:
            pass  # readable but not writable: show the failure; the next reader may write it
    return replace(job, state=state, end_time=now, failure=failure)


def carry_out_cancel(
    registry: Registry,
    job_id: str,
    reason: str,
    *,
    seen: JobRecord | None = None,
    exit_status: int | None = None,
) -> JobRecord | None:
    """Cancel a job without a driver if a plain cancel asks for it or has begun, and return the job.

    ``seen`` and ``exit_status`` are arguments of :meth:`.Registry.transition`. After a
    RegistryError it may be called again. Raises WrongState if the job has changed meanwhile.
    """
    request_id = registry.plain_cancel(job_id)
    state = registry.job(job_id).state
    if state.is_final or (request_id is None and state is not JobState.CANCELLING):
        return None
    registry.transition(job_id, JobState.CANCELLING, "cancel requested", seen=seen)
    # The cancel first: the end of the job fails what is unfinished.
    if request_id is not None:
        registry.complete(request_id, RequestResult(stop_method="kill"))
    ended = WrongState("the job was canceled before it served the request")
    registry.abandon(job_id, ended.to_record())
    return registry.transition(job_id, JobState.CANCELED, reason, exit_status=exit_status)


def log_tail(path: str | None, lines: int = _TAIL_LINES) -> list[str]:
    """Return the last lines of a log that are not Spark's; empty when it cannot be read."""
    if not path:
        return []
    from flinkish.log_lines import own_lines  # only for dead jobs: `list` starts without it

    try:
        with open(path, "rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - _TAIL_BYTES))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return []
    return own_lines(text)[-lines:]


def _stat(pid: int) -> tuple[str, int] | None:
    """Return a process's state letter and start time from /proc; None without an entry."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            text = stream.read()
    except OSError:
        return None
    # The second field is the command in parentheses, which may contain blanks and parentheses.
    fields = text[text.rindex(b")") + 2 :].split()
    return fields[0].decode(), int(fields[19])
