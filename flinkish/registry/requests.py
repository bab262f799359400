"""The mailbox of a registry: requests of clients to drivers (Flink's triggers), and their results.

A request is PENDING until the agent in the job's driver claims it, or until it fails because the
job has ended. Once it has its result or error it never changes again. The rows are the audit log,
and are kept until the job is purged.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from flinkish.errors import (
    RegistryError,
    RequestNotFound,
    UnsupportedFormat,
    UsageError,
    WrongState,
)
from flinkish.messages.codec import encode
from flinkish.messages.requests import Arguments, RequestResult
from flinkish.registry import jobs, statements
from flinkish.registry.database import Database, Row, Transaction
from flinkish.registry.jobs import ARGUMENTS, JobRecord, Request, RequestKind, RequestState
from flinkish.registry.rows import (
    REQUEST_COLUMNS,
    asks_plain_cancel,
    dump,
    is_plain_cancel,
    request_of,
    request_values,
    settled_values,
)
from flinkish.registry.statements import lock, locked, refuse_second

_UNFINISHED = "('PENDING', 'IN_PROGRESS')"


class Mailbox:
    """The requests of all jobs of one database; the base of :class:`.job_registry.Registry`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        #: By job, the driver for which this registry writes.
        self._drivers: dict[str, jobs.ProcessRef] = {}
        #: By job, the id and the start of a request whose claim may have been committed although
        #: the registry failed.
        self._in_doubt: dict[str, tuple[str, float]] = {}

    def now(self) -> float:
        """Return the time by the registry's clock, in seconds since the epoch."""
        return self._database.now()

    def act_as(self, job_id: str, driver: jobs.ProcessRef) -> None:
        """Write about a job only while it has this driver, as a newer one may replace it."""
        self._drivers[job_id] = driver

    def submit(
        self,
        job_id: str,
        kind: RequestKind,
        arguments: Arguments,
        requester: str | None = None,
        *,
        request_id: str | None = None,
    ) -> Request:
        """Put a request into a job's mailbox, with ``request_id`` or a new id.

        A plain cancel is accepted even while the job is being stopped or canceled with a savepoint:
        it overrides a request that still waits for the savepoint.

        Raises JobNotFound, WrongState if the job is final, Locked if a stop or cancel is submitted
        while another one, which it does not override, is pending or in progress, and TypeError if
        ``arguments`` are not of the kind's class.
        """
        if not isinstance(arguments, ARGUMENTS[kind]):
            raise TypeError(f"a {kind.value} has no {type(arguments).__name__}")

        def work(tx: Transaction) -> Request:
            job = locked(tx, job_id).written_by(self._drivers.get(job_id))
            if job.state.is_final:
                what = "take a savepoint of" if kind is RequestKind.SAVEPOINT else kind.value
                raise WrongState(
                    f"cannot {what} job {job.name} ({job.job_id}): it has already reached "
                    f"the terminal state {job.state.value}",
                    hint=_instead(job, plain_cancel=is_plain_cancel(arguments)),
                    job_id=job.job_id,
                    state=job.state.value,
                )
            if kind in jobs.ENDS:
                refuse_second(tx, job, plain_cancel=is_plain_cancel(arguments))
            number = tx.rows(
                "SELECT COALESCE(MAX(number), 0) + 1 AS next FROM flinkish_requests "
                "WHERE job_id = :id",
                id=job.job_id,
            )[0]["next"]
            request = Request(
                request_id=request_id or new_request_id(),
                job_id=job.job_id,
                kind=kind,
                state=RequestState.PENDING,
                created=self.now(),
                arguments=arguments,
                requester=requester,
            )
            tx.execute(
                "INSERT INTO flinkish_requests (request_id, job_id, number, kind, state, created, "
                "arguments, requester) VALUES (:request_id, :job_id, :number, :kind, :state, "
                ":created, :arguments, :requester)",
                number=number,
                **request_values(request),
            )
            return request

        return self._database.write(work)

    def record_request(self, request: Request) -> None:
        """Add a settled request to the history of its job.

        Used if the client did the work itself because the job is dead and has no driver. Raises
        :class:`JobNotFound`.
        """
        values = settled_values(request)

        def work(tx: Transaction) -> None:
            lock(tx, request.job_id)
            tx.execute(
                f"INSERT INTO flinkish_requests ({', '.join(values)}, number) "
                f"VALUES ({', '.join(':' + c for c in values)}, "
                "(SELECT COALESCE(MAX(number), 0) + 1 FROM flinkish_requests "
                "WHERE job_id = :job_id))",
                **values,
            )

        self._database.write(work)

    def claim(self, job_id: str) -> Request | None:
        """Claim the oldest pending request of a job; no two callers ever get the same one.

        A request that cannot be read, because a newer flinkish made it or its row is damaged, is
        failed and skipped. Returns None if no readable request is pending. If this raises
        RegistryError although a request was claimed, the next call returns that request.
        """
        pending = (
            "SELECT request_id FROM flinkish_requests WHERE job_id = :id AND state = 'PENDING' "
            "ORDER BY number LIMIT 1"
        )
        taken = doubtful = self._in_doubt.pop(job_id, None)
        if doubtful is None and not self._read(pending, id=job_id):
            return None  # an idle poll writes nothing

        def work(tx: Transaction) -> Request | None:
            nonlocal taken
            if locked(tx, job_id).is_replaced(self._drivers.get(job_id)):
                return None  # the request is for the newer driver
            if doubtful is not None and tx.rows(
                "SELECT 1 AS one FROM flinkish_requests WHERE request_id = :id "
                "AND state = 'IN_PROGRESS' AND started = :started",
                id=doubtful[0],
                started=doubtful[1],
            ):
                return _request(tx, doubtful[0])
            while rows := tx.rows(pending, id=job_id):
                taken = rows[0]["request_id"], self.now()
                tx.execute(
                    "UPDATE flinkish_requests SET state = 'IN_PROGRESS', started = :now "
                    "WHERE request_id = :id",
                    now=taken[1],
                    id=taken[0],
                )
                try:
                    return _request(tx, rows[0]["request_id"])
                except (RegistryError, UnsupportedFormat) as error:
                    fail_unfinished(tx, "request_id", taken[0], error.to_record(), self.now())
            return None

        try:
            return self._database.write(work)
        except RegistryError:
            if taken is not None:
                self._in_doubt[job_id] = taken
            raise

    def progress(self, request_id: str, progress: Mapping[str, Any]) -> bool:
        """Record the progress of a claimed request.

        Returns False if it is not (or no longer) in progress. Raises RequestNotFound.
        """
        return self._settle(request_id, "state = 'IN_PROGRESS'", progress=dump(dict(progress)))

    def complete(self, request_id: str, result: RequestResult) -> bool:
        """Complete a request with its result; return False, with no change, if it has ended.

        Raises RequestNotFound.
        """
        values = {"result": dump(encode(result)), "state": RequestState.COMPLETED.value}
        return self._settle(request_id, f"state IN {_UNFINISHED}", **values)

    def fail(self, request_id: str, error: Mapping[str, Any]) -> bool:
        """End a request with an error (``FlinkishError.to_record()``).

        Returns and raises as :meth:`complete`.
        """
        values = {"error": dump(dict(error)), "state": RequestState.FAILED.value}
        return self._settle(request_id, f"state IN {_UNFINISHED}", **values)

    def abandon(self, job_id: str, error: Mapping[str, Any]) -> int:
        """Fail all unfinished requests of a job, because no driver will serve them.

        Returns their number. Raises JobNotFound, and WrongState as :meth:`JobRecord.written_by`.
        """

        def work(tx: Transaction) -> int:
            locked(tx, job_id).written_by(self._drivers.get(job_id))
            return fail_unfinished(tx, "job_id", job_id, error, self.now())

        return self._database.write(work)

    def request(self, reference: str) -> Request:
        """Return the request with this id, or with this unique prefix (at least 4 digits).

        Raises RequestNotFound, and UsageError if the prefix is not unique.
        """
        text = reference.strip().lower()
        rows: list[Row] = []
        if statements.is_id(text):
            rows = self._read(
                f"SELECT {REQUEST_COLUMNS} FROM flinkish_requests WHERE request_id = :id", id=text
            )
        elif statements.is_prefix(text):
            rows = self._read(
                f"SELECT {REQUEST_COLUMNS} FROM flinkish_requests "
                "WHERE substr(request_id, 1, :n) = :prefix ORDER BY created",
                n=len(text),
                prefix=text,
            )
        if not rows:
            raise RequestNotFound(f"no request has the id {reference!r}")
        if len(rows) > 1:
            raise UsageError(
                f"{len(rows)} requests begin with {reference!r}", hint="give more digits of the id"
            )
        return request_of(rows[0])

    def requests(self, job_id: str, *, finished_since: float | None = None) -> list[Request]:
        """Return a job's requests, oldest first, optionally only those finished since a time."""
        lately = "" if finished_since is None else "AND finished >= :since "
        rows = self._read(
            f"SELECT {REQUEST_COLUMNS} FROM flinkish_requests "
            f"WHERE job_id = :id {lately}ORDER BY number",
            id=job_id,
            **({} if finished_since is None else {"since": finished_since}),
        )
        return [request_of(row) for row in rows]

    def ended_by(self, job_id: str) -> RequestKind | None:
        """Return which request has ended the queries of a job since its last restart, or None."""
        rows = self._read(
            "SELECT kind FROM flinkish_requests WHERE job_id = :id AND state = 'COMPLETED' "
            "AND kind IN ('stop', 'cancel') AND finished > (SELECT COALESCE(MAX(time), 0) "
            "FROM flinkish_states WHERE job_id = :id AND state = 'RESTARTING') ORDER BY number",
            id=job_id,
        )
        return RequestKind(rows[0]["kind"]) if rows else None

    def plain_cancel(self, job_id: str) -> str | None:
        """Return the id of a job's plain cancel that has no result yet, or None."""
        rows = self._read(
            "SELECT request_id, kind, arguments FROM flinkish_requests WHERE job_id = :id "
            f"AND kind = 'cancel' AND state IN {_UNFINISHED} ORDER BY number",
            id=job_id,
        )
        return next((str(row["request_id"]) for row in rows if asks_plain_cancel(row)), None)

    def is_serving(self, job_id: str) -> bool:
        """Return whether a driver has claimed a request of a job that has no result yet."""
        sql = "SELECT 1 AS one FROM flinkish_requests WHERE job_id = :id AND state = 'IN_PROGRESS'"
        return bool(self._read(sql, id=job_id))

    def stops_together(self) -> list[Request]:
        """Return all requests of every ``stop --all``, oldest first."""
        rows = self._read(
            f"SELECT {REQUEST_COLUMNS} FROM flinkish_requests "
            "WHERE kind = 'stop' AND arguments LIKE :mark ORDER BY created, request_id",
            mark='%"together"%',
        )
        return [request_of(row) for row in rows]

    def _read(self, sql: str, **parameters: Any) -> list[Row]:
        return self._database.read(sql, parameters)

    def _settle(self, request_id: str, condition: str, **columns: Any) -> bool:
        """Set columns of a request if its state allows it; a final state also sets the end time."""

        def work(tx: Transaction) -> bool:
            if "state" in columns:
                columns["finished"] = self.now()
            changed = tx.execute(
                f"UPDATE flinkish_requests SET {', '.join(f'{c} = :{c}' for c in columns)} "
                f"WHERE request_id = :id AND {condition}",
                id=request_id,
                **columns,
            )
            if not changed:
                _request(tx, request_id)
            return changed > 0

        return self._database.write(work)


