"""Savepoints of all running jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from flinkish.annotations import public_evolving
from flinkish.client import requests
from flinkish.client.context import Context, interruptible
from flinkish.client.listing import Troubles, find_troubles
from flinkish.client.pruning import remove_old
from flinkish.client.requests import Removal, warnings_of
from flinkish.errors import FlinkishError, Locked, WrongState, from_record
from flinkish.messages.requests import LeftOut, RequestResult, SavepointSummary
from flinkish.registry.jobs import JobRecord, JobState, Request, RequestKind, RequestState
from flinkish.registry.liveness import reconcile
from flinkish.registry.statements import name_matches
from flinkish.registry.waiting import wait_request

if TYPE_CHECKING:
    from flinkish.savepoint.manage.retention import Policy


#: Maximum number of a job's own savepoints that are opened to find a good one, newest first.
_TRIES = 5


@public_evolving
@dataclass(frozen=True)
class NewestSavepoint:
    """The newest good savepoint of a job: one whose metadata can be read.

    ``created``: in seconds since the epoch. ``age``: in seconds.
    """

    path: str
    created: float
    age: float


@public_evolving
@dataclass(frozen=True)
class JobOutcome:
    """The outcome for one job: a savepoint, an error, or why the job was skipped.

    Parameters
    ----------
    job : JobRecord
        The job's record.
    request_id : str or None
        The request to its driver, if there is one.
    result : RequestResult or None
        The request's result.
    error : FlinkishError or None
        The error that occurred.
    skipped : str or None
        Why the job has no new savepoint, if that is not an error.
    newest : NewestSavepoint or None
        The newest good savepoint of the job, if the job has no new savepoint.
    """

    job: JobRecord
    request_id: str | None = None
    result: RequestResult | None = None
    error: FlinkishError | None = None
    skipped: str | None = None
    newest: NewestSavepoint | None = None

    @property
    def savepoint(self) -> SavepointSummary | None:
        """The new savepoint, if there is one."""
        return None if self.result is None else self.result.savepoint

    @property
    def left_out(self) -> Sequence[LeftOut]:
        """The queries that are not in the savepoint."""
        return () if self.result is None else self.result.left_out

    @property
    def warnings(self) -> Sequence[str]:
        """Sentences about what the savepoint lacks."""
        return warnings_of(self.result)

    @property
    def who(self) -> str:
        """The job's name and id, for messages."""
        return f"{self.job.name} ({self.job.job_id})"


@dataclass(frozen=True)
class AllJobs:
    """The jobs whose savepoints go into ``target``, and other jobs that do not run but should."""

    target: str
    jobs: Sequence[JobRecord]
    troubles: Troubles

    @property
    def running(self) -> Sequence[JobRecord]:
        """The jobs that have not just been found dead."""
        return [job for job in self.jobs if not job.state.is_final]


@dataclass(frozen=True)
class AllSaved:
    """One outcome for each job, in the order of the jobs, and the old savepoints that were removed.

    ``newest``: the newest good savepoints of the failed jobs in ``troubles``, by job id.
    """

    outcomes: Sequence[JobOutcome]
    troubles: Troubles
    removal: Removal
    newest: Mapping[str, NewestSavepoint] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """0 when nothing failed, 1 when every attempt failed, 3 when only some attempts failed.

        It is also 3 if jobs have failed, including those just found dead, if expected jobs are not
        running, or if old savepoints could not be removed. Old savepoints that stay because another
        process holds the target are not a failure; they are removed next time.
        """
        failed = [outcome for outcome in self.outcomes if outcome.error is not None]
        attempted = [outcome for outcome in failed if outcome.request_id is not None]
        if attempted and not any(outcome.savepoint is not None for outcome in self.outcomes):
            return FlinkishError.code
        kept = self.removal.error is not None and not isinstance(self.removal.error, Locked)
        return 3 if failed or kept or self.troubles.failed or self.troubles.missing else 0


