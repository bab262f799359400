"""Runs the user's program under flinkish's care: hook in, agent beside, outcome recorded."""

from __future__ import annotations

import os
import platform
import re
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.config import Config, parse_duration
from flinkish.driver.actions import Actions
from flinkish.driver.agent import Agent, jvm_lost
from flinkish.driver.hook import Hook
from flinkish.driver.log import say
from flinkish.driver.runtime import Runtime
from flinkish.errors import FlinkishError, LaunchFailed, ProgramFailed, WrongState
from flinkish.jobs import secretconf
from flinkish.jobs.liveness import process_ref
from flinkish.jobs.model import Job, JobState
from flinkish.jobs.registry import Registry
from flinkish.storage import set_connections

_TAIL_LINES = 12


@dataclass(frozen=True)
class Outcome:
    """How the program's script came to its end."""

    status: int
    error: BaseException | None = None


def main(argv: Sequence[str]) -> int:
    """The driver's main function.

    Parameters
    ----------
    argv: ``APP [ARGS...]`` or ``--module NAME [ARGS...]``.

    Returns the driver's exit status: 0 when the job FINISHED or was CANCELED.
    """
    secretconf.remove(os.environ.pop(secretconf.FILE_VARIABLE, None))  # Spark has read it
    argv = secretconf.with_arguments(argv, os.environ)
    if "FLINKISH_DESCRIBE" in os.environ:
        from flinkish.driver import describe  # imports this module

        return describe.main(argv)
    if "FLINKISH_MIGRATE" in os.environ:
        from flinkish.driver import migrating

        return migrating.main()
    if "FLINKISH_STATE" in os.environ:
        from flinkish.driver import stateexport

        return stateexport.main()
    registry = Registry.open(os.environ["FLINKISH_REGISTRY"], create=False)
    job = registry.job(os.environ["FLINKISH_JOB_ID"])
    registry.update_job(job.job_id, driver=process_ref(os.getpid()))
    try:
        runtime, agent, hook = _prepare(registry, job)
    except FlinkishError as error:
        _fail(registry, job.job_id, error)
        return 1
    registry.transition(job.job_id, JobState.CREATED, f"driver started on {platform.node()}")
    hook.install()
    agent.start()
    outcome = run_program(argv)
    return conclude(runtime, agent, hook, outcome)


def _prepare(registry: Registry, job: Job) -> tuple[Runtime, Agent, Hook]:
    for package in ("fsspec", "fastavro"):
        try:
            __import__(package)
        except ImportError as error:
            raise LaunchFailed(
                f"the driver's Python {sys.executable} cannot import {package}: {error}",
                hint=f"install it there: {sys.executable} -m pip install {package}",
            ) from error
    options = dict(job.launch.options)

    def seconds(key: str) -> float:
        return parse_duration(value(key))

    def value(key: str) -> str:
        return options.get(key) or str(Config.load(environ={}).get(key))

    set_connections(int(value("execution.savepoint.transfers")))
    root = job.checkpoint_dir
    if root is None:
        raise LaunchFailed("the job has no checkpoint directory in the registry")
    runtime = Runtime(registry, job, root)
    actions = Actions(
        runtime,
        quiesce_timeout=seconds("execution.quiesce.timeout"),
        cancel_grace=seconds("execution.cancel.grace"),
        distributed=value("execution.savepoint.distributed"),
    )
    agent = Agent(
        runtime,
        actions,
        heartbeat_interval=seconds("execution.heartbeat.interval"),
        shutdown_grace=seconds("execution.shutdown.grace"),
    )
    return runtime, agent, Hook(runtime)


def run_program(argv: Sequence[str]) -> Outcome:
    """Run the user's script or module as ``__main__``."""
    if argv[0] == "--module":
        sys.argv = list(argv[1:])
        sys.path.insert(0, os.getcwd())
        return run_callable(lambda: runpy.run_module(argv[1], run_name="__main__", alter_sys=True))
    sys.argv = list(argv)
    # As ``python script.py`` does: imports beside the script work.
    sys.path.insert(0, os.path.dirname(os.path.abspath(argv[0])))
    return run_callable(lambda: runpy.run_path(argv[0], run_name="__main__"))


