"""Statements on jobs that the registry's transactions share, and how names and ids are resolved."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from flinkish.errors import (
    AmbiguousJob,
    DriverLost,
    FlinkishError,
    JobNotFound,
    Locked,
    NameTaken,
    Superseded,
    UsageError,
    WrongState,
)
from flinkish.messages.launch import RestoreSpec
from flinkish.registry.database import Row, Transaction
from flinkish.registry.jobs import FINAL_STATES, JobRecord, JobState
from flinkish.registry.rows import JOB_COLUMNS, UPDATABLE, asks_plain_cancel, job_of, one_place
from flinkish.units import first_of

ID_LENGTH = 32
MIN_PREFIX = 4


def is_id(text: str) -> bool:
    """Return whether the text is a complete job or request id: 32 hex digits in any case."""
    return re.fullmatch(r"[0-9a-fA-F]{32}", text) is not None


def is_prefix(text: str) -> bool:
    """Return whether the text may be the beginning of an id: 4 to 32 hex digits."""
    return re.fullmatch(r"[0-9a-fA-F]{4,32}", text) is not None


def name_matches(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern: ``*`` and ``?`` are the only wildcards."""
    from fnmatch import fnmatchcase  # only where there is a pattern: `list` starts without it

    return name == pattern or fnmatchcase(name, pattern.replace("[", "[[]"))


def choose(
    reference: str, by_id: Sequence[JobRecord], by_name: Sequence[JobRecord], *, include_final: bool
) -> JobRecord:
    """Return the one job that ``reference`` refers to.

    A prefix matches a job in any state (the caller checks the state). A name refers to unfinished
    jobs first; if there are none, with ``include_final`` it refers to ended jobs. ``by_id`` are the
    jobs whose id starts with the reference (empty if it cannot be an id), ``by_name`` those with
    exactly that name. Raises AmbiguousJob, JobNotFound, or UsageError for a malformed id.
    """
    active = [job for job in by_name if not job.state.is_final]
    named = active or (list(by_name) if include_final else [])
    candidates = {job.job_id: job for job in (*by_id, *named)}
    if len(candidates) == 1:
        return next(iter(candidates.values()))
    if candidates:
        raise ambiguous(reference, sorted(candidates.values(), key=lambda job: job.start_time))
    raise _nothing(reference, by_name)


def takes_up(restore: RestoreSpec | None, job_id: str, savepoints: Collection[str]) -> bool:
    """Return whether a restore that is not a fork uses a job's state or savepoints.

    ``savepoints`` are paths in the spelling of :func:`.rows.one_place`.
    """
    if restore is None or restore.options.fork:
        return False
    return restore.job == job_id or _began_at(restore) in savepoints


def _began_at(restore: RestoreSpec | None) -> str | None:
    """Return the place of the savepoint of a restore that is not a fork, or None."""
    if restore is None or restore.options.fork or not restore.path:
        return None
    return one_place(restore.path)


def without_superseded(
    jobs: Sequence[JobRecord],
    query_ids: Mapping[str, Collection[str]],
    savepoints: Mapping[str, Collection[str]],
) -> list[JobRecord]:
    """Return those of the ended jobs that no later job among them has continued.

    A later job continues an earlier one if it runs one of the earlier job's queries, or was started
    from the earlier job's checkpoints or savepoints, or from the same savepoint as the earlier job
    (as after an upgrade that was rolled back). A fork continues no other job, nor does a job that
    never started a query. ``query_ids`` and ``savepoints`` (paths) are by job id.
    """
    # The links in each path are resolved only once, because an old name may have very many runs.
    places = {job_id: {*map(one_place, paths)} for job_id, paths in savepoints.items()}
    began = {job.job_id: _began_at(job.launch.restore) for job in jobs}

    def goes_on(later: JobRecord, job: JobRecord) -> bool:
        if later.start_time <= job.start_time or not query_ids[later.job_id]:
            return False
        if not set(query_ids[later.job_id]).isdisjoint(query_ids[job.job_id]):
            return True
        restore, place = later.launch.restore, began[later.job_id]
        if restore is None or restore.options.fork:
            return False
        is_same = place in places[job.job_id] or place == began[job.job_id]
        return restore.job == job.job_id or (place is not None and is_same)

    return [job for job in jobs if not any(goes_on(later, job) for later in jobs)]


def ambiguous(reference: str, jobs: Sequence[JobRecord]) -> AmbiguousJob:
    """Return the error for a reference that means several jobs."""
    lines = [f"{job.job_id} {job.name} ({job.state.value})" for job in jobs]
    return AmbiguousJob(
        f"{reference!r} means {len(jobs)} jobs: {first_of(lines, limit=5)}",
        hint="give the id of one of them",
        candidates=[
            {"job_id": job.job_id, "name": job.name, "state": job.state.value} for job in jobs
        ],
    )


