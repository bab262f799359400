"""The small process that starts a job's driver, waits for it, and records how it ended.

It is run like ``python -m flinkish.launch.supervisor JOB_ID``, with ``FLINKISH_REGISTRY`` set and
standard output and error going to the job's log. It has a session of its own, so it outlives the
terminal. The driver (``spark-submit``, its JVM, its Python) runs in a second session, which is one
process group to signal. Nothing stays open during the wait: the registry is opened to read the
launch and opened again when the driver has ended (and whenever the notifier looks).

The driver normally records its own end. The supervisor records it when the driver could not
(killed, crashed, never started), and starts the driver again if the job's restart strategy asks for
it. The job's states are then RUNNING, FAILING, RESTARTING, CREATED, RUNNING, as in Flink.
"""

from __future__ import annotations

import math
import os
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from flinkish.errors import (
    DriverLost,
    FlinkishError,
    ProgramFailed,
    RegistryError,
    Superseded,
    WrongState,
)
from flinkish.launch import job_logs, secret_settings
from flinkish.launch.driver_process import DriverProcess, end_of, explained, how_it_ended
from flinkish.launch.notifier import Addressees, Notifier
from flinkish.launch.restart_strategy import is_undecided, may_restart, strategy_of
from flinkish.messages.launch import Secrets
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import ENDS, JobRecord, JobState, may_follow
from flinkish.registry.liveness import carry_out_cancel, process_ref, silence, silence_limit
from flinkish.registry.statements import is_guess

_T = TypeVar("_T")

#: Seconds to wait, after the first start of a driver, for a registry that is unavailable (its
#: server is being restarted, for example).
REGISTRY_PATIENCE = 300.0
#: Seconds between two looks for a cancel while a job waits to be started again.
_LOOK = 0.5
#: Seconds between two checks of a driver on the cluster whose submission has ended.
_REMOTE_LOOK = 2.0
#: If two such checks are more than this many seconds apart, the registry was unavailable meanwhile.
_GAP = 10.0


def main(argv: Sequence[str]) -> int:
    """Run one job; return 0 if its driver ended with status 0 or never started, else 1."""
    job_id = argv[0]
    secrets = secret_settings.take(os.environ)
    url = os.environ["FLINKISH_REGISTRY"]
    notifier = Notifier(url, job_id, Addressees.take(os.environ))
    notifier.start()
    try:
        return _supervise(job_id, url, secrets)
    finally:
        notifier.finish()


def _supervise(job_id: str, url: str, secrets: Secrets) -> int:
    failures: list[float] = []
    driver = DriverProcess()
    while True:
        if not _start(driver, job_id, url, secrets, is_restart=bool(failures)):
            return 1 if failures else 0
        try:
            status = driver.wait()
        finally:
            driver.forget_secrets()
        if driver.is_remote and not _await_remote_end(driver, url, job_id):
            return 1
        failures.append(time.monotonic())
        end = partial(
            _record_end, url, job_id, status, failures, end_requested=driver.end_requested
        )
        delay = _persistently(end)
        driver.end_leftovers()
        if delay is None:
            return 0 if status == 0 else 1
        if not _wait_to_restart(driver, url, job_id, delay):
            return 1


def _start(
    driver: DriverProcess, job_id: str, url: str, secrets: Secrets, *, is_restart: bool
) -> bool:
    """Start the driver; return False when there is nothing to start, or it cannot be started.

    Only a restart waits for the registry: at the first start the client reports that it failed.
    """
    take_over = partial(_take_over, url, job_id)
    job = _persistently(take_over) if is_restart else take_over()
    if job is None:
        return False
    try:
        driver.start(job, url, secrets)
    except FlinkishError as error:
        print(f"flinkish: {error.message}", file=sys.stderr)
        _persistently(partial(_record_unstarted, url, job_id, error))
        return False
    return True


def _take_over(url: str, job_id: str) -> JobRecord | None:
    """Record this process as the job's supervisor; return the job if its driver is to start."""
    with Registry.open(url, create=False) as registry:
        job = registry.supervise(job_id, process_ref())
        if job is None:  # this process started late, or slept: the job has another supervisor now
            print(f"flinkish: another process supervises job {job_id}", file=sys.stderr)
            return None
        if job.state is JobState.CANCELLING:
            job = carry_out_cancel(registry, job_id, "before its driver started") or job
        return None if job.state.is_final else job


