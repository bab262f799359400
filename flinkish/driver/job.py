"""The driver of a job: serves requests beside the user's program and records its outcome."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Sequence

from flinkish.config import Config, parse_duration
from flinkish.driver.log import log
from flinkish.driver.requests.actions import Actions
from flinkish.driver.requests.agent import Agent, leave_without_jvm
from flinkish.driver.runtime.hook import Hook
from flinkish.driver.runtime.job_runtime import Runtime
from flinkish.driver.runtime.query_reports import persistently
from flinkish.driver.script import (
    ProgramOutcome,
    hint_of,
    last_line,
    outcome_lines,
    own_places,
    print_traceback,
    program_failed,
    python_traceback,
    reason,
    run_program,
)
from flinkish.errors import (
    FlinkishError,
    LaunchFailed,
    ProgramFailed,
    RegistryError,
    WrongState,
    quoted,
)
from flinkish.launch.restart_strategy import failed_state
from flinkish.launch.tracebacks import without_plan
from flinkish.messages.launch import Launch
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import ENDED_BEFORE_QUERIES, JobRecord, JobState
from flinkish.registry.liveness import process_ref
from flinkish.storage import set_connections


def main(argv: Sequence[str]) -> int:
    """Run the job that the environment names (``FLINKISH_REGISTRY``, ``FLINKISH_JOB_ID``).

    Parameters
    ----------
    argv
        As in :mod:`.bootstrap`.

    Returns
    -------
    int
        The driver's exit status.

    Raises
    ------
    FlinkishError
        The registry cannot be reached, or lacks the job.
    """
    registry = Registry.open(os.environ["FLINKISH_REGISTRY"], create=False)
    job = persistently(lambda: registry.job(os.environ["FLINKISH_JOB_ID"]))
    persistently(lambda: registry.update_job(job.job_id, driver=process_ref()))
    registry.act_as(job.job_id, process_ref())
    try:
        runtime, agent, hook = assemble(registry, job)
    except FlinkishError as error:
        _fail(registry, job.job_id, job.launch, error)
        return 1
    restore = job.launch.restore
    if restore is None or not restore.is_awaited:  # a handover's job is CREATED once ready
        why = f"driver started on {platform.node()}"
        persistently(lambda: registry.transition(job.job_id, JobState.CREATED, why))
    hook.install()
    agent.start()
    outcome = run_program(argv)
    return conclude(runtime, agent, hook, outcome)


def assemble(
    registry: Registry,
    job: JobRecord,
    *,
    let_go: Callable[[], None] | None = None,
    shutdown_grace: float | None = None,
) -> tuple[Runtime, Agent, Hook]:
    """Create the runtime, agent and hook of a job in its driver; nothing is started yet.

    ``let_go`` is an argument of :class:`Agent`; ``shutdown_grace`` replaces the configured time.

    Raises LaunchFailed if a package or the checkpoint directory is missing, and the errors of
    :class:`Runtime`.
    """
    for package in ("fsspec", "fastavro"):
        try:
            __import__(package)
        except ImportError as error:
            raise LaunchFailed(
                f"the driver's Python {sys.executable} cannot import {package}: {error}",
                hint=f"install it there: {quoted(sys.executable)} -m pip install {package}",
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
        savepoint_timeout=seconds("execution.checkpointing.timeout"),
        quiesce_timeout=seconds("execution.quiesce.timeout"),
        cancel_grace=seconds("execution.cancel.grace"),
        distributed=value("execution.savepoint.distributed"),
    )
    agent = Agent(
        runtime,
        actions,
        heartbeat_interval=seconds("execution.heartbeat.interval"),
        shutdown_grace=(
            seconds("execution.shutdown.grace") if shutdown_grace is None else shutdown_grace
        ),
        let_go=let_go,
    )
    return runtime, agent, Hook(runtime)


def conclude(
    runtime: Runtime,
    agent: Agent,
    hook: Hook,
    outcome: ProgramOutcome,
    *,
    stop_session: bool = True,
    print_error: bool = True,
) -> int:
    """Wait for requests, end the queries that still run, and record the job's final state.

    If the JVM is gone, this function records that and ends the process at once.

    Returns
    -------
    int
        The driver's exit status.
    """
    if outcome.error is not None and runtime.ending is None:
        if runtime.fatal is None and print_error:
            print_traceback(outcome.error)
        # A refusal by flinkish is not a fault of the program's code, and says what to do.
        for place in own_places(outcome.error) if runtime.fatal is not None else ():
            log(f"job failed at {place}")
    runtime.program_ended()
    runtime.wait_for_requests()
    if runtime.session.jvm_is_gone():
        leave_without_jvm(runtime)
    error = runtime.fatal
    if error is None and runtime.ending is None and outcome.status == 0:
        try:
            runtime.restore_gate.check_at_end()
        except FlinkishError as left_behind:
            error = left_behind
    if error is None and runtime.ending is None and runtime.is_held and outcome.status == 0:
        error = WrongState(
            "the program ended without starting a query, but was to take over another job's queries"
        )
    failed_query = runtime.session.failed_query() if runtime.ending is None else None
    failed_at_end = runtime.end_queries()
    failed_query = failed_query or failed_at_end
    agent.close()
    try:
        runtime.report()
    except RegistryError as unreachable:
        log(f"registry: {unreachable.message}")
    hook.remove()
    if stop_session:
        runtime.session.stop()
    registry, job_id = runtime.registry, runtime.job_id
    if runtime.ending is not None:
        why = "program ended"
        if outcome.error is not None and outcome.status != 0:
            why = f"program ended with {last_line(outcome.error)}"
        _transition(registry, job_id, runtime.ending, why)
        return 0
    if error is None and outcome.status != 0:
        error = program_failed(outcome, failed_query[1] if failed_query is not None else "")
    if error is None and failed_query is not None:
        error = ProgramFailed(
            f"query '{failed_query[0]}' failed: {reason(failed_query[1])}",
            hint=hint_of(failed_query[1]),
            tail=python_traceback(failed_query[1]) or outcome_lines(without_plan(failed_query[1])),
        )
    if error is not None:
        _fail(registry, job_id, runtime.launch, error)
        return outcome.status & 0xFF or 1  # a parent process sees only the lowest 8 bits
    why = "program ended" if runtime.queries() else "program ended without starting a query"
    if runtime.session.ended_before_queries:
        why = ENDED_BEFORE_QUERIES
    _transition(registry, job_id, JobState.FINISHED, why)
    return 0


def _fail(registry: Registry, job_id: str, launch: Launch, error: FlinkishError) -> None:
    log(f"job failed: {error.message}")
    state = failed_state(launch)
    _transition(registry, job_id, state, error.message, error)


def _transition(
    registry: Registry,
    job_id: str,
    state: JobState,
    why: str,
    error: FlinkishError | None = None,
) -> None:
    over = WrongState("the job ended before it served the request")
    failure = None if error is None else error.to_record()
    try:
        if state.is_final:  # else the supervisor decides on the requests too
            persistently(lambda: registry.abandon(job_id, over.to_record()))
        persistently(lambda: registry.transition(job_id, state, why, failure=failure))
    except WrongState as refused:  # a newer driver has the job, or its end is recorded
        log(refused.message)
