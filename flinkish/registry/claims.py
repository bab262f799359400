"""The queries of jobs as their drivers report them, and the claims of queries and supervisors.

Only one query at a time may run under a Spark query id, and a file sink has one writer. Before
Spark starts a query, the query claims its query id and its file sink in the registry. It also
claims its checkpoint, because a new query has no query id yet, and its table, which never
conflicts. A claim needs no release: it holds until its query or its job ends, or until the query
makes other claims. The job's next driver does not inherit claims. The claims of a job that counts
as lost are kept, because its driver may report again (:func:`claimed_since`).

A query has a status, which every heartbeat replaces, and facts, which only its driver knows and a
savepoint needs. The facts are written when the query starts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.errors import WrongState
from flinkish.messages.codec import encode
from flinkish.messages.queries import QueryFacts, QueryStatus
from flinkish.registry.database import Transaction
from flinkish.registry.jobs import FINAL_STATES, JobRecord, JobState, ProcessRef
from flinkish.registry.requests import Mailbox
from flinkish.registry.rows import JOB_COLUMNS, column_value, dump, facts_of, job_of, query_of
from flinkish.registry.statements import GUESS, in_lists, job_row, locked, set_fields


class QueryReports(Mailbox):
    """The reports of drivers about their queries, on top of the mailbox of requests."""

    def heartbeat(self, job_id: str, queries: Sequence[QueryStatus]) -> JobState:
        """Record that the driver is alive and the status of its queries, in one transaction.

        Returns the job's state in the registry, so that a driver notices that it was declared dead
        (for example, because its host was disconnected). Raises JobNotFound.
        """

        def work(tx: Transaction) -> JobState:
            job = locked(tx, job_id)
            if job.is_replaced(self._drivers.get(job_id)):
                return job.state  # the reports are those of the newer driver
            row = tx.rows("SELECT revision FROM flinkish_jobs WHERE job_id = :id", id=job_id)[0]
            tx.execute(
                "UPDATE flinkish_jobs SET heartbeat = :now WHERE job_id = :id",
                now=self.now(),
                id=job_id,
            )
            for query in queries:
                tx.execute(
                    "INSERT INTO flinkish_queries (job_id, name, query_id, status, seen) "
                    "VALUES (:job_id, :name, :query_id, :status, :seen) "
                    "ON CONFLICT (job_id, name, query_id) "
                    "DO UPDATE SET status = excluded.status, seen = excluded.seen",
                    job_id=job_id,
                    name=query.name,
                    query_id=query.query_id,
                    status=dump(encode(query)),
                    seen=row["revision"],
                )
            return job.state

        return self._database.write(work)

    def record_facts(self, job_id: str, name: str, query_id: str, facts: QueryFacts) -> None:
        """Store the facts of a query whose first heartbeat has been written.

        Those of a replaced driver (:meth:`act_as`) are ignored. Raises JobNotFound.
        """

        def work(tx: Transaction) -> None:
            if locked(tx, job_id).is_replaced(self._drivers.get(job_id)):
                return
            tx.execute(
                "UPDATE flinkish_queries SET facts = :facts "
                "WHERE job_id = :job_id AND name = :name AND query_id = :query_id",
                facts=dump(encode(facts)),
                job_id=job_id,
                name=name,
                query_id=query_id,
            )

        self._database.write(work)

    def facts(self, job_id: str) -> dict[str, QueryFacts]:
        """Return the facts of a job's queries, by query name.

        Of several queries with the same name, the newest counts. Queries whose facts are not
        recorded (yet) are not in the result.
        """
        rows = self._read(
            "SELECT name, facts FROM flinkish_queries WHERE job_id = :id ORDER BY name, seen",
            id=job_id,
        )
        newest = {row["name"]: facts_of(row) for row in rows}
        return {name: facts for name, facts in newest.items() if facts is not None}

    def queries(self, job_id: str) -> list[QueryStatus]:
        """Return the queries of a job by name, as last reported; one per name, the newest."""
        return self.queries_of([job_id]).get(job_id, [])

    def queries_of(self, job_ids: Iterable[str]) -> dict[str, list[QueryStatus]]:
        """Return the queries of several jobs; jobs without queries are not in the result."""
        newest: dict[str, dict[str, QueryStatus]] = {}
        for marks, values in in_lists(job_ids):
            rows = self._read(
                "SELECT job_id, status FROM flinkish_queries "
                f"WHERE job_id IN ({marks}) ORDER BY job_id, name, seen",
                **values,
            )
            for row in rows:
                query = query_of(row)
                newest.setdefault(row["job_id"], {})[query.name] = query
        return {job_id: list(queries.values()) for job_id, queries in newest.items()}

    def find_query(self, query_id: str) -> list[tuple[JobRecord, QueryStatus]]:
        """Return the jobs that ran a Spark query, each with the query's status, by start time."""
        rows = self._read(
            f"SELECT {', '.join('j.' + c.strip() for c in JOB_COLUMNS.split(','))}, q.status "
            "FROM flinkish_queries q JOIN flinkish_jobs j ON j.job_id = q.job_id "
            "WHERE q.query_id = :id ORDER BY j.start_time, j.job_id, q.seen",
            id=query_id,
        )
        matches = {}
        for row in rows:
            query = query_of({"status": row.pop("status")})
            matches[row["job_id"]] = (job_of(row), query)
        return list(matches.values())