def _record_unstarted(url: str, job_id: str, error: FlinkishError) -> None:
    """Record that a job's driver could not be started."""
    with Registry.open(url, create=False) as registry:
        registry.transition(job_id, JobState.FAILED, error.message, failure=error.to_record())


def _await_remote_end(driver: DriverProcess, url: str, job_id: str) -> bool:
    """Wait until a driver on the cluster has ended, after its submission ended.

    The submission ends with the application, but it may be killed or lose its connection earlier.
    In that case the driver's heartbeats count, but no silence while the registry could not be
    reached, as the driver could not reach it either. Returns False if this process was asked to end
    meanwhile, for example at a shutdown of this host, which does not end the driver. The job then
    continues unsupervised.
    """
    since = last = time.monotonic()

    def look() -> bool:
        nonlocal since, last
        now = time.monotonic()
        if now - last > _GAP:
            since = now
        ended = _has_ended(url, job_id, watched=now - since)
        last = now
        return ended

    while not driver.end_requested:
        if _persistently(look):
            return True
        time.sleep(_REMOTE_LOOK)
    return False


def _has_ended(url: str, job_id: str, watched: float = math.inf) -> bool:
    """Return whether a driver on the cluster is known to have ended, or is silent for too long.

    Also returns True if another process supervises the job by now.

    ``watched``: the seconds for which this process has been able to look. If they are few, a driver
    that a reader has declared lost may still take that back.
    """
    with Registry.open(url, create=False) as registry:
        job = registry.job(job_id)
        may_go_on = is_guess(job.failure) and watched <= silence_limit(job)
        if (job.state.is_final and not may_go_on) or job.supervisor != process_ref():
            return True
        submission = job_logs.submission_in(job.log_path)
        # A driver that has registered itself was submitted, even if the log no longer says so.
        if submission.has_ended if submission is not None else job.driver is None:
            return True
        return min(watched, silence(registry, job, registry.now())) > silence_limit(job)


def _record_end(
    url: str, job_id: str, status: int, failures: Sequence[float], *, end_requested: bool
) -> float | None:
    """Record how a driver ended; return the seconds until its restart, or None for no restart.

    ``failures`` are the times of all failures in seconds; the last is that of this failure.
    ``end_requested``: this process was asked to end, for example at a shutdown of the machine. The
    job then counts as lost however its program failed, and ``flinkish recover`` restarts it.
    """
    with Registry.open(url, create=False) as registry:
        job = registry.job(job_id)
        if job.supervisor != process_ref():
            return None  # the job had ended, and has been started again since
        text = job_logs.last_text(job.log_path) if job.log_path else ""
        failure: Mapping[str, Any] | None = job.failure
        if failure is not None and failure.get("id") == ProgramFailed.id:
            failure = explained(failure, text)
        registry.update_job(job_id, failure=failure)
        how = f"its driver {how_it_ended(status)}"
        undecided = is_undecided(job, registry.state_history(job_id))
        guessed = job.state is JobState.FAILED and (is_guess(failure) or undecided)
        if job.state is JobState.CANCELLING or (job.state.is_final and not guessed):
            registry.update_job(job_id, exit_status=status)
            if not job.state.is_final:
                carry_out_cancel(registry, job_id, how)
            return None
        # From here on the exit status comes with the end: it says that this process has decided.
        ended_by = registry.ended_by(job_id)
        if ended_by is not None and may_follow(job.state, ENDS[ended_by]):
            why = f"{how}, after the {ended_by.value} was complete"
            registry.transition(job_id, ENDS[ended_by], why, exit_status=status)
            return None
        if carry_out_cancel(registry, job_id, how, exit_status=status) is not None:
            return None
        if end_requested:
            lost = DriverLost("its supervisor was asked to end (SIGTERM), and ended the driver")
            failure = lost.to_record()
            # A transition would keep the failure that the program recorded because of the signal.
            registry.update_job(job_id, failure=failure)
        elif failure is None or not (undecided or job.state is JobState.FAILING):
            failure = end_of(status, text, started=job.driver is not None).to_record()
        registry.abandon(job_id, failure)
        may = not end_requested and ended_by is None
        return _fail_or_restart(registry, job, status, failure, failures, may=may)