def jobs_to_save(
    context: Context,
    target: str | None,
    pattern: str | None = None,
    expected: Collection[str] = (),
    states: Collection[JobState] = (JobState.RUNNING,),
) -> AllJobs:
    """Return the jobs for :func:`save_all` or :func:`.together.stop_all`; nothing is requested yet.

    ``target``: the directory of savepoints. Default: ``execution.checkpointing.savepoint-dir``.
    ``pattern``: only jobs whose name matches it; ``*`` and ``?`` are wildcards. ``expected``: names
    of jobs that must be running. ``states``: only jobs in these states.

    Raises NoSavepointDirectory if no directory is given or configured.
    """
    directory = requests.savepoint_target(context, target)
    jobs = running_jobs(context, pattern, states)
    troubles = find_troubles(context, jobs, pattern, expected)
    return AllJobs(directory, jobs, troubles)


def newest_of(context: Context, jobs: Sequence[JobRecord]) -> dict[str, NewestSavepoint]:
    """Return the newest good savepoints of jobs, by job id; jobs without one are left out."""
    newest = {job.job_id: newest_savepoint(context, job) for job in jobs}
    return {job_id: savepoint for job_id, savepoint in newest.items() if savepoint is not None}


def newest_savepoint(context: Context, job: JobRecord) -> NewestSavepoint | None:
    """Return the newest good savepoint that the registry knows of a job; None without one.

    If none of the last :data:`_TRIES` of the job's own savepoints is good, return the savepoint
    from which the job was restored, if that one is good.
    """
    from flinkish.savepoint.format.reader import open_savepoint

    restore = job.launch.restore
    origin = None if restore is None else restore.path
    own = [saved.path for saved in context.registry.savepoints(job.job_id)][::-1]
    for path in (*own[:_TRIES], *((origin,) if origin else ())):
        try:
            created = open_savepoint(path).header.created
        except FlinkishError:  # damaged, gone, or a plain checkpoint
            continue
        return NewestSavepoint(path, created, max(context.registry.now() - created, 0.0))
    return None


def running_jobs(
    context: Context,
    pattern: str | None = None,
    states: Collection[JobState] = (JobState.RUNNING,),
) -> list[JobRecord]:
    """Return the jobs that run according to the registry, then compared with their processes.

    A job whose driver has died is returned as FAILED, or as FAILING if its supervisor restarts it.

    ``pattern``: only jobs whose name matches it; ``*`` and ``?`` are wildcards. ``states``: the
    recorded states that count as running.
    """
    registry = context.registry
    listed = registry.jobs(states=states)
    return reconcile(
        registry, [job for job in listed if pattern is None or name_matches(job.name, pattern)]
    )


def save_all(
    context: Context,
    asked: AllJobs,
    *,
    timeout: float | None = None,
    full: bool = False,
    format_: str = "native",
    keep: Policy | None = None,
    on_outcome: Callable[[JobOutcome], object] = lambda _outcome: None,
) -> AllSaved:
    """Take a savepoint of each job, all at the same time.

    ``asked``: the jobs, as :func:`jobs_to_save` returns them. ``timeout``: seconds to wait for all
    savepoints together; what is not complete by then continues. Default: ``client.timeout``.
    ``full``: whether the new savepoints share no files with earlier ones. ``format_``: ``native``
    or ``canonical``. ``keep``: which savepoints stay of each job that has a new savepoint. Default:
    all. ``on_outcome``: called with each outcome as soon as it is known.

    Failures are part of the outcomes, not raised.
    """
    target = asked.target
    outcomes = all_answers(
        context,
        asked.jobs,
        lambda job: _begin(context, job, target, full=full, format_=format_),
        timeout=timeout,
        on_outcome=on_outcome,
        complete=lambda outcome: with_newest(context, outcome),
    )
    taken = {each.job.job_id: each.savepoint.path for each in outcomes if each.savepoint}
    removal = Removal()
    if keep is not None:
        removal = remove_old(context, target, keep, taken.keys(), taken.values())
    # Last, so that no job waits for its savepoint while the savepoints of dead jobs are read.
    newest = newest_of(context, asked.troubles.failed)
    return AllSaved(outcomes, asked.troubles, removal, newest)


