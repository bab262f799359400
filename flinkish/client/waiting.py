"""Wait for a launched job: until it runs, has committed a batch, is idle, or has ended."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.annotations import public_evolving
from flinkish.client.context import Context, interruptible
from flinkish.client.wait_goals import Goal, GoalKind, Watch
from flinkish.errors import (
    FlinkishError,
    ProgramFailed,
    WaitTimeout,
    WrongState,
    from_record,
)
from flinkish.messages.codec import encode_fields
from flinkish.messages.plan import RestorePlan
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.registry.liveness import reconcile
from flinkish.registry.statements import is_guess
from flinkish.registry.waiting import wait_job

_POLL = 0.1
#: The setting with the number of queries that the program starts.
QUERIES = "execution.start.queries"
#: States before a job runs, or runs again.
STARTING = (JobState.INITIALIZING, JobState.CREATED, JobState.FAILING, JobState.RESTARTING)
#: Seconds that the supervisor gets to record the failure of a dead driver.
_REASON_PATIENCE = 3.0


@public_evolving
@dataclass(frozen=True)
class Start:
    """How a job has started.

    Parameters
    ----------
    restore_plan : RestorePlan or None
        The restore plan that was carried out; None without a restore.
    notes : sequence of str
        The driver's notes about the start of the queries.
    """

    restore_plan: RestorePlan | None
    notes: Sequence[str]

    @property
    def plan(self) -> Mapping[str, Any] | None:
        """The restore plan as plain data, as ``flinkish run --json`` prints it."""
        return None if self.restore_plan is None else encode_fields(self.restore_plan)

    @property
    def further_notes(self) -> list[str]:
        """The notes that are not in the text of the plan."""
        from flinkish.restore.plan.plan_text import of_query

        queries = () if self.restore_plan is None else self.restore_plan.queries
        notes_of_plan = {
            of_query(query.name, note, count)
            for query in queries
            for note in query.notes
            for count in (1, 2)  # without and with the query's name
        }
        return [note for note in self.notes if note not in notes_of_plan]


def wait_until_started(context: Context, job: JobRecord) -> JobRecord:
    """Wait until a job runs, or has finished (a batch program).

    There is no time limit by default, because a first start may have to download much;
    ``client.timeout`` applies when it is set explicitly.

    Raises WaitTimeout if the job has not started in time, or has not started the announced number
    of queries (``execution.start.queries``); the job continues. Raises FlinkishError if the job
    failed or was canceled.
    """
    setting = context.config.setting("client.timeout")
    timeout = None if setting.origin == "default" else context.config.duration("client.timeout")
    with interruptible(
        f"stopped waiting; job {job.job_id} is still starting", f"flinkish status {job.job_id}"
    ):
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            current = look(context, job)
            if current.state not in STARTING:
                break
            if deadline is not None and time.monotonic() >= deadline:
                raise _not_started(
                    current,
                    f"is still {current.state.value} after {timeout:g} s{_running(context, job)}",
                )
            time.sleep(_POLL)
        started = with_queries(context, not_canceled(not_failed(context, current)))
    announced = int(job.launch.options.get(QUERIES) or 0)
    if started.state is JobState.RUNNING and len(context.registry.queries(job.job_id)) < announced:
        raise _not_started(
            started, f"has not started the {announced} announced queries{_running(context, job)}"
        )
    return started


def start_of(context: Context, job: JobRecord) -> Start:
    """Return how a job has started: its restore plan and its driver's notes."""
    from flinkish.restore.plan.document import merged
    from flinkish.restore.plan.plan_text import of_query

    queries = context.registry.queries(job.job_id)
    plan = merged([query.plan for query in queries if query.plan is not None])
    notes = [of_query(query.name, note, len(queries)) for query in queries for note in query.notes]
    return Start(plan, notes)


def with_queries(context: Context, job: JobRecord) -> JobRecord:
    """Return the job; warn if it has finished without starting a query."""
    if job.state is JobState.FINISHED and not context.registry.queries(job.job_id):
        context.reporter.warning(
            f"the program of job {job.name} ({job.job_id}) has ended without starting a query"
        )
    return job


def _running(context: Context, job: JobRecord) -> str:
    """Return which queries run, in parentheses, to be appended to a message."""
    queries = context.registry.queries(job.job_id)
    names = ", ".join(f"'{query.name}'" for query in queries if query.active)
    return f" (running: {names or 'no query'})"


def _not_started(job: JobRecord, what: str) -> WaitTimeout:
    return WaitTimeout(
        f"job {job.name} ({job.job_id}) {what}; it continues",
        hint=f"follow it with: flinkish status {job.job_id}",
        job_id=job.job_id,
        state=job.state.value,
    )