def _fail_or_restart(
    registry: Registry,
    job: JobRecord,
    status: int,
    failure: Mapping[str, Any],
    failures: Sequence[float],
    *,
    may: bool,
) -> float | None:
    """Move a failed job to FAILED, or, if it ``may``, to RESTARTING; return the delay, or None."""
    message = str(failure.get("message"))
    history = registry.state_history(job.job_id)
    has_run = any(each.state is JobState.RUNNING for each in history)
    strategy = strategy_of(job.launch.options) if may else None
    delay = None
    if strategy is not None and may_restart(failure, has_run=has_run):
        delay = strategy.next_delay(failures, random.random)
    if delay is None:
        if job.state.is_final:
            # A reader found the job dead before this process could report why.
            registry.update_job(job.job_id, failure=failure, exit_status=status)
            return None
        given_up = strategy is not None and has_run and may_restart(failure, has_run=True)
        reason = f"{message} (its restart strategy allows no further attempt)" if given_up else ""
        registry.transition(
            job.job_id,
            JobState.FAILED,
            reason or message,
            failure=failure,
            exit_status=status,
        )
        return None
    if not job.state.is_final:
        job = registry.transition(job.job_id, JobState.FAILING, message, failure=failure)
    reason = f"attempt {len(failures)}, in {delay:.3g} s, after: {message}"
    try:
        registry.restart(job, reason, process_ref())
    except Superseded as other:
        _leave_ended(registry, job, status, failure, other)
        return None
    except WrongState as other:  # a reader found the job dead, and it was restarted
        print(f"flinkish: {other.message}", file=sys.stderr)
        return None
    print(f"flinkish: {message}; starting the driver again in {delay:.3g} s", file=sys.stderr)
    return delay


def _leave_ended(
    registry: Registry,
    job: JobRecord,
    status: int,
    failure: Mapping[str, Any],
    successor: Superseded,
) -> None:
    """Record that a failed job is not restarted: another job has continued from its state."""
    print(f"flinkish: {successor.message}", file=sys.stderr)
    complete = {**failure, "message": f"{failure.get('message')}; {successor.message}"}
    if job.state.is_final:
        registry.update_job(job.job_id, failure=complete, exit_status=status)
    else:
        registry.transition(
            job.job_id,
            JobState.FAILED,
            complete["message"],
            failure=complete,
            exit_status=status,
        )


def _wait_to_restart(driver: DriverProcess, url: str, job_id: str, delay: float) -> bool:
    """Wait before a driver is restarted; return False if the job was ended during the wait.

    There is no driver to serve a cancel, so this process does. Other requests wait for the driver.
    ``driver`` knows whether this process was ever asked to end.
    """
    deadline = time.monotonic() + delay
    while True:
        if driver.end_requested:
            _persistently(lambda: _record_requested_end(url, job_id))
            return False
        if _persistently(lambda: _is_cancelled(url, job_id)):
            return False
        left = deadline - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(left, _LOOK))


def _is_cancelled(url: str, job_id: str) -> bool:
    """Return whether the job has ended, after carrying out a plain cancel that is pending."""
    with Registry.open(url, create=False) as registry:
        carry_out_cancel(registry, job_id, "before its driver started again")
        return registry.job(job_id).state.is_final


def _record_requested_end(url: str, job_id: str) -> None:
    """Record the end of a job whose supervisor was asked to end before the driver was started."""
    with Registry.open(url, create=False) as registry:
        canceled = carry_out_cancel(registry, job_id, "before its driver started again")
        if canceled is None and not registry.job(job_id).state.is_final:
            lost = DriverLost("its supervisor was ended before it could start the driver again")
            registry.transition(job_id, JobState.FAILED, lost.message, failure=lost.to_record())


def _persistently(action: Callable[[], _T]) -> _T:
    """Run ``action``, and repeat it while the registry is unavailable.

    Raises RegistryError if the registry is still unavailable after :data:`REGISTRY_PATIENCE`.
    """
    deadline = time.monotonic() + REGISTRY_PATIENCE
    pause = 0.5
    while True:
        try:
            return action()
        except RegistryError as error:
            print(f"flinkish: supervisor: {error.message}", file=sys.stderr, flush=True)
            if time.monotonic() >= deadline:
                raise
            time.sleep(pause)
            pause = min(pause * 2, 10.0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
