"""The process of a job's driver (``spark-submit``): its start, its end, and why it ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from types import FrameType
from typing import Any

from flinkish.errors import DriverLost, FlinkishError, LaunchFailed, ProgramFailed
from flinkish.launch import job_logs, secret_settings, spark_submit
from flinkish.launch.deploy_mode import ClusterManager, is_cluster_mode, manager_of
from flinkish.launch.spark_submit import Installation
from flinkish.messages.launch import Launch, Secrets
from flinkish.registry.jobs import JobRecord

#: Seconds between SIGTERM and SIGKILL for leftover processes of a driver.
LEFTOVER_GRACE = 3.0
#: Seconds that a driver gets to end on its own when the supervisor is asked to end.
TERMINATE_GRACE = 10.0


class DriverProcess:
    """``spark-submit`` in a session, and thus a process group, of its own.

    While it runs, SIGTERM and SIGINT to this process are passed on to that group as SIGTERM, and
    enforced by SIGKILL after :data:`TERMINATE_GRACE` seconds.
    """

    def __init__(self) -> None:
        self._group: int | None = None
        self._end_requested = False
        self._is_remote = False
        self._cleanup = ExitStack()
        self._pass_signals_on()

    def start(self, job: JobRecord, url: str, secrets: Secrets) -> None:
        """Start the driver, with the secret settings and arguments, which only this process knows.

        The driver may be started again after its end. Raises LaunchFailed if it cannot be started,
        and UsageError if a file of the launch cannot be shipped to it.
        """
        self._group = None
        self._pass_signals_on()
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
        self._is_remote = is_cluster_mode(launch)
        start = self._remote_start if self._is_remote else self._local_start
        command, environment = start(job, launch, installation, url, secrets)
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
                hint="check that it exists and is executable",
            ) from error
        child.returncode = 0  # this class waits for the pid itself
        self._group = child.pid
        if self._end_requested:
            self._terminate(signal.SIGTERM, None)

    def _local_start(
        self, job: JobRecord, launch: Launch, installation: Installation, url: str, secrets: Secrets
    ) -> tuple[list[str], dict[str, str]]:
        """Return the command line and environment of a driver on this host."""
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
        return command, environment

    def _remote_start(
        self, job: JobRecord, launch: Launch, installation: Installation, url: str, secrets: Secrets
    ) -> tuple[list[str], dict[str, str]]:
        """Return the command line and environment of the submission to a cluster."""
        from flinkish.launch.carried_job import carried_job

        beside = os.path.dirname(job.log_path or "") or None
        properties = None
        if manager_of(launch) is not ClusterManager.STANDALONE:
            properties = self._cleanup.enter_context(
                secret_settings.secrets_file(
                    secrets.conf, beside, installation.spark_home, os.environ
                )
            )
        carried = self._cleanup.enter_context(carried_job(job, launch, url, secrets, beside))
        command = spark_submit.build_command(
            launch,
            installation,
            name=job.name,
            driver_main="",
            properties=properties,
            carried=carried,
        )
        return command, spark_submit.submission_environment(os.environ, installation)

    @property
    def is_remote(self) -> bool:
        """Whether the process is that of a submission, and the driver is on the cluster."""
        return self._is_remote

    def wait(self) -> int:
        """Wait for the driver and return its exit status, negative for a signal."""
        assert self._group is not None
        _, status = os.waitpid(self._group, 0)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)
        signal.setitimer(signal.ITIMER_REAL, 0)
        return os.waitstatus_to_exitcode(status)

    @property
    def end_requested(self) -> bool:
        """Whether this process has been asked to end (SIGTERM or SIGINT)."""
        return self._end_requested

    def forget_secrets(self) -> None:
        """Remove the files with the driver's secrets, unless the driver has done so."""
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

    def _pass_signals_on(self) -> None:
        # Called before the driver exists, because a signal between its start and the assignment of
        # its group would otherwise end this process and leave the driver running alone.
        signal.signal(signal.SIGALRM, self._enforce)
        signal.signal(signal.SIGTERM, self._terminate)
        signal.signal(signal.SIGINT, self._terminate)

    def _terminate(self, _number: int, _frame: FrameType | None) -> None:
        self._end_requested = True
        if self._group is not None:
            self._signal(signal.SIGTERM)
            signal.setitimer(signal.ITIMER_REAL, TERMINATE_GRACE)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        """Only record the signal: the driver has ended, and its group's id may have been reused."""
        self._end_requested = True

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


def end_of(status: int, text: str, *, started: bool) -> FlinkishError:
    """Return the failure of a driver that did not record its own end. Pure.

    ``status`` is the exit status of ``spark-submit`` (negative: minus a signal's number), ``text``
    the end of its log; ``started`` says whether flinkish's part of the driver had begun to run.
    """
    how = how_it_ended(status)
    killed = status < 0 or _killed_child(status) is not None
    tail = job_logs.error_tail(text, killed=killed)
    summary = job_logs.error_summary(tail)
    if status == 0:
        return DriverLost(f"the driver {how} without recording the end of the job", tail=tail)
    if killed:
        return DriverLost(f"the driver {how}", tail=tail)
    kind = ProgramFailed if started else LaunchFailed
    hint = ProgramFailed.default_hint
    return kind(f"the driver {how}" + (f": {summary}" if summary else ""), hint=hint, tail=tail)


def explained(failure: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return a failure that a driver recorded; if it has no log lines, add some. Pure.

    A driver only sees that its program exited; the reason is on stderr (``argparse`` writes it
    there, for example).
    """
    tail = failure.get("tail") or job_logs.error_tail(text)
    return {**failure, "tail": tail} if tail else dict(failure)


def how_it_ended(status: int) -> str:
    """Return ``was killed by SIGKILL`` or ``exited with status 1``. Pure."""
    if status < 0:
        return f"was killed by {_signal_name(-status)}"
    number = _killed_child(status)
    # The JVM passes on its Python child's status, 128 + N when signal N ended it (PythonRunner).
    child = f" (its Python process was killed by {_signal_name(number)})" if number else ""
    return f"exited with status {status}{child}"


def _killed_child(status: int) -> int | None:
    number = status - 128
    return number if number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV) else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
