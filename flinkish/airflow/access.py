"""The registry that a task uses, and what the task looks for there.

Airflow is imported only to read a connection.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flinkish.client import Client, Job, PendingSavepoint, Program, Progress, lifecycle
from flinkish.client.context import Context
from flinkish.client.wait_goals import GoalKind, Watch, parse_goal, quiet_time
from flinkish.client.waiting import STARTING, wait_for
from flinkish.config import Config, parse_duration
from flinkish.errors import (
    AmbiguousJob,
    FlinkishError,
    JobNotFound,
    RegistryError,
    UsageError,
    WaitTimeout,
)
from flinkish.messages.upgrades import UpgradeKind
from flinkish.upgrade import workflows
from flinkish.upgrade.preparation import Secrets
from flinkish.upgrade.target import NewVersion
from flinkish.upgrade.workflows import UpgradeResult

#: What a look has found: the answer, or, under ``error``, the record of an error.
Answer = dict[str, Any]

#: Connections of these types name a registry in PostgreSQL.
_POSTGRES = ("postgres", "postgresql")
#: Seconds to wait for a registry that cannot be used, because it may be restarting.
AWAY = 600.0
_HEARTBEAT = "execution.heartbeat.interval"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Access:
    """How a task reaches its jobs.

    Attributes
    ----------
    registry
        URL of the registry; None is the configured one (``FLINKISH_REGISTRY`` of the worker).
    options
        Other settings of flinkish's configuration, by key.
    """

    registry: str | None = field(default=None, repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, registry: str | None, conn_id: str | None, options: Mapping[str, str] | None
    ) -> Access:
        """Return the access of a task; ``conn_id`` names a connection instead of a URL.

        Raises UsageError if the connection is not one to PostgreSQL, or if ``registry`` is given
        too; and the error of Airflow if there is no such connection.
        """
        if conn_id is None:
            return cls(registry, dict(options or {}))
        if registry is not None:
            raise UsageError("name a registry or a connection, not both", hint="omit conn_id")
        from airflow.sdk import BaseHook

        connection = BaseHook.get_connection(conn_id)
        if connection.conn_type not in _POSTGRES:
            raise UsageError(
                f"the connection {conn_id} is of the type {connection.conn_type}, but a registry "
                "for several hosts is in PostgreSQL",
                hint="make it of the type postgres, or set registry=sqlite:///PATH",
            )
        return cls(str(connection.get_uri()), dict(options or {}))

    def resolved(self) -> Access:
        """Return the access with the registry's URL, for a process with another configuration."""
        return replace(self, registry=self._config().registry_url())

    def client(self, logger: logging.Logger) -> Client:
        """Return a client; what it reports goes to the task's log."""
        return Client(self.registry, options=self.options, reporter=TaskLog(logger))

    def context(self, logger: logging.Logger) -> Context:
        """Return the context of a use case that :class:`flinkish.Client` does not have."""
        return Context(self._config(), TaskLog(logger))

    def look_at_savepoint(self, request_id: str) -> Answer | None:
        """Return the path of a requested savepoint; None if the request is not complete yet.

        The savepoint itself is not read: the triggerer may lack the rights and the libraries.

        Raises RequestNotFound if there is no such request; FlinkishError if the savepoint could not
        be taken; RegistryError if the registry cannot be used.
        """
        with self.context(_LOG) as flinkish:
            request = flinkish.registry.request(request_id)
            if not PendingSavepoint(request_id, request.job_id, flinkish).is_done:
                return None
            outcome = lifecycle.wait_for_request(flinkish, request)
        assert outcome.savepoint is not None
        return {"savepoint": outcome.savepoint.path}

    def _config(self) -> Config:
        named = {} if self.registry is None else {"registry.url": self.registry}
        return Config.load(flags={**self.options, **named})


class JobLook:
    """Checks whether a job has reached a goal, and remembers since when the job has been idle.

    ``until`` and ``query`` are those of :meth:`flinkish.client.Job.wait`. A job that the task has
    ``launched`` must be in the registry, and ``running`` is judged as ``flinkish run -d`` does: a
    program that has finished by then is fine. Any other job is waited for until the registry has
    it.
    """

    def __init__(
        self,
        access: Access,
        job: str,
        until: str,
        query: str | None = None,
        *,
        launched: bool = False,
    ) -> None:
        self._access, self._job, self._launched = access, job, launched
        self._goal = parse_goal(until, query)
        self._watch: Watch | None = None

    def once(self) -> Answer | None:
        """Return id, name and state of a job that has reached the goal; None if it has not yet.

        Raises FlinkishError if the job has failed, or has ended without reaching the goal;
        JobNotFound if the registry does not have a ``launched`` job; AmbiguousJob if several jobs
        match; RegistryError if the registry cannot be used.
        """
        return self._looked(at_length=False)

    def at_length(self) -> Answer | None:
        """Look, like :meth:`once`, but for as long as an idle job needs to show that it is idle.

        This is for callers that forget their earlier looks.
        """
        return self._looked(at_length=True)

    def _looked(self, *, at_length: bool) -> Answer | None:
        with self._access.context(_LOG) as flinkish:
            try:
                job = Job.of(flinkish, flinkish.find_job(self._job, include_final=True))
            except JobNotFound as error:
                if self._launched:
                    raise
                _LOG.info("%s", error.message)
                return None
            if self._launched and self._goal.kind is GoalKind.RUNNING:
                there = None if job.state in STARTING else job.wait_until_started()
            else:
                there = self._reached(flinkish, job, self._length(flinkish, job) * at_length)
        if there is None:
            return None
        return {"job_id": there.job_id, "name": there.name, "state": there.state.value}

    def _reached(self, flinkish: Context, job: Job, seconds: float) -> Job | None:
        if self._watch is None:
            self._watch = Watch(self._goal, flinkish.registry.now())
        try:
            there = wait_for(flinkish, job.record, self._goal, seconds, self._watch)
        except WaitTimeout as error:
            _LOG.info("%s", error.message)
            return None
        return Job.of(flinkish, there)

    def _length(self, flinkish: Context, job: Job) -> float:
        """Return the seconds that an idle job needs to show that it is idle; 0 for other goals."""
        if self._goal.kind is not GoalKind.IDLE:
            return 0.0
        quiet = quiet_time(job.queries(), self._goal)
        own = job.record.launch.options.get(_HEARTBEAT)
        beat = flinkish.config.duration(_HEARTBEAT) if own is None else parse_duration(own)
        # One heartbeat before the first report, one after the quiet time, and one that is late.
        return quiet + 3 * beat


