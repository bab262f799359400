"""The job registry: jobs, their states, the mailbox of requests, the savepoints.

It is the control plane. A client inserts a request; the agent in the job's driver claims it, does
the work and writes the result back. Client and agent never talk directly. Every change is one
short transaction. If a change depends on a job, it first locks the job's row (by incrementing its
``revision``), so what it reads of the job stays true until it commits, on SQLite and on PostgreSQL.

Times are seconds since the epoch by the registry's clock (:meth:`Registry.now`): the server's
with PostgreSQL, the machine's with SQLite.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from flinkish.config import sqlite_path
from flinkish.errors import WrongState
from flinkish.messages.requests import SavepointSummary
from flinkish.registry.claims import claimed_since
from flinkish.registry.database import Database, Transaction
from flinkish.registry.job_table import JobTable
from flinkish.registry.jobs import JobState, ProcessRef
from flinkish.registry.purging import why_purged
from flinkish.registry.requests import new_request_id
from flinkish.registry.rows import SAVEPOINT_COLUMNS, savepoint_of, savepoint_values
from flinkish.registry.sqlite import AbsentDatabase, SqliteDatabase
from flinkish.registry.statements import (
    in_lists,
    is_guess,
    locked,
    record_state,
    refuse_taken,
    set_fields,
    successor_row,
    superseded,
)
from flinkish.registry.upgrades import UpgradeRecords, refuse_held

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Registry", "new_job_id", "new_request_id"]

#: The order of savepoints of one time: those taken here are newer than copies.
_COPIES_FIRST = "request_id IS NOT NULL, path"


class SavepointTable(JobTable):
    """The savepoints of a database; a base of :class:`Registry`."""

    def add_savepoint(self, record: SavepointSummary) -> None:
        """Register a savepoint, or update the record of the savepoint at the same path."""
        values = savepoint_values(record)
        columns = list(values)
        news = ", ".join(f"{c} = excluded.{c}" for c in columns if c != "path")
        self._database.write(
            lambda tx: tx.execute(
                f"INSERT INTO flinkish_savepoints ({', '.join(columns)}) "
                f"VALUES ({', '.join(':' + c for c in columns)}) "
                f"ON CONFLICT (path) DO UPDATE SET {news}",
                **values,
            )
        )

    def savepoints(
        self, job_id: str | None = None, *, include_disposed: bool = False
    ) -> list[SavepointSummary]:
        """Return the savepoints of one job or of all jobs, oldest first.

        Disposed savepoints are left out unless ``include_disposed`` is set.
        """
        conditions, values = ["1 = 1"], {}
        if job_id is not None:
            conditions.append("job_id = :id")
            values["id"] = job_id
        if not include_disposed:
            conditions.append("disposed IS NULL")
        rows = self._read(
            f"SELECT {SAVEPOINT_COLUMNS} FROM flinkish_savepoints "
            f"WHERE {' AND '.join(conditions)} ORDER BY created, {_COPIES_FIRST}",
            **values,
        )
        return [savepoint_of(row) for row in rows]

    def last_savepoints(self, job_ids: Iterable[str]) -> dict[str, SavepointSummary]:
        """Return the newest savepoint of each job that has one (disposed ones do not count)."""
        last: dict[str, SavepointSummary] = {}
        for marks, values in in_lists(job_ids):
            rows = self._read(
                f"SELECT {SAVEPOINT_COLUMNS} FROM flinkish_savepoints s "
                f"WHERE job_id IN ({marks}) AND disposed IS NULL AND created = ("
                "SELECT MAX(created) FROM flinkish_savepoints n "
                "WHERE n.job_id = s.job_id AND n.disposed IS NULL) "
                f"ORDER BY {_COPIES_FIRST}",
                **values,
            )
            last.update((row["job_id"], savepoint_of(row)) for row in rows)
        return last

    def mark_disposed(self, path: str, when: float | None = None) -> bool:
        """Record that the savepoint at ``path`` is gone.

        Returns False if no savepoint at ``path`` is recorded, or if it was disposed before.
        """
        changed = self._database.write(
            lambda tx: tx.execute(
                "UPDATE flinkish_savepoints SET disposed = :at "
                "WHERE path = :path AND disposed IS NULL",
                at=self.now() if when is None else when,
                path=path,
            )
        )
        return changed > 0


class Registry(SavepointTable, UpgradeRecords):
    """An open registry. A context manager; safe to use from several threads of a process.

    Every method may raise :class:`RegistryError` when the database cannot be reached, read or
    written. Methods that change something raise it when the registry is read-only.
    """

    @classmethod
    def open(cls, url: str, *, create: bool = True) -> Registry:
        """Open the registry at ``url`` and bring its schema up to date.

        With ``create``, a missing file is created, as are missing tables. Without it, raises
        RegistryError if the file, or the tables in PostgreSQL, are missing. Raises
        InvalidConfiguration if ``url`` is not the URL of a registry.
        """
        return cls(_open_database(url, create=create))

    @classmethod
    def absent(cls, path: str) -> Registry:
        """Return an empty registry in memory, for a SQLite file that does not exist yet."""
        return cls(AbsentDatabase(path))

    @staticmethod
    def is_absent(path: str) -> bool:
        """Return whether the SQLite file of a registry does not exist yet, or is empty.

        Raises RegistryError if that cannot be determined.
        """
        return SqliteDatabase.is_absent(path)

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def __enter__(self) -> Registry:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def take_back(self, job_id: str, driver: ProcessRef, *, within: float = math.inf) -> JobState:
        """Let a job go on that a reader has declared lost although its ``driver`` runs.

        The job gets back the state that it had, and keeps its claims. A job that has not ended, or
        whose end is more than a guess, or that has another driver by now, stays as it is. Returns
        the job's state.

        Raises JobNotFound, WrongState if the job was declared lost more than ``within`` seconds ago
        or was purged, Superseded if another job has continued from its state or has claimed what it
        held, NameTaken if another unfinished job has the name that a user gave it, and Locked if
        an unfinished upgrade holds the job or its name.
        """

        def work(tx: Transaction) -> JobState:
            self._database.serialize(tx)
            job = locked(tx, job_id)
            is_lost = job.state is JobState.FAILED and is_guess(job.failure)
            if not is_lost or job.driver != driver or job.end_time is None:
                return job.state
            purged, now = why_purged(job), self.now()
            if purged is not None:
                raise purged
            if now - job.end_time > within:
                raise WrongState(
                    f"job {job.name} ({job.job_id}) was declared lost {now - job.end_time:.0f} s "
                    "ago, and its state may have been used since",
                    job_id=job.job_id,
                    state=job.state.value,
                )
            if job.has_given_name:
                refuse_taken(tx, job.name, job.job_id)
            refuse_held(tx.rows, name=job.name if job.has_given_name else None, job=job)
            successor = successor_row(tx.rows, job) or claimed_since(tx, job)
            if successor is not None:
                raise superseded(job, successor)
            before = tx.rows(
                "SELECT state FROM flinkish_states WHERE job_id = :id ORDER BY number DESC LIMIT 2",
                id=job.job_id,
            )[-1]["state"]
            none = dict.fromkeys(("end_time", "failure", "acknowledged"))
            set_fields(tx, job.job_id, {"state": before, "heartbeat": now, **none})
            # No RESTARTING, which would count as a restart.
            why = "its driver had only been out of sight"
            record_state(tx, job.job_id, JobState(before), now, why)
            return JobState(before)

        return self._database.write(work)

    @property
    def url_masked(self) -> str:
        """The registry's URL without its password."""
        return self._database.url_masked

    @property
    def is_reached(self) -> bool:
        """Whether changes are attempted now; not so while a driver waits for its database."""
        return True

    @property
    def read_only(self) -> str | None:
        """The reason why nothing can be written, or None."""
        return self._database.read_only

    @property
    def up_since(self) -> float:
        """When the database server was started, in seconds since the epoch; 0 without a server."""
        return self._database.up_since

    def changes_marker(self) -> object:
        """Return a value that changes when *another* connection has written.

        It is cheap to get. For SQLite it is ``PRAGMA data_version`` (for a file read without its
        WAL, the file's state). For PostgreSQL it differs at each call, so poll less often.
        """
        return self._database.changes_marker()


def new_job_id() -> str:
    """Return a new job id: 32 lower-case hex digits, as Flink's."""
    return os.urandom(16).hex()


def _open_database(url: str, *, create: bool = True) -> Database:
    """Open the database of a registry URL and bring its schema up to date.

    The URL is ``sqlite:///relative``, ``sqlite:////absolute``, a bare path or ``postgresql://...``.
    """
    path = sqlite_path(url)
    if path is not None:
        return SqliteDatabase(path, create=create)
    from flinkish.registry.postgres import PostgresDatabase

    return PostgresDatabase(url, create=create)