def fail_unfinished(
    tx: Transaction, column: str, value: str, error: Mapping[str, Any] | None, now: float
) -> int:
    """Fail the unfinished requests with a value in a column; by default, as their job has ended."""
    if error is None:
        error = WrongState("the job ended before it served the request").to_record()
    return tx.execute(
        "UPDATE flinkish_requests SET state = 'FAILED', error = :error, finished = :now "
        f"WHERE {column} = :value AND state IN {_UNFINISHED}",
        error=dump(dict(error)),
        now=now,
        value=value,
    )


def new_request_id() -> str:
    """Return a new request id (Flink's trigger id): 32 lower-case hex digits."""
    return os.urandom(16).hex()


def _instead(job: JobRecord, *, plain_cancel: bool) -> str:
    """Return the hint for a request to a job that has already ended."""
    if plain_cancel:
        return "see what is running with: flinkish list"
    return f"take a savepoint of its checkpoints with: flinkish savepoint {job.job_id} TARGET"


def _request(tx: Transaction, request_id: str) -> Request:
    rows = tx.rows(
        f"SELECT {REQUEST_COLUMNS} FROM flinkish_requests WHERE request_id = :id", id=request_id
    )
    if not rows:
        raise RequestNotFound(f"no request has the id {request_id!r}")
    return request_of(rows[0])