def _nothing(reference: str, by_name: Sequence[JobRecord]) -> FlinkishError:
    if by_name:
        last = max(by_name, key=lambda job: job.start_time)
        return JobNotFound(
            f"no job named {reference!r} is running; its last one, {last.job_id}, "
            f"is {last.state.value}",
            hint="name a finished job by its id; see them with: flinkish list -a",
        )
    if is_id(reference):
        return JobNotFound(f"could not find job {reference.lower()}")
    if len(reference) == ID_LENGTH:
        return UsageError(
            f'cannot parse JobID from "{reference}": '
            "the expected format is [0-9a-fA-F]{32}, a job id of 32 hex digits",
            hint=JobNotFound.default_hint,
        )
    if is_prefix(reference):
        return JobNotFound(f"no job has an id that begins with {reference!r}, or that name")
    if re.fullmatch(r"[0-9a-fA-F]{1,3}", reference):
        return JobNotFound(
            f"no job is named {reference!r}, and as the beginning of an id it is too short",
            hint=f"use at least {MIN_PREFIX} digits; see the jobs with: flinkish list -a",
        )
    return JobNotFound(f"no running job is named {reference!r}, and it is not a job id")


#: Values in one statement's IN list; SQLite's oldest limit on parameters is 999.
_CHUNK = 500


def unknown(job_id: str) -> JobNotFound:
    """Return the error for a job id that the registry does not have."""
    return JobNotFound(f"could not find job {job_id}")


#: Matches, with LIKE, the recorded failures for which :func:`is_guess` is true.
GUESS = f'%"{DriverLost.id}"%'


def is_guess(failure: Mapping[str, Any] | None) -> bool:
    """Return whether a failure may be only a reader's finding that the process was gone. Pure."""
    return failure is not None and failure.get("id") == DriverLost.id


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


def refuse_changed(job: JobRecord, seen: JobRecord) -> None:
    """Raise WrongState if a job's state, processes or heartbeat are no longer as they were seen."""

    def signs(each: JobRecord) -> tuple[object, ...]:
        return each.state, each.end_time, each.supervisor, each.driver, each.heartbeat

    if signs(job) != signs(seen):
        raise WrongState(
            f"job {job.name} ({job.job_id}) has changed, and is {job.state.value} by now",
            job_id=job.job_id,
            state=job.state.value,
        )


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
    """Return the error for a name that the job ``holder`` already has."""
    return NameTaken(
        f"the name {holder.name} is that of job {holder.job_id}, which is {holder.state.value}",
        hint=f"stop that job with: flinkish stop {holder.job_id}; or choose another --name; with "
        "--if-not-running, flinkish run does nothing in this case",
        job_id=holder.job_id,
        state=holder.state.value,
    )


def successor_row(rows: Callable[..., Sequence[Row]], job: JobRecord) -> JobRecord | None:
    """Return the newest job that has continued, or is about to continue, from a job's state.

    Such a successor has run one of the job's queries, or was started from the job's checkpoints or
    savepoints after the job had ended. A successor of the second kind that has itself ended counts
    only if it ran a query. ``rows`` runs an SQL query, in a transaction or as a reader.
    """
    # In a handover the new job starts before the old one ends.
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
    """Yield jobs that started from a job's state after its end, and ran a query or are not over."""
    saved = rows("SELECT path FROM flinkish_savepoints WHERE job_id = :id", id=job.job_id)
    paths = {one_place(str(row["path"])) for row in saved}
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
        f"job {job.name} ({job.job_id}) cannot go on from where it ended: job {successor.name} "
        f"({successor.job_id}), which is {successor.state.value}, has resumed from its state",
        hint=f"start job {successor.job_id} again, or name a savepoint for this job; see: "
        f"flinkish status {successor.job_id}",
        job_id=successor.job_id,
        state=successor.state.value,
    )


def set_fields(tx: Transaction, job_id: str, values: Mapping[str, Any]) -> None:
    """Set columns of a job. Their names come from this package, never from outside."""
    assert values.keys() <= UPDATABLE | {"state", "launch", "name", "acknowledged"}
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
    """Yield SQL IN lists of bounded length, each as its parameter marks and their values."""
    ids = sorted(set(job_ids))
    for start in range(0, len(ids), _CHUNK):
        values = {f"j{i}": job_id for i, job_id in enumerate(ids[start : start + _CHUNK])}
        yield ", ".join(":" + mark for mark in values), values


def refuse_second(tx: Transaction, job: JobRecord, *, plain_cancel: bool) -> None:
    """Raise Locked if a stop or cancel that the new request does not override is unfinished."""
    rows = tx.rows(
        "SELECT request_id, kind, arguments FROM flinkish_requests WHERE job_id = :id "
        "AND state IN ('PENDING', 'IN_PROGRESS') AND kind IN ('stop', 'cancel') ORDER BY number",
        id=job.job_id,
    )
    if plain_cancel:
        # It overrides requests that wait for a savepoint; only another plain cancel conflicts.
        rows = [row for row in rows if asks_plain_cancel(row)]
    if rows:
        first = rows[0]
        raise Locked(
            f"job {job.name} ({job.job_id}) is already being ended by the {first['kind']} request "
            f"{first['request_id']}",
            hint=f"follow that request with: flinkish request wait {first['request_id']}",
            job_id=job.job_id,
            request_id=first["request_id"],
        )