_ID = "query:"
_FILES = "files:"
_TABLE = "table:"
_CHECKPOINT = "checkpoint:"
_FINAL = ", ".join(sorted(f"'{state.value}'" for state in FINAL_STATES))
_JOB = ", ".join(f"j.{column.strip()}" for column in JOB_COLUMNS.split(","))
_CLAIMS = (
    f"SELECT {_JOB}, c.resource, c.query, q.status, q.seen, c.since FROM flinkish_claims c "
    "JOIN flinkish_jobs j ON j.job_id = c.job_id "
    "LEFT JOIN flinkish_queries q ON q.job_id = c.job_id AND q.name = c.query "
    f"WHERE j.state NOT IN ({_FINAL})"
)
_ORDER = "ORDER BY j.start_time, j.job_id, c.resource, q.seen"


def query_resource(query_id: str) -> str:
    """Return the resource of a Spark query id."""
    return _ID + query_id


def file_resource(place: str) -> str:
    """Return the resource of a file sink at a location."""
    return _FILES + place


def table_resource(place: str) -> str:
    """Return the resource of a table, by its location or name; several queries may write to it."""
    return _TABLE + place


def checkpoint_resource(place: str) -> str:
    """Return the resource of a checkpoint at a location."""
    return _CHECKPOINT + place


@dataclass(frozen=True)
class Claim:
    """A resource that a query of a job holds."""

    resource: str
    job: JobRecord
    query: str

    @property
    def is_table(self) -> bool:
        """Whether the resource is a table."""
        return self.resource.startswith(_TABLE)

    @property
    def is_checkpoint(self) -> bool:
        """Whether the resource is a checkpoint."""
        return self.resource.startswith(_CHECKPOINT)

    @property
    def place(self) -> str:
        """The place that the query writes to, its checkpoint, or its query id."""
        return self.resource.partition(":")[2]


class Claims(QueryReports):
    """The claims of queries and supervisors, on top of the reports about queries."""

    def supervise(self, job_id: str, process: ProcessRef) -> JobRecord | None:
        """Record a job's supervisor; return the job, or None if another process is its supervisor.

        If two processes are about to start a job's driver, because the first was delayed, only one
        of them starts it.

        Raises JobNotFound.
        """

        def work(tx: Transaction) -> JobRecord | None:
            job = locked(tx, job_id)
            if job.supervisor not in (None, process):
                return None
            set_fields(tx, job.job_id, {"supervisor": column_value("supervisor", process)})
            return job_row(tx, job.job_id)

        return self._database.write(work)

    def claim_resources(
        self,
        job_id: str,
        query: str,
        resources: Sequence[str],
        *,
        over: Collection[tuple[str, str]] = (),
    ) -> list[Claim]:
        """Claim resources for a query that is about to start.

        A query that claims nothing releases what it held. ``over`` has the claims that do not
        count, each as the id of its job and its resource.

        Returns the conflicting claims: those of other jobs, and those of this job's other queries
        on file sinks. If there are any, nothing was claimed. A table never conflicts.

        Raises JobNotFound, and WrongState if the job has ended (its driver may have been declared
        dead) or has another driver (:meth:`act_as`).
        """

        def work(tx: Transaction) -> list[Claim]:
            self._database.serialize(tx)
            job = locked(tx, job_id).written_by(self._drivers.get(job_id))
            if job.state.is_final:
                raise WrongState(
                    f"job {job.name} ({job.job_id}) is {job.state.value} by now and cannot start "
                    "queries",
                    hint="see what runs with: flinkish list",
                    job_id=job.job_id,
                    state=job.state.value,
                )
            others = [
                claim
                for each in resources
                if not each.startswith(_TABLE)
                for claim in _holders(tx, each)
                if _is_other(claim, job_id, query)
                and (claim.job.job_id, claim.resource) not in over
            ]
            if others:
                return others
            tx.execute(
                "DELETE FROM flinkish_claims WHERE job_id = :id AND query = :query",
                id=job_id,
                query=query,
            )
            for each in resources:
                tx.execute(
                    "DELETE FROM flinkish_claims WHERE resource = :resource AND job_id IN "
                    f"(SELECT job_id FROM flinkish_jobs WHERE state IN ({_FINAL}) "
                    "AND COALESCE(failure, '') NOT LIKE :lost)",
                    resource=each,
                    lost=GUESS,
                )
                tx.execute(
                    "INSERT INTO flinkish_claims (resource, job_id, query, since) VALUES "
                    "(:resource, :id, :query, "
                    "(SELECT revision FROM flinkish_jobs WHERE job_id = :id))",
                    resource=each,
                    id=job_id,
                    query=query,
                )
            return []

        return self._database.write(work)

    def writers(self) -> list[Claim]:
        """Return the claims on files and tables that the queries of unfinished jobs write to."""
        written = f"substr(c.resource, 1, {len(_FILES)}) IN ('{_FILES}', '{_TABLE}')"
        rows = self._read(f"{_CLAIMS} AND {written} {_ORDER}")
        return _running(rows)


