"""Statements on jobs that the registry's transactions share. Each runs inside a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from flinkish.errors import JobNotFound, NameTaken, Superseded
from flinkish.registry.database import Row, Transaction
from flinkish.registry.jobs import FINAL_STATES, JobRecord, JobState
from flinkish.registry.lookup import takes_up
from flinkish.registry.rows import JOB_COLUMNS, UPDATABLE, job_of

#: Values in one statement's IN list; SQLite's oldest limit on parameters is 999.
_CHUNK = 500


def unknown(job_id: str) -> JobNotFound:
    """Return the error for a job id that is in no row."""
    return JobNotFound(f"could not find job {job_id}")


def is_guess(failure: Mapping[str, Any]) -> bool:
    """Return whether a failure was recorded by a reader that only saw that the process was gone."""
    return failure.get("id") == "driver-lost"


def lock(tx: Transaction, job_id: str) -> None:
    """Lock the job's row until the transaction ends. Raises :class:`JobNotFound`."""
    if not tx.execute(
        "UPDATE flinkish_jobs SET revision = revision + 1 WHERE job_id = :id", id=job_id.lower()
    ):
        raise unknown(job_id)


def locked(tx: Transaction, job_id: str) -> JobRecord:
    """Lock the job's row until the transaction ends and return the job.

    Raises :class:`JobNotFound`.
    """
    lock(tx, job_id)
    return job_row(tx, job_id)


def job_row(tx: Transaction, job_id: str) -> JobRecord:
    """Return the job with an id that is known to exist."""
    rows = tx.rows(f"SELECT {JOB_COLUMNS} FROM flinkish_jobs WHERE job_id = :id", id=job_id.lower())
    return job_of(rows[0])


def refuse_taken(tx: Transaction, name: str, job_id: str) -> None:
    """Raise :class:`NameTaken` when a job other than ``job_id`` has the name and has not ended."""
    final = {f"s{i}": state for i, state in enumerate(sorted(s.value for s in FINAL_STATES))}
    rows = tx.rows(
        f"SELECT {JOB_COLUMNS} FROM flinkish_jobs WHERE name = :name AND job_id <> :id "
        f"AND state NOT IN ({', '.join(':' + mark for mark in final)}) "
        "ORDER BY start_time DESC, job_id LIMIT 1",
        name=name,
        id=job_id,
        **final,
    )
    if rows:
        raise name_taken(job_of(rows[0]))


def name_taken(holder: JobRecord) -> NameTaken:
    """Return the error for a name that the job ``holder`` has."""
    return NameTaken(
        f"the name {holder.name} is that of job {holder.job_id}, which is {holder.state.value}",
        hint=f"stop that job with: flinkish stop {holder.job_id}; flinkish run also takes another "
        "--name, or --if-not-running to do nothing then",
        job_id=holder.job_id,
        state=holder.state.value,
    )


def successor_row(rows: Callable[..., Sequence[Row]], job: JobRecord) -> JobRecord | None:
    """Return the newest job that has continued, or is about to continue, from a job's state.

    Such a job has run one of its queries, or was started from its checkpoints or a savepoint of it
    after ``job`` (or its driver) had ended; an ended successor counts only if it had a query of its
    own. ``rows`` runs an SQL query, in a transaction or as a reader.
    """
    # A job that takes over from one that runs (a handover) starts before that one ends.
    after = "j.start_time >= :since" if job.end_time is None else "j.end_time > :since"
    final = {f"s{i}": state for i, state in enumerate(sorted(s.value for s in FINAL_STATES))}
    columns = ", ".join(f"j.{column.strip()}" for column in JOB_COLUMNS.split(","))
    successors = rows(
        f"SELECT DISTINCT {columns} FROM flinkish_queries mine "
        "JOIN flinkish_queries q ON q.query_id = mine.query_id AND q.job_id <> mine.job_id "
        "JOIN flinkish_jobs j ON j.job_id = q.job_id WHERE mine.job_id = :id "
        f"AND ({after} OR j.state NOT IN ({', '.join(':' + mark for mark in final)})) "
        "ORDER BY j.start_time DESC, j.job_id LIMIT 1",
        id=job.job_id,
        since=job.start_time if job.end_time is None else job.end_time,
        **final,
    )
    jobs = [job_of(row) for row in successors]
    if job.end_time is not None:
        jobs += _started_from(rows, job, job.end_time)
    return max(jobs, key=lambda each: each.start_time, default=None)


def _started_from(
    rows: Callable[..., Sequence[Row]], job: JobRecord, ended: float
) -> Iterator[JobRecord]:
    """Yield the jobs that were started from a job's state when it had ended."""
    saved = rows("SELECT path FROM flinkish_savepoints WHERE job_id = :id", id=job.job_id)
    paths = {str(row["path"]) for row in saved}
    later = rows(
        f"SELECT {JOB_COLUMNS}, EXISTS (SELECT 1 FROM flinkish_queries q "
        "WHERE q.job_id = flinkish_jobs.job_id) AS has_run FROM flinkish_jobs "
        "WHERE start_time >= :ended AND job_id <> :id",
        ended=ended,
        id=job.job_id,
    )
    for row in later:
        values = dict(row)
        has_run = bool(values.pop("has_run"))
        other = job_of(values)
        is_meant = has_run or not other.state.is_final
        if is_meant and takes_up(other.launch.restore, job.job_id, paths):
            yield other


def superseded(job: JobRecord, successor: JobRecord) -> Superseded:
    """Return the error for a job that another one has continued."""
    return Superseded(
        f"job {job.name} ({job.job_id}) cannot be started again in place: job {successor.name} "
        f"({successor.job_id}), which is {successor.state.value}, has resumed from its state",
        hint="start that one again, or this one from a savepoint; see: flinkish status "
        f"{successor.job_id}",
        job_id=successor.job_id,
        state=successor.state.value,
    )


def set_fields(tx: Transaction, job_id: str, values: Mapping[str, Any]) -> None:
    """Set columns of a job. Their names come from this package, never from outside."""
    assert values.keys() <= UPDATABLE | {"state", "launch", "name"}
    if values:
        columns = ", ".join(f"{name} = :{name}" for name in values)
        tx.execute(f"UPDATE flinkish_jobs SET {columns} WHERE job_id = :id", id=job_id, **values)


def record_state(
    tx: Transaction, job_id: str, state: JobState, when: float, reason: str | None
) -> None:
    """Append a state to a job's history; ``when`` is in seconds since the epoch."""
    tx.execute(
        "INSERT INTO flinkish_states (job_id, number, state, time, reason) "
        "VALUES (:id, (SELECT COALESCE(MAX(number), 0) + 1 FROM flinkish_states "
        "WHERE job_id = :id), :state, :time, :reason)",
        id=job_id,
        state=state.value,
        time=when,
        reason=reason,
    )


def in_lists(job_ids: Iterable[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield IN lists of bounded length: (parameter marks, their values)."""
    ids = sorted(set(job_ids))
    for start in range(0, len(ids), _CHUNK):
        values = {f"j{i}": job_id for i, job_id in enumerate(ids[start : start + _CHUNK])}
        yield ", ".join(":" + mark for mark in values), values
