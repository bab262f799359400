"""Removing the records of ended jobs: a part of the registry.

The files of a job are removed first, its record last, so that an interrupted purge can be run
again. Before the first file is removed, the job is marked. A marked job can no longer be
restarted or saved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flinkish.errors import WrongState
from flinkish.messages.codec import encode
from flinkish.messages.queries import QueryStatus
from flinkish.registry.claims import Claims
from flinkish.registry.database import Transaction
from flinkish.registry.jobs import JobRecord
from flinkish.registry.rows import dump, query_of
from flinkish.registry.statements import locked, set_fields

#: The key in a job's failure that marks the job as purged; its value is the time of the purge.
MARK = "purged"
_TABLES = (
    *("flinkish_states", "flinkish_queries", "flinkish_requests"),
    *("flinkish_claims", "flinkish_jobs"),
)


def why_purged(job: JobRecord) -> WrongState | None:
    """Return the error for a use of a job whose files were or are being purged, else None."""
    if not job.failure or MARK not in job.failure:
        return None
    return WrongState(
        f"flinkish purge has removed what flinkish kept for job {job.name} ({job.job_id}), or is "
        "about to",
        hint="start the program from a savepoint, or from scratch, with: flinkish run",
        job_id=job.job_id,
        state=job.state.value,
    )


def still_purged(job: JobRecord, failure: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return a failure to record for a job, with the mark of the job's purge if it has one."""
    if not job.failure or MARK not in job.failure:
        return failure
    return {**(failure or job.failure), MARK: job.failure[MARK]}


class Purging(Claims):
    """The removal of jobs' records, on top of the claims of queries."""

    def runs(self, job_ids: Sequence[str] | None = None) -> dict[str, list[QueryStatus]]:
        """Return all runs of the queries of jobs (default: of all jobs), by job.

        Unlike :meth:`queries_of`, the result includes earlier queries of the same name.
        """
        runs_by_job: dict[str, list[QueryStatus]] = {}
        rows = self._read("SELECT job_id, status FROM flinkish_queries ORDER BY job_id, name, seen")
        for row in rows:
            if job_ids is None or row["job_id"] in job_ids:
                runs_by_job.setdefault(row["job_id"], []).append(query_of(row))
        return runs_by_job

    def begin_purge(self, seen: JobRecord, batches: Mapping[str, int]) -> JobRecord:
        """Mark an ended job whose files are about to be removed, and acknowledge its failure.

        Returns the job. ``seen`` is the job as planned. ``batches`` are the newest batches by query
        id. They are recorded, because the registry has only those of the last heartbeat, and the
        checkpoints will be gone. Raises WrongState if the job has not ended or was restarted since,
        and JobNotFound if another purge removed it.
        """

        def work(tx: Transaction) -> JobRecord:
            job = locked(tx, seen.job_id)
            if not job.state.is_final or (job.state, job.end_time) != (seen.state, seen.end_time):
                raise WrongState(
                    f"job {job.name} ({job.job_id}) is {job.state.value} by now; it stays",
                    job_id=job.job_id,
                    state=job.state.value,
                )
            if why_purged(job) is None:
                marked = _mark(job, self.now())
                set_fields(tx, job.job_id, {"failure": dump(marked)})
                job = replace(job, failure=marked)
            tx.execute(
                "UPDATE flinkish_jobs SET acknowledged = :now WHERE job_id = :id "
                "AND state = 'FAILED' AND acknowledged IS NULL",
                now=self.now(),
                id=job.job_id,
            )
            _keep_batches(tx, job.job_id, batches)
            return job

        return self._database.write(work)

    def forget(self, job_id: str) -> None:
        """Remove a marked job with its states, queries, claims, requests and disposed savepoints.

        Raises WrongState if the job is not marked (:meth:`begin_purge`) or has not ended, and
        JobNotFound.
        """

        def work(tx: Transaction) -> None:
            job = locked(tx, job_id)
            if why_purged(job) is None or not job.state.is_final:
                raise WrongState(f"job {job.name} ({job.job_id}) is not being purged")
            tx.execute(
                "DELETE FROM flinkish_savepoints WHERE job_id = :id AND disposed IS NOT NULL",
                id=job.job_id,
            )
            for table in _TABLES:  # the jobs last: the others refer to them
                tx.execute(f"DELETE FROM {table} WHERE job_id = :id", id=job.job_id)

        self._database.write(work)


def _mark(job: JobRecord, now: float) -> dict[str, Any]:
    """Return the failure of a purged job, which includes the job's own failure."""
    removed = WrongState("what flinkish kept for it was removed by flinkish purge", hint="")
    own = dict(job.failure) if job.failure else removed.to_record()
    return {**own, MARK: now}


def _keep_batches(tx: Transaction, job_id: str, batches: Mapping[str, int]) -> None:
    """Record the newest batches of queries, unless a batch at least as new is recorded."""
    rows = tx.rows(
        "SELECT name, query_id, status FROM flinkish_queries WHERE job_id = :id", id=job_id
    )
    for row in rows:
        query, newest = query_of(row), batches.get(row["query_id"])
        if newest is not None and newest > (-1 if query.batch_id is None else query.batch_id):
            tx.execute(
                "UPDATE flinkish_queries SET status = :status "
                "WHERE job_id = :id AND name = :name AND query_id = :query_id",
                status=dump(encode(replace(query, batch_id=newest))),
                id=job_id,
                name=row["name"],
                query_id=row["query_id"],
            )