def claimed_since(tx: Transaction, job: JobRecord) -> JobRecord | None:
    """Return a job that claimed, since ``job`` ended, a resource that ``job`` held, or None.

    A claimant that has itself ended since counts too. Tables do not count, as they have several
    writers.
    """
    rows = tx.rows(
        f"SELECT {_JOB} FROM flinkish_claims c JOIN flinkish_jobs j ON j.job_id = c.job_id "
        f"WHERE c.job_id <> :id AND (j.state NOT IN ({_FINAL}) OR j.end_time > :ended) "
        "AND c.resource IN (SELECT resource FROM flinkish_claims WHERE job_id = :id "
        f"AND substr(resource, 1, {len(_TABLE)}) <> '{_TABLE}' "
        f"UNION SELECT '{_ID}' || query_id FROM flinkish_queries WHERE job_id = :id) "
        "ORDER BY j.start_time DESC, j.job_id LIMIT 1",
        id=job.job_id,
        ended=job.end_time,
    )
    return job_of(rows[0]) if rows else None


def _is_other(claim: Claim, job_id: str, query: str) -> bool:
    """Return whether a claim is another job's, or another query's on a file sink. Pure.

    Within one program, Spark itself decides which of two queries with one query id runs.
    """
    if claim.job.job_id != job_id:
        return True
    return claim.query != query and claim.resource.startswith(_FILES)


def _holders(tx: Transaction, resource: str) -> list[Claim]:
    """Return the claims on a resource by queries of unfinished jobs."""
    claims = _running(tx.rows(f"{_CLAIMS} AND c.resource = :resource {_ORDER}", resource=resource))
    if not resource.startswith(_ID):
        return claims
    # A query that started with a new query id holds that id without a claim.
    rows = tx.rows(
        f"SELECT {_JOB}, q.query_id AS resource, q.name AS query, q.status, q.seen, 0 AS since "
        "FROM flinkish_queries q JOIN flinkish_jobs j ON j.job_id = q.job_id "
        f"WHERE j.state NOT IN ({_FINAL}) AND q.query_id = :id",
        id=resource.removeprefix(_ID),
    )
    job_ids = {claim.job.job_id for claim in claims}
    return [*claims, *(claim for claim in _running(rows) if claim.job.job_id not in job_ids)]


def _running(rows: Iterable[Mapping[str, Any]]) -> list[Claim]:
    """Return the claims, without those whose query has ended since, according to its newest row.

    ``seen`` and ``since`` are revisions of the job: ``seen`` at the query's last report, ``since``
    at the claim.
    """
    claims: dict[tuple[str, str, str], Claim] = {}
    for row in rows:
        values = dict(row)
        resource, query, status, seen, since = (
            values.pop(key) for key in ("resource", "query", "status", "seen", "since")
        )
        job = job_of(values)
        key = (resource, job.job_id, query)
        ended = status is not None and seen >= since and not query_of({"status": status}).active
        claims.pop(key, None)
        if not ended:
            claims[key] = Claim(resource, job, query)
    return list(claims.values())
