"""Jobs that are stopped together and started together again: the in-place upgrade of a cluster.

The requests of a ``stop --all`` carry its id, so the registry knows which jobs were stopped by it.
Each job is started again from the savepoint that it was stopped with, as a new job, which may have
another Spark. The records of the new jobs show which of them have been started, so that another
call of :func:`restart_all` continues with the jobs that have not come up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from flinkish.annotations import public_evolving
from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.client import requests
from flinkish.client.all_jobs import (
    AllJobs,
    AllSaved,
    JobOutcome,
    all_answers,
    ended,
    newest_of,
    why_skip,
    with_newest,
)
from flinkish.client.context import Context, interruptible
from flinkish.client.requests import Removal
from flinkish.client.restart_plan import NO_CHANGES
from flinkish.client.restarts import has_run_since, restart_from, wait_until_restored
from flinkish.client.waiting import STARTING
from flinkish.errors import (
    FlinkishError,
    JobNotFound,
    Locked,
    WrongState,
    from_record,
)
from flinkish.messages.launch import Program
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import SavepointArguments
from flinkish.messages.restore_options import NO_OPTIONS, RestoreOptions
from flinkish.registry.job_registry import Registry, new_request_id
from flinkish.registry.jobs import (
    ACTIVE_STATES,
    JobRecord,
    Request,
    RequestKind,
    RequestState,
)
from flinkish.registry.liveness import reconcile
from flinkish.registry.statements import name_matches

#: Jobs in these states are stopped. Jobs that are still starting are included, as they soon run.
STOPPABLE = ACTIVE_STATES


def stop_all(
    context: Context,
    asked: AllJobs,
    *,
    timeout: float | None = None,
    format_: str = "native",
    on_outcome: Callable[[JobOutcome], object] = lambda _outcome: None,
) -> AllSaved:
    """Stop each job with a savepoint, all at the same time, and wait until they have ended.

    This call continues the newest earlier call if that call still stops a job, or has stopped only
    a part of its jobs and none of them has been started again. :func:`restart_all` then starts the
    jobs of both calls.

    Parameters
    ----------
    context : Context
        Has the registry.
    asked : AllJobs
        The jobs, as :func:`.all_jobs.jobs_to_save` returns them for the states :data:`STOPPABLE`.
    timeout : float, optional
        Seconds for all of them; unfinished work continues after that. Default: ``client.timeout``.
    format_ : str
        ``native`` or ``canonical``.
    on_outcome : callable
        Called with each outcome as soon as it is known.

    Returns
    -------
    AllSaved
        Failures are in the result, not raised.
    """
    earlier = newest_together(context.registry)
    goes_on = not all(request.state.is_final for request in earlier)
    if goes_on or (is_in_part(earlier) and not _has_begun_again(context.registry, earlier)):
        together = together_of(earlier[0]) or new_request_id()
    else:
        together = new_request_id()
    outcomes = all_answers(
        context,
        asked.jobs,
        lambda job: _begin_stop(context, job, asked.target, together, format_),
        timeout=timeout,
        on_outcome=on_outcome,
        complete=lambda outcome: with_newest(context, outcome),
    )
    newest = newest_of(context, asked.troubles.failed)
    return AllSaved(outcomes, asked.troubles, Removal(), newest)


def _begin_stop(
    context: Context, job: JobRecord, target: str, together: str, format_: str
) -> JobOutcome:
    """Request a stop from the job's driver, or take the request of an earlier ``stop --all``."""
    if job.state.is_final:  # its process is gone
        return ended(job)
    try:
        request = requests.submit(
            context, job, RequestKind.STOP, target, format_=format_, together=together
        )
    except WrongState:  # the job ended after its record was read
        return ended(context.registry.job(job.job_id))
    except Locked as locked:
        request = context.registry.request(str(locked.data["request_id"]))
        if together_of(request) is None:
            return JobOutcome(job, skipped=why_skip([request]) or locked.message)
    return JobOutcome(job, request.request_id)


def together_of(request: Request) -> str | None:
    """Return the id of the ``stop --all`` that a request belongs to; None if there is none."""
    arguments = request.arguments
    return arguments.together if isinstance(arguments, SavepointArguments) else None


def newest_together(registry: Registry) -> list[Request]:
    """Return the newest request of each job in the newest ``stop --all``.

    The jobs are in the order of their first requests in it.
    """
    stops = registry.stops_together()
    if not stops:
        return []
    newest = together_of(stops[-1])
    return list({r.job_id: r for r in stops if together_of(r) == newest}.values())


def is_in_part(stops: Sequence[Request]) -> bool:
    """Return whether a ``stop --all`` has not stopped all its jobs. Pure."""
    return any(request.state is not RequestState.COMPLETED for request in stops)


def _has_begun_again(registry: Registry, stops: Sequence[Request]) -> bool:
    """Return whether any job of a ``stop --all`` has been started again since."""
    for stop in stops:
        if stop.state is RequestState.COMPLETED:
            try:
                job = registry.job(stop.job_id)
            except JobNotFound:  # purged
                continue
            if has_run_since(registry, stop) or registry.successor(job) is not None:
                return True
    return False


@public_evolving
@dataclass(frozen=True)
class StartedAgain:
    """The outcome for one job of :func:`restart_all`.

    Parameters
    ----------
    job : JobRecord
        The stopped job.
    savepoint : str or None
        The savepoint that it was stopped with.
    started : JobRecord or None
        The new job that continues from the savepoint; None if none was started.
    error : FlinkishError or None
        Why no new job was started, or why the new job does not run.
    skipped : str or None
        Why no new job is started, for instance because ``job`` runs already.
    """

    job: JobRecord
    savepoint: str | None = None
    started: JobRecord | None = None
    error: FlinkishError | None = None
    skipped: str | None = None


