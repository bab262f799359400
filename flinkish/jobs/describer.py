"""Running a driver that describes its program's queries instead of starting them.

Nothing is registered: there is no job. The driver (``flinkish.driver.describe``) writes one JSON
file into a directory of ours, which is read and removed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

from flinkish.errors import DriverLost, FlinkishError, LaunchFailed, ProgramFailed, from_record
from flinkish.jobs import logs, program, secretconf
from flinkish.jobs.model import Launch
from flinkish.jobs.program import Installation
from flinkish.jobs.supervisor import end_of

#: Seconds between two looks for the result.
_POLL = 0.05
#: Drivers that have given their result, and are left to stop their Spark.
_STOPPING: list[Any] = []
#: Seconds a driver gets between SIGTERM and SIGKILL when the wait for it is interrupted.
_GRACE = 5.0


@dataclass(frozen=True)
class Described:
    """What a driver has said of a program: its ``queries``, as ``flinkish.driver.describe`` records
    them, and the ``plan`` of the restore that was asked about, if one was."""

    queries: list[dict[str, Any]]
    plan: dict[str, Any] | None = None


def describe_program(
    launch: Launch,
    installation: Installation,
    *,
    name: str,
    environ: Mapping[str, str],
    show_log: Callable[[str], object],
    runs: Mapping[str, Sequence[Any]] | None = None,
) -> Described:
    """The queries of a program, and the plan of the restore that ``launch`` asks for.

    Parameters
    ----------
    name: Spark's application name.
    show_log: gets the end of the driver's output when that was no success.
    runs: for a restore: by Spark query id of the savepoint what the registry knows of other jobs
        that ran it, as triples of job id, state and newest batch.

    Raises
    ------
    LaunchFailed: the driver cannot be started.
    FlinkishError: what the submission of the program would end with (ProgramFailed, MissingUid,
        DuplicateUid, UnsupportedSession ...).
    """
    import json
    import tempfile

    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="flinkish-info-"))
        result, log = os.path.join(directory, "result.json"), os.path.join(directory, "log")
        secrets = secretconf.secrets_of(launch)
        properties = stack.enter_context(
            secretconf.secrets_file(secrets, directory, installation.spark_home, environ)
        )
        environment = {
            **program.build_environment(
                environ,
                installation,
                job_id="",
                registry_url="",
                flinkish_home=program.flinkish_home(),
                fallback_path=program.fallback_path(),
                properties=properties,
            ),
            "FLINKISH_DESCRIBE": result,
            "FLINKISH_DESCRIBE_OPTIONS": json.dumps(dict(launch.options)),
        }
        if launch.restore is not None:
            restore = {"spec": asdict(launch.restore), "runs": dict(runs or {})}
            environment["FLINKISH_DESCRIBE_RESTORE"] = json.dumps(restore)
        command = program.build_command(
            launch,
            installation,
            name=name,
            driver_main=program.driver_main(),
            properties=properties,
        )
        status = _run(command, environment, launch.working_directory, log, result)
        error: FlinkishError | None
        described = Described([])
        try:
            with open(result, encoding="utf-8") as file:
                record = json.load(file)
            described = Described(record["queries"], record.get("plan"))
            error = from_record(record["error"]) if record["error"] else None
        except FileNotFoundError:
            # It never came to the end: no Spark, killed, a program that calls os._exit.
            tail = logs.error_tail(logs.last_text(log))
            error = end_of(status, tail, started=True)
        if error is not None:
            if isinstance(error, (ProgramFailed, LaunchFailed, DriverLost)):
                error.hint = "run it again with --debug to see the whole output of the driver"
            show_log(logs.last_text(log))
            raise error
        return described


def _run(
    command: list[str],
    environment: Mapping[str, str],
    directory: str | None,
    log: str,
    result: str,
) -> int:
    """Run ``command`` with all it prints in ``log``, until there is a ``result``.

    The file is the last thing the driver makes; stopping Spark takes it another second, which
    nobody has to wait for. It does not outlive an interrupted wait.
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
                hint="see that it exists and may be executed",
            ) from error
        try:
            while not os.path.exists(result):
                try:
                    return child.wait(_POLL)
                except subprocess.TimeoutExpired:
                    pass
            _STOPPING.append(child)
            return 0
        except BaseException:  # Ctrl-C, SIGTERM
            os.killpg(child.pid, signal.SIGTERM)
            try:
                child.wait(_GRACE)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
            raise