class Looking:
    """Looks again and again until there is an answer or an error.

    It waits for a registry that cannot be used, because the registry may be restarting. It waits
    only :data:`AWAY` seconds, because it may be the wrong registry.
    """

    def __init__(
        self, look: Callable[[], Answer | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._look = look
        self._clock = clock
        self._away_since: float | None = None

    def once(self) -> Answer | None:
        """Return the answer, or an error in place of it; None if there is neither yet."""
        try:
            answer = self._look()
        except RegistryError as error:
            now = self._clock()
            if self._away_since is None:
                self._away_since = now
            if now - self._away_since >= AWAY:
                return {"error": error.to_record()}
            _LOG.warning("%s", error.message)
            return None
        except FlinkishError as error:
            return {"error": error.to_record()}
        self._away_since = None
        return answer


def program_of(spark: Program, file: str | None, arguments: Sequence[object]) -> Program:
    """Return ``spark`` with more arguments and, if ``file`` is given, with that as its file."""
    words = (*spark.arguments, *map(str, arguments))
    return replace(spark, application=file or spark.application, arguments=words)


def begin_stop(
    flinkish: Context,
    reference: str,
    directory: str | None,
    *,
    format: str,
    drain: bool,
    is_retry: bool,
) -> PendingSavepoint:
    """Begin to stop a job, and return the stop.

    If an earlier try has begun a stop and the job has not run again since, a retry returns that
    stop, complete or not.
    """
    job = _job_to_stop(flinkish, reference, is_retry=is_retry)
    stop = lifecycle.earlier_stop(flinkish, job.record) if is_retry else None
    if stop is None:
        return job.begin_stop(directory, format=format, drain=drain)
    flinkish.reporter.note(f"an earlier try has begun to stop job {job.job_id}")
    return PendingSavepoint(stop.request_id, job.job_id, flinkish)


def _job_to_stop(flinkish: Context, reference: str, *, is_retry: bool) -> Job:
    """Return the job that ``reference`` means, or meant when an earlier try began to stop it.

    A name that several ended jobs have meant the one that was stopped after the others had ended.
    """
    try:
        return Job.of(flinkish, flinkish.find_job(reference, include_final=True))
    except AmbiguousJob:
        runs = flinkish.registry.jobs(name=reference) if is_retry else []
        if not runs:
            raise
        *others, last = sorted(runs, key=lambda job: job.end_time or math.inf)
        stop = lifecycle.earlier_stop(flinkish, last)
        if stop is None or any((job.end_time or math.inf) > stop.created for job in others):
            raise
        return Job.of(flinkish, last)


def upgraded(
    flinkish: Context,
    reference: str,
    version: NewVersion,
    kind: UpgradeKind,
    *,
    rehearsed: bool = False,
    since: float | None = None,
) -> UpgradeResult:
    """Upgrade a job; for errors see :func:`.workflows.upgrade` and :func:`.workflows.resume`.

    A retry gives ``since``, the time in seconds since the epoch before which no earlier try of its
    DAG run began. If an upgrade to this version is unfinished, the retry finishes it; if an earlier
    try has finished one, its outcome is the result, with what has become of the old program since.
    """
    earlier = None
    if since is not None:
        earlier = workflows.earlier_upgrade(flinkish, reference, version, since)
    if earlier is None:
        job = flinkish.find_job(reference, include_final=True)
        return workflows.upgrade(flinkish, job, version, kind, rehearsed=rehearsed)
    if earlier.state.is_final:
        return workflows.outcome_of(flinkish, earlier)
    # Airflow tries again once the process of the earlier try is gone, on whichever host it was.
    secrets = Secrets.of(version.changes.program)
    return workflows.resume(flinkish, earlier.upgrade_id, secrets, force=True)


class TaskLog:
    """Writes what a client reports to the log of a task."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._phase = ""

    def note(self, text: str) -> None:
        """Log one line about the current activity."""
        self._logger.info("%s", text)

    def warning(self, text: str) -> None:
        """Log one line that the user should see."""
        self._logger.warning("%s", text)

    def progress(self, progress: Progress) -> None:
        """Log the phase, unless it is that of the previous call."""
        if progress.phase != self._phase:
            self._phase = progress.phase
            self._logger.info("%s", progress.phase)

    def log(self, text: str) -> None:
        """Log the output of a driver that did not succeed."""
        self._logger.error("%s", text)
