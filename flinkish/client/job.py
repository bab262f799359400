"""A job of the registry: its state, its savepoints, stopping and cancelling it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flinkish.annotations import public, public_evolving
from flinkish.client import lifecycle
from flinkish.client.context import Context
from flinkish.client.requests import Outcome
from flinkish.client.savepoints import Savepoint, open_savepoint
from flinkish.client.wait_goals import parse_goal
from flinkish.client.waiting import Start, look, start_of, wait_for, wait_until_started
from flinkish.messages.launch import Program
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import SavepointSummary
from flinkish.messages.restore_options import NO_OPTIONS, RestoreOptions
from flinkish.registry.jobs import JobRecord, JobState, RequestKind, RequestState


@public
@dataclass(frozen=True)
class Job:
    """A job as it was when it was looked up; :meth:`refresh` looks it up again.

    Parameters
    ----------
    job_id : str
        32 hex digits.
    name : str
        Its name.
    state : JobState
        One of Flink's job states.
    record : JobRecord
        The job's record in the registry.
    """

    job_id: str
    name: str
    state: JobState
    record: JobRecord = field(repr=False)
    _context: Context = field(repr=False, compare=False)

    @classmethod
    def of(cls, context: Context, record: JobRecord) -> Job:
        """Return the job of a record of the registry."""
        return cls(record.job_id, record.name, record.state, record, context)

    @property
    def is_final(self) -> bool:
        """Whether it has ended: FINISHED, FAILED or CANCELED."""
        return self.state.is_final

    def refresh(self) -> Job:
        """Return the job as it is now; if its driver has died, it is FAILED or FAILING."""
        return Job.of(self._context, look(self._context, self.record))

    def queries(self) -> Sequence[QueryStatus]:
        """Return its streaming queries, as its driver last reported them."""
        return self._context.registry.queries(self.job_id)

    def savepoints(self) -> Sequence[SavepointSummary]:
        """Return its savepoints that the registry knows."""
        return self._context.registry.savepoints(self.job_id)

    def start(self) -> Start:
        """Return how it has started: its restore plan and its driver's notes."""
        return start_of(self._context, self.record)

    def wait_until_started(self) -> Job:
        """Wait until it runs or has finished; see :func:`.waiting.wait_until_started`."""
        return Job.of(self._context, wait_until_started(self._context, self.record))

    def wait(
        self, timeout: float | None = None, *, until: str = "ended", query: str | None = None
    ) -> Job:
        """Wait until it has finished, or has reached a goal.

        Parameters
        ----------
        timeout : float, optional
            Seconds; None waits without limit.
        until : str
            ``ended``, ``running``, ``batch=N`` (every query has committed batch N or a later one),
            ``batch=+N`` (N more than when the wait began), or ``idle`` (every query has committed
            what its sources had, see :mod:`flinkish.client.wait_goals`).
        query : str, optional
            With ``batch=N``, ``batch=+N`` and ``idle``: consider only this query.

        Raises
        ------
        WaitTimeout
            It has not reached the goal in time; it continues.
        WrongState
            It has finished or was canceled without reaching the goal.
        UsageError
            ``until`` is none of these goals, or takes no ``query``.
        FlinkishError
            The job failed or, with ``until="ended"``, was canceled.
        """
        goal = parse_goal(until, query)
        return Job.of(self._context, wait_for(self._context, self.record, goal, timeout))

    def savepoint(
        self,
        directory: str | None = None,
        *,
        format: str = "native",
        full: bool = False,
        timeout: float | None = None,
    ) -> Savepoint:
        """Take a savepoint; the job continues.

        If the job has ended, the savepoint is taken from the checkpoints that it left.

        Parameters
        ----------
        directory : str, optional
            The parent of the savepoint's own directory. Default:
            ``execution.checkpointing.savepoint-dir``.
        format : str
            ``native`` (Spark's files as they are) or ``canonical`` (state as Avro files).
        full : bool
            Whether it shares no files with an earlier savepoint.
        timeout : float, optional
            Seconds to wait. Default: ``client.timeout``.

        Returns
        -------
        Savepoint
            The new savepoint, opened.

        Raises
        ------
        NoSavepointDirectory
            No directory is given or configured.
        WaitTimeout
            The savepoint is not complete in time; the work continues.
        Locked
            Another process holds the directory; or a stop or cancel is already in progress.
        FlinkishError
            The savepoint could not be taken.
        """
        outcome = lifecycle.save_job(
            self._context,
            self.refresh().record,
            directory,
            full=full,
            format_=format,
            timeout=timeout,
        )
        return opened(self._context, outcome)

    def stop(
        self,
        directory: str | None = None,
        *,
        format: str = "native",
        timeout: float | None = None,
        drain: bool = False,
    ) -> Savepoint:
        """Stop the job with a savepoint: nothing is processed after it.

        When the savepoint fails, the job continues. The call waits until the job has ended.
        Parameters, result and errors are those of :meth:`savepoint`, but a job that has already
        ended raises WrongState.

        With ``drain`` one more batch of each query emits everything that waits for the watermark:
        open windows and sessions, rows of outer joins, event-time timers. Drain only to end a job
        for good: later rows are late for it, and a failure after that point fails the job.
        """
        outcome = lifecycle.stop(
            self._context, self.record, directory, format_=format, drain=drain, timeout=timeout
        )
        return opened(self._context, outcome)

    def begin_savepoint(
        self, directory: str | None = None, *, format: str = "native", full: bool = False
    ) -> PendingSavepoint:
        """Request a savepoint and return at once; parameters are those of :meth:`savepoint`.

        Raises UsageError for a job that has ended, because it has no driver to take the savepoint.
        """
        outcome = lifecycle.save_job(
            self._context,
            self.refresh().record,
            directory,
            full=full,
            format_=format,
            detached=True,
        )
        return PendingSavepoint(str(outcome.request_id), self.job_id, self._context)

    def begin_stop(
        self, directory: str | None = None, *, format: str = "native", drain: bool = False
    ) -> PendingSavepoint:
        """Request that the job is stopped, and return at once; see :meth:`stop`."""
        outcome = lifecycle.stop(
            self._context, self.record, directory, format_=format, drain=drain, detached=True
        )
        return PendingSavepoint(str(outcome.request_id), self.job_id, self._context)

    def cancel(self, *, timeout: float | None = None) -> Job:
        """Cancel the job without a savepoint, and wait until it has ended.

        A driver that does not answer for ``execution.cancel.grace`` is ended: on this host by
        signals, in cluster mode by its cluster.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait. Default: ``client.timeout``.

        Returns
        -------
        Job
            The job in its final state.

        Raises
        ------
        WaitTimeout
            It has not ended in time; the work continues.
        WrongState
            It had already ended.
        Locked
            It is already being canceled, and its driver may still answer.
        """
        lifecycle.cancel(self._context, self.record, timeout=timeout)
        return self.refresh()

    def cancel_with_savepoint(
        self, directory: str | None = None, *, format: str = "native", timeout: float | None = None
    ) -> Savepoint:
        """Take a savepoint, then cancel the job; as :meth:`stop`, but the job becomes CANCELED."""
        outcome = lifecycle.cancel_with_savepoint(
            self._context, self.record, directory, format_=format, timeout=timeout
        )
        return opened(self._context, outcome)

    def restart(
        self,
        savepoint: str | os.PathLike[str] | None = None,
        *,
        conf: Mapping[str, str] | None = None,
        secret_args: Sequence[str] | None = None,
        restore: RestoreOptions = NO_OPTIONS,
        wait: bool = True,
    ) -> Job:
        """Start the ended job again, with its recorded program, arguments and settings.

        Parameters
        ----------
        savepoint : path, optional
            Start a new job from this savepoint. Default: resume the same job in its own
            checkpoints, from its newest committed batch.
        conf : mapping, optional
            Secret Spark settings, which are not recorded; with ``savepoint``, also other settings.
        secret_args : sequence of str, optional
            Secret arguments of the program, which are not recorded.
        restore : RestoreOptions, optional
            How ``savepoint`` is restored. What the job accepted at its own restore stays accepted.
        wait : bool
            Whether to wait until the job runs.

        Returns
        -------
        Job
            The started job; a new one with ``savepoint``.

        Raises
        ------
        WrongState
            The job has not ended, another has continued from its state, or its program or
            checkpoints are missing.
        UsageError
            Secrets are missing; or, without ``savepoint``, ``conf`` changes a recorded setting or
            ``restore`` is given.
        Locked
            An unfinished upgrade continues from the job, or has its name.
        FlinkishError
            The savepoint cannot be restored, no process can be started, or the program failed.
        """
        from flinkish.client import restarts

        begun = restarts.restart(
            self._context,
            self.record,
            None if savepoint is None else os.fspath(savepoint),
            changes=Program(conf=dict(conf or {}), secret_arguments=tuple(secret_args or ())),
            options=restore,
            wait=wait,
        )
        return Job.of(self._context, begun.job)