@dataclass(frozen=True)
class AllStarted:
    """The outcomes of :func:`restart_all`, in the order of the stops.

    ``together`` is the id of the ``stop --all``; None if there was none.
    """

    together: str | None
    outcomes: Sequence[StartedAgain] = ()

    @property
    def exit_code(self) -> int:
        """0 when no job failed (some may be skipped), 1 when each one failed, 3 when some did."""
        failed = [each for each in self.outcomes if each.error is not None]
        if not failed:
            return 0
        return FlinkishError.code if len(failed) == len(self.outcomes) else 3


def restart_all(
    context: Context,
    pattern: str | None = None,
    *,
    changes: Program = NO_CHANGES,
    options: RestoreOptions = NO_OPTIONS,
    dry_run: bool = False,
    on_outcome: Callable[[StartedAgain], object] = lambda _outcome: None,
) -> AllStarted:
    """Start the jobs of the newest ``stop --all`` again, each from its savepoint, as a new job.

    Jobs that run again, whoever started them, are left alone, so that another call continues with
    the jobs that have not come up.

    ``pattern``: only jobs whose name matches it; ``*`` and ``?`` are wildcards. ``changes`` and
    ``options``: for all of them, as in :func:`.restarts.restart_from`. ``dry_run``: only find out
    what would be started. ``on_outcome``: called with each outcome as soon as it is known. Jobs
    that were started are waited for after all have been started. A job's failure is in its outcome.
    """

    def start(job: JobRecord, savepoint: str) -> JobRecord | None:
        return restart_from(
            context, job, savepoint, changes=changes, options=options, dry_run=dry_run
        )

    stops = newest_together(context.registry)
    outcomes = []
    with interruptible("stopped waiting; what was started continues", "flinkish restart --all"):
        for stop in stops:
            try:
                job = context.registry.job(stop.job_id)
            except JobNotFound:  # purged
                continue
            if pattern is None or name_matches(job.name, pattern):
                outcomes.append(_begun(context, job, stop, start, dry_run=dry_run))
                if outcomes[-1].started is None:
                    on_outcome(outcomes[-1])
        for index, outcome in enumerate(outcomes):
            if outcome.started is not None:
                outcomes[index] = _awaited(context, outcome)
                on_outcome(outcomes[index])
    return AllStarted(together_of(stops[0]) if stops else None, outcomes)


def _begun(
    context: Context,
    job: JobRecord,
    stop: Request,
    start: Callable[[JobRecord, str], JobRecord | None],
    *,
    dry_run: bool,
) -> StartedAgain:
    """Start the new job for a stopped job, unless that has been done, or cannot be done."""
    registry = context.registry
    saved = None if stop.result is None else stop.result.savepoint
    outcome = StartedAgain(job, None if saved is None else saved.path)
    try:
        (job,) = reconcile(registry, [job])
        if not job.state.is_final:
            return replace(outcome, skipped=f"it is {job.state.value}")
        if outcome.savepoint is None:
            raise _not_stopped(job, stop)
        if has_run_since(registry, stop):
            return replace(outcome, skipped=f"it was restarted since, and is {job.state.value}")
        successor = registry.successor(job)
        if successor is not None:
            (successor,) = reconcile(registry, [successor])
        if successor is not None and successor.state in STARTING and not dry_run:
            return replace(outcome, started=successor)  # started by an interrupted call
        if successor is not None and not successor.state.is_final:
            who = f"job {successor.name} ({successor.job_id})"
            return replace(
                outcome, skipped=f"it continues as {who}, which is {successor.state.value}"
            )
        if successor is not None and _has_committed(registry, successor):
            raise _gone_on(successor)
        started = start(job, outcome.savepoint)
        if successor is not None and started is not None:
            registry.acknowledge([successor.job_id])
    except FlinkishError as error:
        return replace(outcome, error=error)
    return replace(outcome, started=started)


def _has_committed(registry: Registry, job: JobRecord) -> bool:
    """Return whether a job has committed a batch of its own, after those that it began with.

    The log of a checkpoint may be gone, or on another host, so what the job has reported counts
    too. Raises StorageError if the job has reported no such batch and a log cannot be reached.
    """
    queries = registry.queries(job.job_id)
    if any(_is_own(query, query.batch_id) for query in queries):
        return True
    return any(_is_own(query, newest_committed_batch(query.checkpoint_dir)) for query in queries)


def _is_own(query: QueryStatus, batch: int | None) -> bool:
    return batch is not None and batch >= query.first_batch


def _gone_on(successor: JobRecord) -> WrongState:
    """Return why a job is not started again from the savepoint that it was stopped with."""
    return WrongState(
        f"job {successor.name} ({successor.job_id}) has continued from the savepoint that this "
        f"job was stopped with, and is {successor.state.value}",
        hint=f"resume that one with: flinkish restart {successor.job_id}",
        job_id=successor.job_id,
        state=successor.state.value,
    )


def _not_stopped(job: JobRecord, stop: Request) -> FlinkishError:
    """Return why a job has no savepoint to start from."""
    why = from_record(stop.error or {"message": "its driver has not answered"}).message
    return WrongState(
        f"it was not stopped with a savepoint ({why}); it is {job.state.value}",
        hint=f"resume it from its own checkpoints with: flinkish restart {job.job_id}",
        job_id=job.job_id,
        state=job.state.value,
    )


def _awaited(context: Context, outcome: StartedAgain) -> StartedAgain:
    """Wait until a new job runs."""
    assert outcome.started is not None
    assert outcome.savepoint is not None
    try:
        started = wait_until_restored(context, outcome.started, outcome.savepoint)
    except FlinkishError as error:
        return replace(outcome, error=error)
    return replace(outcome, started=started)
