"""The small process that starts a job's driver, waits for it, and records how it ended.

``python -m flinkish.launch.supervisor JOB_ID``, with ``FLINKISH_REGISTRY`` set and standard output
and error going to the job's log. It runs in a session of its own, so it outlives the terminal. The
driver (``spark-submit``, its JVM, its Python) runs in a second session below it, which is one
process group to signal. Nothing stays open during the wait: the registry is opened to read the
launch and opened again when the driver has ended.

The driver normally records its own end. The supervisor records it only when the driver could not:
killed, crashed, never started.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from types import FrameType

from flinkish.errors import DriverLost, FlinkishError, LaunchFailed, ProgramFailed, RegistryError
from flinkish.launch import job_logs, secret_settings, spark_submit
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.registry.liveness import process_ref
from flinkish.spec.launch import Secrets

#: Seconds between SIGTERM and SIGKILL for leftover processes of a driver.
LEFTOVER_GRACE = 3.0
#: Seconds that a driver gets to end by itself when the supervisor is asked to end.
TERMINATE_GRACE = 10.0
#: Seconds to wait at the end of a job for a registry that is unavailable (a restarting server).
REGISTRY_PATIENCE = 300.0


def main(argv: Sequence[str]) -> int:
    """Run one job; return 0 when its driver ended by itself with status 0, else 1."""
    job_id = argv[0]
    secrets = secret_settings.take(os.environ)
    url = os.environ["FLINKISH_REGISTRY"]
    driver = _Driver()
    registry = Registry.open(url, create=False)
    try:
        registry.update_job(job_id, supervisor=process_ref())
        job = registry.job(job_id)
        if job.state is JobState.CANCELLING:
            job = registry.transition(job_id, JobState.CANCELED, "before its driver started")
        if job.state.is_final:
            return 0
        try:
            driver.start(job, url, secrets)
        except FlinkishError as error:
            print(f"flinkish: {error.message}", file=sys.stderr)
            registry.transition(job_id, JobState.FAILED, error.message, failure=error.to_record())
            registry.abandon(job_id, error.to_record())
            return 1
    finally:
        registry.close()
    try:
        status = driver.wait()
    finally:
        driver.forget_secrets()
    _persistently(lambda: _record_end(url, job_id, status))
    driver.end_leftovers()
    return 0 if status == 0 else 1


class _Driver:
    """``spark-submit`` in a session, and thus a process group, of its own.

    SIGTERM and SIGINT to this process are passed on to that group as SIGTERM, and enforced by
    SIGKILL after :data:`TERMINATE_GRACE` seconds.
    """

    def __init__(self) -> None:
        self._group: int | None = None
        self._told = False
        self._cleanup = ExitStack()
        # Set before the driver exists: a signal between its start and its registration here would
        # otherwise end this process and leave the driver running alone.
        signal.signal(signal.SIGALRM, self._enforce)
        signal.signal(signal.SIGTERM, self._terminate)
        signal.signal(signal.SIGINT, self._terminate)

    def start(self, job: JobRecord, url: str, secrets: Secrets) -> None:
        """Start the driver, with settings and arguments that only this process knows.

        Raises :class:`LaunchFailed` when it cannot be started.
        """
        try:
            self._start(job, url, secrets)
        except BaseException:
            self.forget_secrets()
            raise

    def _start(self, job: JobRecord, url: str, secrets: Secrets) -> None:
        import subprocess

        launch = secret_settings.without_masked(job.launch)
        launch = replace(launch, conf={**launch.conf, **secrets.conf})
        installation = spark_submit.resolve(launch, os.environ)
        beside = os.path.dirname(job.log_path or "") or None
        properties = self._cleanup.enter_context(
            secret_settings.secrets_file(secrets.conf, beside, installation.spark_home, os.environ)
        )
        arguments = self._cleanup.enter_context(
            secret_settings.arguments_file(secrets.arguments, beside)
        )
        command = spark_submit.build_command(
            launch,
            installation,
            name=job.name,
            driver_main=spark_submit.driver_main(),
            properties=properties,
            arguments=arguments,
        )
        environment = spark_submit.build_environment(
            os.environ,
            installation,
            job_id=job.job_id,
            registry_url=url,
            flinkish_home=spark_submit.flinkish_home(),
            fallback_path=spark_submit.fallback_path(),
            properties=properties,
            arguments=arguments,
        )
        try:
            child = subprocess.Popen(
                command,
                env=environment,
                cwd=launch.working_directory,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise LaunchFailed(
                f"the driver could not be started: {error.filename or command[0]}: "
                f"{error.strerror}",
                hint="see that it exists and may be executed",
            ) from error
        child.returncode = 0  # this class waits for the pid itself
        self._group = child.pid
        if self._told:
            self._terminate(signal.SIGTERM, None)

    def wait(self) -> int:
        """Wait for the driver and return its exit status, negative for a signal."""
        assert self._group is not None
        _, status = os.waitpid(self._group, 0)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)  # the remaining work is short
        signal.setitimer(signal.ITIMER_REAL, 0)
        return os.waitstatus_to_exitcode(status)

    def forget_secrets(self) -> None:
        """Remove the files with its secrets, if the driver has not done so."""
        self._cleanup.close()

    def end_leftovers(self) -> None:
        """End the processes that the driver left running in its process group."""
        if not self._signal(signal.SIGTERM):
            return
        deadline = time.monotonic() + LEFTOVER_GRACE
        while time.monotonic() < deadline:
            if not self._signal(0):
                return
            time.sleep(0.05)
        self._signal(signal.SIGKILL)

    def _terminate(self, _number: int, _frame: FrameType | None) -> None:
        self._told = True
        if self._group is not None:
            self._signal(signal.SIGTERM)
            signal.setitimer(signal.ITIMER_REAL, TERMINATE_GRACE)

    def _enforce(self, _number: int, _frame: FrameType | None) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> bool:
        """Signal the group and return whether it still has a process."""
        assert self._group is not None
        try:
            os.killpg(self._group, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True


def _record_end(url: str, job_id: str, status: int) -> None:
    with Registry.open(url, create=False) as registry:
        job = registry.job(job_id)
        registry.update_job(job_id, exit_status=status)
        if job.state is JobState.CANCELLING:
            registry.transition(job_id, JobState.CANCELED, f"its driver {how_it_ended(status)}")
            return
        if job.state.is_final and not (
            job.state is JobState.FAILED and (job.failure or {}).get("id") == DriverLost.id
        ):
            return
        text = job_logs.last_text(job.log_path) if job.log_path else ""
        error = end_of(status, job_logs.error_tail(text), started=job.driver is not None)
        registry.abandon(job_id, error.to_record())
        if job.state.is_final:
            # A reader found the job dead before this process could say why.
            registry.update_job(job_id, failure=error.to_record())
        else:
            registry.transition(job_id, JobState.FAILED, error.message, failure=error.to_record())


def end_of(status: int, tail: list[str], *, started: bool) -> FlinkishError:
    """Return the failure of a driver that recorded no end of its own. Pure.

    Parameters
    ----------
    status
        Exit status of ``spark-submit``; negative: minus the number of a signal.
    tail
        :func:`flinkish.launch.job_logs.error_tail` of its log.
    started
        Whether flinkish's part of the driver had begun to run.
    """
    how = how_it_ended(status)
    summary = job_logs.error_summary(tail)
    if status == 0:
        return DriverLost(f"the driver {how} without recording an end of the job", tail=tail)
    if status < 0 or _killed_child(status) is not None:
        return DriverLost(f"the driver {how}", tail=tail)
    kind = ProgramFailed if started else LaunchFailed
    hint = ProgramFailed.default_hint
    return kind(f"the driver {how}" + (f": {summary}" if summary else ""), hint=hint, tail=tail)


def how_it_ended(status: int) -> str:
    """Return ``was killed by SIGKILL`` or ``exited with status 1``. Pure."""
    if status < 0:
        return f"was killed by {_signal_name(-status)}"
    number = _killed_child(status)
    # The JVM passes on its Python child's status, 128 + N when signal N ended it (PythonRunner).
    child = f" (its Python was killed by {_signal_name(number)})" if number else ""
    return f"exited with status {status}{child}"


def _killed_child(status: int) -> int | None:
    number = status - 128
    return number if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV) else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _persistently(action: Callable[[], None]) -> None:
    """Run ``action``, and repeat it while the registry is unavailable."""
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