def wait_until_ended(context: Context, job: JobRecord, timeout: float | None = None) -> JobRecord:
    """Wait until a job has finished.

    ``timeout``: seconds; None waits without limit.

    Raises WaitTimeout if the job has not ended in time (it continues); FlinkishError if the job
    failed or was canceled.
    """
    ended = wait_job(context.registry, job.job_id, lambda now: now.state.is_final, timeout)
    return with_queries(context, not_canceled(not_failed(context, ended)))


def wait_for(
    context: Context,
    job: JobRecord,
    goal: Goal,
    timeout: float | None = None,
    watch: Watch | None = None,
) -> JobRecord:
    """Wait until a job has reached a goal, and return it.

    ``goal``: what is waited for. ``timeout``: seconds; None waits without limit, 0 looks once.
    ``watch``: what earlier waits for the same goal have seen.

    Raises WaitTimeout if the job has not reached the goal in time (the job continues; the message
    says what it lacks); WrongState if the job has finished or was canceled without reaching the
    goal; FlinkishError if the job failed or, for :attr:`GoalKind.ENDED`, was canceled.
    """
    with interruptible(
        f"stopped waiting; job {job.job_id} keeps running", f"flinkish status {job.job_id}"
    ):
        if goal.kind is GoalKind.ENDED:
            return wait_until_ended(context, job, timeout)
        watch = watch or Watch(goal, context.registry.now())
        return _reached(context, job, watch, timeout)


def _reached(context: Context, job: JobRecord, watch: Watch, timeout: float | None) -> JobRecord:
    """Wait until a job has reached a goal before its end."""
    registry = context.registry
    lacks: str | None = None

    def over(current: JobRecord) -> bool:
        nonlocal lacks
        lacks = watch.lacking(current, registry.queries(current.job_id))
        return lacks is None or current.state.is_final

    try:
        current = wait_job(registry, job.job_id, over, timeout, _POLL)
    except WaitTimeout as error:
        raise WaitTimeout(
            f"timed out after {timeout:g} s waiting for job {job.name} ({job.job_id}): "
            f"{lacks}; the job continues",
            hint=error.hint,
            **error.data,
        ) from error
    not_failed(context, current)
    if lacks is not None:
        state = current.state.value
        why = "" if lacks == f"it is {state}" else f": {lacks}"
        raise WrongState(
            f"job {job.name} ({job.job_id}) is {state}{why}",
            hint=f"see what it did with: flinkish status {job.job_id}",
            job_id=job.job_id,
            state=state,
        )
    return current


def look(context: Context, job: JobRecord) -> JobRecord:
    """Return the job in its current state; see :func:`.reconcile` for one whose driver has died."""
    return reconcile(context.registry, [context.registry.job(job.job_id)])[0]


def not_canceled(job: JobRecord) -> JobRecord:
    """Return the job; raise FlinkishError if it was canceled: as in Flink, the wait fails."""
    if job.state is JobState.CANCELED:
        raise FlinkishError(
            f"job {job.name} ({job.job_id}) was canceled",
            hint="",
            job_id=job.job_id,
            state=job.state.value,
        )
    return job


def not_failed(context: Context, job: JobRecord) -> JobRecord:
    """Return the job; if it failed, report the end of its log and raise its error."""
    if job.state is not JobState.FAILED:
        return job
    # The supervisor may soon replace a reader's guess (driver-lost), or add lines of the log to a
    # failure that has none.
    deadline = time.monotonic() + _REASON_PATIENCE
    while (
        _may_be_replaced(job.failure or {})
        and job.exit_status is None
        and time.monotonic() < deadline
    ):
        time.sleep(_POLL)
        now = context.registry.job(job.job_id)
        if now.state is not JobState.FAILED:
            break  # its supervisor starts it again, which clears the failure
        job = now
    failure = dict(job.failure or {"message": "no reason was recorded"})
    tail = [str(line) for line in failure.get("tail") or ()]
    message = str(failure.get("message"))
    for line in tail:
        context.reporter.note(f"  {line}")
    error = from_record(
        {
            **failure,
            "message": f"job {job.name} ({job.job_id}) failed: {message}",
            "hint": failure.get("hint") or "see its log with: flinkish logs JOB",
        }
    )
    error.data.update(job_id=job.job_id, state=job.state.value)
    error.hint = error.advice
    raise error


def _may_be_replaced(failure: Mapping[str, Any]) -> bool:
    """Return whether a supervisor may still record more than this failure. Pure."""
    return is_guess(failure) or (failure.get("id") == ProgramFailed.id and not failure.get("tail"))