def run_callable(program: Callable[[], Any]) -> Outcome:
    """Call ``program``; whatever it raises becomes the outcome."""
    try:
        program()
    except SystemExit as stop:
        if stop.code is None or stop.code == 0:
            return Outcome(0)
        if not isinstance(stop.code, int):
            print(stop.code, file=sys.stderr)
        return Outcome(stop.code if isinstance(stop.code, int) else 1, stop)
    except BaseException as error:  # noqa: BLE001 - see below
        # The outermost frame of the program: everything it raises is its outcome, Ctrl-C too.
        return Outcome(1, error)
    return Outcome(0)


def conclude(
    runtime: Runtime, agent: Agent, hook: Hook, outcome: Outcome, *, stop_session: bool = True
) -> int:
    """Wait for requests, end what still runs, record the job's final state."""
    if outcome.error is not None and runtime.ending is None:
        print_traceback(outcome.error)
    runtime.wait_for_requests()
    if runtime.jvm_is_gone():
        _fail(runtime.registry, runtime.job_id, jvm_lost())
        # No orderly end without the JVM: Py4J's threads would wait for it.
        os._exit(1)
    error = runtime.fatal
    if error is None and runtime.ending is None and outcome.status == 0:
        try:
            runtime.restore_gate.check_at_end()
        except FlinkishError as left_behind:
            error = left_behind
    failed_query = runtime.failed_query() if runtime.ending is None else None
    runtime.end_queries()
    agent.close()
    runtime.report()
    hook.remove()
    if stop_session:
        runtime.stop_session()
    registry, job_id = runtime.registry, runtime.job_id
    over = WrongState("the job ended before it served the request")
    registry.abandon(job_id, over.to_record())
    if runtime.ending is not None:
        reason = "program ended"
        if outcome.error is not None and outcome.status != 0:
            reason = f"program ended with {_last_line(outcome.error)}"
        registry.transition(job_id, runtime.ending, reason)
        return 0
    if error is None and outcome.status != 0:
        error = program_failed(outcome)
    if error is None and failed_query is not None:
        error = ProgramFailed(
            f"query '{failed_query[0]}' failed: {_reason(failed_query[1])}",
            tail=_last_lines(failed_query[1]),
        )
    if error is not None:
        _fail(registry, job_id, error)
        return outcome.status or 1
    registry.transition(job_id, JobState.FINISHED, "program ended")
    return 0


def _fail(registry: Registry, job_id: str, error: FlinkishError) -> None:
    say(f"job failed: {error.message}")
    registry.transition(job_id, JobState.FAILED, error.message, failure=error.to_record())


def program_failed(outcome: Outcome) -> FlinkishError:
    """The error of a program that ended with a status other than 0."""
    if isinstance(outcome.error, FlinkishError):
        return outcome.error
    if outcome.error is None or isinstance(outcome.error, SystemExit):
        return ProgramFailed(f"the program exited with status {outcome.status}")
    lines = "".join(_own_traceback(outcome.error)).splitlines()
    return ProgramFailed(_last_line(outcome.error), tail=lines[-_TAIL_LINES:])


def _own_traceback(error: BaseException) -> list[str]:
    """The traceback without flinkish's and runpy's frames at its top."""
    trace = error.__traceback__
    here = os.path.dirname(os.path.abspath(__file__))
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not (os.path.abspath(name).startswith(here) or "runpy" in name):
            break
        trace = trace.tb_next
    return traceback.format_exception(type(error), error, trace)


def print_traceback(error: BaseException) -> None:
    """The program's own part of the traceback, on stderr; nothing for an exit on purpose."""
    if not isinstance(error, SystemExit):
        print("".join(_own_traceback(error)), file=sys.stderr, end="", flush=True)


def _last_line(error: BaseException) -> str:
    return _first_line(f"{type(error).__name__}: {error}")


def _last_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()][-_TAIL_LINES:]


def _reason(text: str) -> str:
    """The line that says why: of a Python traceback inside the text its last, else the first."""
    lines = [line for line in text.splitlines() if line.strip()]
    if any(line.rstrip().endswith("Traceback (most recent call last):") for line in lines):
        raised = [
            line for line in lines if re.match(r"[\w.]+(Error|Exception|Exit|Interrupt)\b", line)
        ]
        if raised:
            return _first_line(raised[-1])
    return _first_line(text)


def _first_line(text: str) -> str:
    line = next((part for part in text.splitlines() if part.strip()), text)
    return line if len(line) <= 400 else line[:397] + "..."