@public_evolving
@dataclass(frozen=True)
class PendingSavepoint:
    """A savepoint that was requested from a job's driver; any process can wait for it.

    Parameters
    ----------
    request_id : str
        For :meth:`.Client.pending`, in any process.
    job_id : str
        The job's id.
    """

    request_id: str
    job_id: str
    _context: Context = field(repr=False, compare=False)

    @property
    def is_done(self) -> bool:
        """Whether it failed, its job has ended, or it is complete and its job goes on."""
        registry = self._context.registry
        request = registry.request(self.request_id)
        is_saved = request.state.is_final and request.kind is RequestKind.SAVEPOINT
        if is_saved or request.state is RequestState.FAILED:
            return True
        # No driver answers for a job that has ended: result() raises if none has answered.
        return look(self._context, registry.job(request.job_id)).state.is_final

    def result(self, timeout: float | None = None) -> Savepoint:
        """Wait for the savepoint, and for the end of a job that it stops.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait. Default: ``client.timeout``.

        Raises
        ------
        WaitTimeout
            It is not complete in time; the work continues.
        FlinkishError
            The savepoint could not be taken.
        """
        context = self._context
        request = context.registry.request(self.request_id)
        return opened(context, lifecycle.wait_for_request(context, request, timeout))


def opened(context: Context, outcome: Outcome) -> Savepoint:
    """Open the savepoint of an outcome that has one."""
    assert outcome.savepoint is not None
    left_out = {each.query: each.reason for each in outcome.left_out}
    return open_savepoint(context, outcome.savepoint.path, left_out)
