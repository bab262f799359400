"""The registry that a task uses, and what it looks for there."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from flinkish.client import Client, Job, Progress
from flinkish.client.context import Context
from flinkish.config import Config
from flinkish.errors import JobNotFound, RegistryError, UsageError, WaitTimeout

#: Connections of these types name a registry in PostgreSQL.
_POSTGRES = ("postgres", "postgresql")
#: Seconds of one look at a job; whether it is idle shows only after a while.
_LOOK = {"idle": 5.0}


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
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, registry: str | None, conn_id: str | None, options: Mapping[str, str] | None
    ) -> Access:
        """Return the access of an operator; ``conn_id`` names a connection instead of a URL.

        Raises UsageError if the connection is not one to PostgreSQL, or if there are both.
        """
        if conn_id is None:
            return cls(registry, dict(options or {}))
        if registry is not None:
            raise UsageError("name a registry or a connection, not both", hint="omit conn_id")
        from airflow.sdk import BaseHook

        connection = BaseHook.get_connection(conn_id)
        if connection.conn_type not in _POSTGRES:
            raise UsageError(
                f"the connection {conn_id} is of the type {connection.conn_type}, and a registry "
                "for several hosts is in PostgreSQL",
                hint="make it of the type postgres, or set registry=sqlite:///PATH",
            )
        return cls(str(connection.get_uri()), dict(options or {}))

    def client(self, logger: logging.Logger | None = None) -> Client:
        """Return a client; what it reports goes to the task's log."""
        reporter = None if logger is None else TaskLog(logger)
        return Client(self.registry, options=self.options, reporter=reporter)

    def context(self, logger: logging.Logger) -> Context:
        """Return the context of a use case that :class:`flinkish.Client` does not have."""
        named = {} if self.registry is None else {"registry.url": self.registry}
        return Context(Config.load(flags={**self.options, **named}), TaskLog(logger))

    def look_at_job(self, job: str, until: str, query: str | None = None) -> dict[str, Any] | None:
        """Return id, name and state of a job that has reached a goal; None if it has not yet.

        ``until`` and ``query`` are those of :meth:`flinkish.client.Job.wait`. A job that is not
        there yet, and a registry that cannot be reached for a while, are waited for.

        Raises FlinkishError if the job has failed, or has ended without reaching it.
        """
        try:
            with self.client() as client:
                seconds = _LOOK.get(until, 0.0)
                there = client.job(job).wait(seconds, until=until, query=query)
        except (JobNotFound, RegistryError, WaitTimeout) as error:
            logging.getLogger(__name__).info("%s", error.message)
            return None
        return {"job_id": there.job_id, "name": there.name, "state": there.state.value}

    def look_at_savepoint(self, request_id: str) -> dict[str, Any] | None:
        """Return the path of a savepoint that was requested; None if it is not complete yet.

        Raises FlinkishError if it could not be taken.
        """
        try:
            with self.client() as client:
                pending = client.pending(request_id)
                return {"savepoint": pending.result().path} if pending.is_done else None
        except RegistryError as error:
            logging.getLogger(__name__).info("%s", error.message)
            return None


def stopped_with(client: Client, job: Job) -> str | None:
    """Return the savepoint that a job was stopped with, if it was."""
    saved = job.savepoints()
    if not saved or client.savepoint(saved[-1].path).header.trigger != "stop":
        return None
    return saved[-1].path


class TaskLog:
    """Writes what a client reports to the log of a task."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._phase = ""

    def note(self, text: str) -> None:
        """Log one line about the current activity."""
        self._logger.info("%s", text)

    def warning(self, text: str) -> None:
        """Log one line that the user should know."""
        self._logger.warning("%s", text)

    def progress(self, progress: Progress) -> None:
        """Log each phase once."""
        if progress.phase != self._phase:
            self._phase = progress.phase
            self._logger.info("%s", progress.phase)

    def log(self, text: str) -> None:
        """Log the output of a driver that did not succeed."""
        self._logger.error("%s", text)
