"""A job of the registry: its state, its savepoints, its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from flinkish.client import requests
from flinkish.client.context import Context
from flinkish.client.offline import save_dead_job
from flinkish.client.savepoints import Savepoint, open_savepoint
from flinkish.client.submission import Start, start_of
from flinkish.client.waiting import look, wait_until_ended, wait_until_started
from flinkish.registry.jobs import JobRecord as JobRecord
from flinkish.registry.jobs import JobState, QueryStatus, Request, RequestKind, SavepointRecord


@dataclass(frozen=True)
class Job:
    """A job as it was when it was looked up; :meth:`refresh` looks again.

    Parameters
    ----------
    job_id : str
        32 hex digits.
    name : str
        Its name.
    state : JobState
        One of Flink's job states.
    record : Job
        All that the registry has of it.
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
        """Return the job as it is now; one whose driver has died is FAILED."""
        return Job.of(self._context, look(self._context, self.record))

    def queries(self) -> Sequence[QueryStatus]:
        """Return its streaming queries, as its driver last reported them."""
        return self._context.registry.queries(self.job_id)

    def savepoints(self) -> Sequence[SavepointRecord]:
        """Return those of its savepoints that the registry knows of."""
        return self._context.registry.savepoints(self.job_id)

    def start(self) -> Start:
        """Return how it has started: its restore plan, what its driver said."""
        return start_of(self._context, self.record)

    def wait_until_started(self) -> Job:
        """Wait until it runs, or has finished; see :func:`flinkish.client.waiting`."""
        return Job.of(self._context, wait_until_started(self._context, self.record))

    def wait(self, timeout: float | None = None) -> Job:
        """Wait until it has finished.

        Parameters
        ----------
        timeout : float, optional
            Seconds; None waits as long as it takes.

        Raises
        ------
        WaitTimeout
            It has not ended in time; it goes on.
        FlinkishError
            What it failed with; also when it was canceled.
        """
        return Job.of(self._context, wait_until_ended(self._context, self.record, timeout))

    def savepoint(
        self,
        directory: str | None = None,
        *,
        format: str = "native",
        full: bool = False,
        timeout: float | None = None,
    ) -> Savepoint:
        """Take a savepoint; the job goes on. Of one that has ended: of what it has left.

        Parameters
        ----------
        directory : str, optional
            Where the savepoint gets a directory of its own. Default:
            ``execution.checkpointing.savepoint-dir``.
        format : str
            ``native`` (Spark's files as they are) or ``canonical`` (state as Avro files).
        full : bool
            Whether it is to share no files with an earlier one.
        timeout : float, optional
            Seconds to wait. Default: ``client.timeout``.

        Returns
        -------
        Savepoint
            Opened.

        Raises
        ------
        NoSavepointDirectory
            No directory is given or configured.
        WaitTimeout
            It is not there in time; the work goes on.
        Locked
            The driver has another request in hand.
        FlinkishError
            Why there is no savepoint.
        """
        context, job = self._context, self.refresh().record
        target = requests.savepoint_target(context, directory, job)
        if job.state.is_final:
            return self._taken(save_dead_job(context, job, target, full=full, format_=format))
        seconds = context.timeout(timeout)
        request = requests.submit(
            context,
            job,
            RequestKind.SAVEPOINT,
            target,
            seconds,
            full=full,
            format_=format,
        )
        return self._taken(requests.wait_result(context, request, seconds))

    def stop(
        self,
        directory: str | None = None,
        *,
        format: str = "native",
        timeout: float | None = None,
    ) -> Savepoint:
        """Stop the job with a savepoint: nothing is processed after it.

        When the savepoint fails, the job goes on from where it was. Parameters, result and errors
        are those of :meth:`savepoint`; it is waited for until the job has ended.
        """
        context = self._context
        target = requests.savepoint_target(context, directory, self.record)
        seconds = context.timeout(timeout)
        done = requests.stop(context, self.record, target, seconds, format_=format)
        return self._taken(done)

    def cancel(self, *, timeout: float | None = None) -> Job:
        """Cancel the job without a savepoint, and wait until it has ended.

        A driver that does not answer within ``execution.cancel.grace`` is ended by signals where
        it runs on this host.

        Parameters
        ----------
        timeout : float, optional
            Seconds to wait. Default: ``client.timeout``.

        Returns
        -------
        Job
            In its final state.

        Raises
        ------
        WaitTimeout
            It has not ended in time; the work goes on.
        WrongState
            It had ended before.
        """
        context = self._context
        requests.cancel(context, self.record, None, context.timeout(timeout))
        return self.refresh()

    def cancel_with_savepoint(
        self,
        directory: str | None = None,
        *,
        format: str = "native",
        timeout: float | None = None,
    ) -> Savepoint:
        """Take a savepoint, then cancel the job; as :meth:`stop`, but the job is CANCELED."""
        context = self._context
        target = requests.savepoint_target(context, directory, self.record)
        seconds = context.timeout(timeout)
        done = requests.cancel(context, self.record, target, seconds, format_=format)
        return self._taken(done)

    def _taken(self, request: Request) -> Savepoint:
        return taken(self._context, request)


def taken(context: Context, request: Request) -> Savepoint:
    """Open the savepoint that a completed request has taken."""
    result = request.result
    assert result is not None
    assert result.savepoint is not None
    left_out = {each.query: each.reason for each in result.left_out}
    for name, reason in left_out.items():
        context.reporter.warning(f"query '{name}' is not in the savepoint: {reason}")
    return open_savepoint(context, result.savepoint.path, left_out)
