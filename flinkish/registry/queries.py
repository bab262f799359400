"""The queries of jobs, as their drivers report them: a part of the registry.

A query has a status, which every heartbeat replaces, and facts, which only its driver knows and a
savepoint needs; they are written when the query starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from flinkish.messages.codec import encode
from flinkish.messages.queries import QueryFacts, QueryStatus
from flinkish.registry.database import Transaction
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.registry.requests import Mailbox
from flinkish.registry.rows import JOB_COLUMNS, dump, facts_of, job_of, query_of
from flinkish.registry.statements import in_lists, lock


class QueryReports(Mailbox):
    """The reports of drivers about their queries, on top of the mailbox of requests."""

    def heartbeat(self, job_id: str, queries: Sequence[QueryStatus]) -> JobState:
        """Record that the driver is alive and the status of its queries, in one transaction.

        Returns the job's state in the registry, so that a driver notices that it was declared dead
        (for example, because its host was disconnected).
        """

        def work(tx: Transaction) -> JobState:
            lock(tx, job_id)
            row = tx.rows(
                "SELECT state, revision FROM flinkish_jobs WHERE job_id = :id", id=job_id
            )[0]
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
            return JobState(row["state"])

        return self._database.write(work)

    def record_facts(self, job_id: str, name: str, query_id: str, facts: QueryFacts) -> None:
        """Store the facts of a query whose first heartbeat has been written."""
        self._database.write(
            lambda tx: tx.execute(
                "UPDATE flinkish_queries SET facts = :facts "
                "WHERE job_id = :job_id AND name = :name AND query_id = :query_id",
                facts=dump(encode(facts)),
                job_id=job_id,
                name=name,
                query_id=query_id,
            )
        )

    def facts(self, job_id: str) -> dict[str, QueryFacts]:
        """Return the facts of a job's queries, by query name.

        Of several queries with the same name, the newest counts. Queries whose driver ended before
        it had recorded their facts are not in the result.
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
        """Return every job that ever ran the Spark query ``query_id``, by start time."""
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