def with_newest(context: Context, outcome: JobOutcome) -> JobOutcome:
    """Return an outcome; if its job has no new savepoint, with the job's newest good one."""
    if outcome.savepoint is not None:
        return outcome
    return replace(outcome, newest=newest_savepoint(context, outcome.job))


def all_answers(
    context: Context,
    jobs: Sequence[JobRecord],
    begin: Callable[[JobRecord], JobOutcome],
    *,
    timeout: float | None,
    on_outcome: Callable[[JobOutcome], object],
    complete: Callable[[JobOutcome], JobOutcome] = lambda outcome: outcome,
) -> list[JobOutcome]:
    """Call ``begin`` to request something from each job, then wait for all; return the outcomes.

    ``timeout`` and ``on_outcome`` are as for :func:`save_all`. ``complete`` adds to an outcome what
    is known only after the wait.
    """
    deadline = time.monotonic() + context.timeout(timeout)
    with interruptible("stopped waiting; what was triggered continues", "flinkish list"):
        outcomes = [begin(job) for job in jobs]
        for index, outcome in enumerate(outcomes):
            if outcome.request_id is not None:
                outcome = _await(context, outcome, max(deadline - time.monotonic(), 0.0))
            outcomes[index] = complete(outcome)
            on_outcome(outcomes[index])
    return outcomes


def why_skip(history: Sequence[Request]) -> str | None:
    """Return why a job's unfinished requests exclude a new savepoint; None if they do not.

    ``history``: requests of the job; finished ones do not count.
    """
    for request in history:
        if request.state.is_final:
            continue
        created = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(request.created))
        since = f"since {created}"
        if request.kind is RequestKind.SAVEPOINT:
            pending = request.state is RequestState.PENDING
            doing = "waiting for the driver" if pending else "being written"
            return f"its savepoint {request.request_id} is still {doing}, {since}"
        return f"it is being ended by the {request.kind.value} {request.request_id}, {since}"
    return None


def _begin(
    context: Context, job: JobRecord, target: str, *, full: bool, format_: str
) -> JobOutcome:
    """Request a savepoint from the job's driver, unless there is a reason not to."""
    if job.state.is_final:  # RUNNING in the registry, but its process is gone
        return ended(job)
    reason = why_skip(context.registry.requests(job.job_id))
    if reason is not None:
        return JobOutcome(job, skipped=reason)
    try:
        request = requests.submit(
            context,
            job,
            RequestKind.SAVEPOINT,
            target,
            full=full,
            format_=format_,
        )
    except WrongState:  # the job ended after its record was read
        return ended(context.registry.job(job.job_id))
    return JobOutcome(job, request.request_id)


def ended(job: JobRecord) -> JobOutcome:
    """Return the outcome for a job that has ended; FAILED is an error, so that it is reported."""
    if job.state is JobState.FAILED:
        return JobOutcome(job, error=from_record(job.failure or {"message": "it has failed"}))
    return JobOutcome(job, skipped=f"it is {job.state.value}")


def _await(context: Context, outcome: JobOutcome, timeout: float) -> JobOutcome:
    deadline = time.monotonic() + timeout
    assert outcome.request_id is not None
    try:
        request = wait_request(context.registry, outcome.request_id, timeout)
    except FlinkishError as error:
        return replace(outcome, error=error)
    if request.state is RequestState.COMPLETED:
        outcome = replace(outcome, result=request.result)
        if request.kind is RequestKind.SAVEPOINT:
            return outcome
        try:
            requests.wait_end(context, request, deadline - time.monotonic())
        except FlinkishError as error:
            return replace(outcome, error=error)
        return outcome
    failure = requests.failure_of(request)
    if isinstance(failure, Locked):  # another host holds the target
        return replace(outcome, skipped=failure.message)
    return replace(outcome, error=failure)
