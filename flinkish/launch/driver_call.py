"""Run a driver for one answer: it reads the question from a file, writes the answer, and ends.

Nothing is registered, because there is no job. ``info`` and ``check`` describe a program this way,
``rehearse`` runs one on copies of state, ``export`` builds checkpoints for one, ``migrate`` writes
state anew, and ``state`` reads it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, TypeVar

from flinkish.errors import (
    Corrupt,
    DriverLost,
    FlinkishError,
    LaunchFailed,
    ProgramFailed,
    from_record,
)
from flinkish.launch import detached, job_logs, secret_settings, spark_submit
from flinkish.launch.deploy_mode import in_client_mode
from flinkish.launch.driver_process import end_of, explained
from flinkish.launch.spark_submit import Installation
from flinkish.messages.calls import CALL_VARIABLE, DriverCall, Question, answer_path, progress_path
from flinkish.messages.codec import decode, encode
from flinkish.messages.launch import Launch

_T = TypeVar("_T")

#: Seconds between two checks for the result.
_POLL = 0.05
#: Seconds between SIGTERM and SIGKILL for a driver when the wait for it is interrupted.
_GRACE = 5.0


def ask_driver(
    question: Question,
    launch: Launch,
    installation: Installation,
    *,
    answer: type[_T],
    name: str,
    environ: Mapping[str, str],
    show_log: Callable[[str], object],
    on_progress: Callable[[int, int], object] | None = None,
) -> _T:
    """Run a driver that answers a question, and return its answer, an instance of ``answer``.

    ``launch`` is the program that is described or rehearsed, or flinkish's own application, with
    its configuration. ``show_log`` receives the end of the driver's output if the answer is an
    error or missing. ``on_progress`` is called repeatedly with the rows and bytes of state written
    so far.

    Raises the error in the answer: what the driver refuses, or how the program failed. Raises
    LaunchFailed, DriverLost or ProgramFailed if there is no answer, Corrupt or UnsupportedFormat if
    it cannot be read.
    """
    import tempfile

    launch = in_client_mode(launch)
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="flinkish-driver-"))
        call, log = os.path.join(directory, "call.json"), os.path.join(directory, "log")
        _write_call(call, DriverCall.of(question, launch.options))
        secrets = secret_settings.secrets_of(launch)
        properties = stack.enter_context(
            secret_settings.secrets_file(secrets, directory, installation.spark_home, environ)
        )
        arguments = stack.enter_context(
            secret_settings.arguments_file(secret_settings.handed_arguments(launch), directory)
        )
        environment = {
            **spark_submit.build_environment(
                environ,
                installation,
                job_id="",
                registry_url="",
                flinkish_home=spark_submit.flinkish_home(),
                fallback_path=spark_submit.fallback_path(),
                properties=properties,
                arguments=arguments,
            ),
            CALL_VARIABLE: call,
        }
        command = spark_submit.build_command(
            launch,
            installation,
            name=name,
            driver_main=spark_submit.driver_main(),
            properties=properties,
            arguments=arguments,
        )
        status = _run(command, environment, launch.working_directory, log, call, on_progress)
        error: FlinkishError | None
        record: dict[str, Any] = {}
        try:
            with open(answer_path(call), "rb") as answered:
                record = _parsed(answered.read())
            failure = record.pop("error")
            if failure and failure.get("id") == ProgramFailed.id:
                failure = explained(failure, job_logs.last_text(log))
            error = from_record(failure) if failure else None
        except FileNotFoundError:
            # The driver did not finish: no Spark, killed, or a program that calls os._exit.
            error = end_of(status, job_logs.last_text(log), started=True)
        if error is not None:
            if isinstance(error, (ProgramFailed, LaunchFailed, DriverLost)):
                error.hint = "run the command again with --debug to see the driver's full output"
            show_log(job_logs.last_text(log))
            raise error
        return decode(answer, record)


def _write_call(path: str, call: DriverCall) -> None:
    """Write a call to a file that only its owner can read: options may be secret."""
    import json

    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        json.dump(encode(call), file)


def _tell_progress(path: str, on_progress: Callable[[int, int], object]) -> None:
    """Report the rows and bytes that the driver has written so far, if any."""
    import json

    try:
        with open(path, encoding="utf-8") as file:
            rows, size = json.load(file)
    except FileNotFoundError:
        return
    on_progress(rows, size)


def _parsed(data: bytes) -> dict[str, Any]:
    import json

    try:
        record = json.loads(data)
        if isinstance(record, dict) and "error" in record:
            return record
    except ValueError:
        pass
    raise Corrupt(
        "the driver's output is not a valid answer",
        hint="run the command again with --debug to see the driver's full output",
    )


def _run(
    command: list[str],
    environment: Mapping[str, str],
    directory: str | None,
    log: str,
    call: str,
    on_progress: Callable[[int, int], object] | None,
) -> int:
    """Run ``command`` until the answer to ``call`` exists, with all its output in ``log``.

    Returns the exit status, or 0 as soon as the answer exists. The answer is the last file that the
    driver writes; this function does not wait another second until Spark has stopped. When the wait
    is interrupted, the driver is ended. Raises LaunchFailed if the driver cannot be started.
    """
    import signal
    import subprocess

    with open(log, "wb") as output:
        try:
            child = subprocess.Popen(
                command,
                env=dict(environment),
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            raise LaunchFailed(
                f"the driver could not be started: {error.filename or command[0]}: "
                f"{error.strerror}",
                hint="check that it exists and is executable",
            ) from error
        try:
            while not os.path.exists(answer_path(call)):
                try:
                    return child.wait(_POLL)
                except subprocess.TimeoutExpired:
                    if on_progress is not None:
                        _tell_progress(progress_path(call), on_progress)
            detached.leave(child)
            return 0
        except BaseException:  # Ctrl-C, SIGTERM
            os.killpg(child.pid, signal.SIGTERM)
            try:
                child.wait(_GRACE)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            raise
