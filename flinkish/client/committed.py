"""The newest committed batches of a job's queries, and the wait for newer batches."""

from __future__ import annotations

from dataclasses import dataclass, replace

from flinkish.client.context import Context, interruptible
from flinkish.client.waiting import look, not_canceled, not_failed
from flinkish.errors import WaitTimeout, WrongState
from flinkish.messages.queries import QueryStatus
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.registry.waiting import wait_job

#: Seconds between two looks at commit logs: on this host's file systems, and elsewhere.
_POLL_LOCAL, _POLL_REMOTE = 0.1, 1.0


@dataclass(frozen=True)
class Committed:
    """A job's queries, each with its newest committed batch.

    ``job``: the job as it was when the batches were read.
    """

    job: JobRecord
    queries: tuple[QueryStatus, ...]


def newest_batches(context: Context, job: JobRecord) -> Committed:
    """Return the newest committed batches of a job's queries, as last reported by its driver.

    Raises WrongState if the job has no streaming query.
    """
    return Committed(job, _not_empty(job, context.registry.queries(job.job_id)))


def next_batches(context: Context, job: JobRecord, timeout: float) -> Committed:
    """Wait until each query of a job has committed a newer batch than it has now.

    Queries that have ended are not waited for. If the job ends, its newest batches are returned.

    Raises WaitTimeout if a query has not committed a newer batch in time (the job keeps running);
    WrongState if the job has no streaming query; FlinkishError if the job failed (its failure) or
    was canceled; StorageError if a checkpoint cannot be reached.
    """
    registry = context.registry
    committed = _with_newest(registry.queries(job.job_id))
    before = {query.name: query.batch_id for query in committed}

    def behind(queries: list[QueryStatus]) -> list[QueryStatus]:
        return [q for q in queries if q.active and not _moved(before.get(q.name), q.batch_id)]

    def done(now: JobRecord) -> bool:
        if now.state is not JobState.RUNNING:
            return now.state.is_final
        return not behind(_with_newest(registry.queries(job.job_id)))

    local = all(query.checkpoint_dir.startswith("/") for query in committed)
    poll = _POLL_LOCAL if local else _POLL_REMOTE
    with interruptible(
        f"stopped waiting; job {job.job_id} keeps running", f"flinkish checkpoint {job.job_id}"
    ):
        try:
            ended = wait_job(registry, job.job_id, done, timeout, poll)
        except WaitTimeout as late:
            waiting = behind(_with_newest(registry.queries(job.job_id)))
            raise _not_committed(late, look(context, job), before, waiting, timeout) from None
        ended = not_canceled(not_failed(context, ended))
    return Committed(ended, _not_empty(ended, _with_newest(registry.queries(job.job_id))))


def _moved(before: int | None, now: int | None) -> bool:
    return now is not None and (before is None or now > before)


def _with_newest(queries: list[QueryStatus]) -> list[QueryStatus]:
    """Return the queries with the newest batches of their commit logs.

    The logs are ahead of the driver's reports. A query without a log keeps the reported batch.
    """
    from flinkish.checkpoint.cut import newest_committed_batch

    newest = []
    for query in queries:
        batch = newest_committed_batch(query.checkpoint_dir)
        newest.append(query if batch is None else replace(query, batch_id=batch))
    return newest


def _not_empty(job: JobRecord, queries: list[QueryStatus]) -> tuple[QueryStatus, ...]:
    if not queries:
        raise WrongState(
            f"job {job.name} ({job.job_id}) has no streaming query; it is {job.state.value}",
            hint=f"see: flinkish status {job.job_id}",
        )
    return tuple(queries)


def _position(batch: int | None) -> str:
    return "no batch yet" if batch is None else f"at batch {batch}"


def _not_committed(
    late: WaitTimeout,
    job: JobRecord,
    before: dict[str, int | None],
    queries: list[QueryStatus],
    timeout: float,
) -> WaitTimeout:
    if job.state is not JobState.RUNNING or not queries:
        return late
    names = ", ".join(f"'{query.name}' ({_position(before.get(query.name))})" for query in queries)
    return WaitTimeout(
        f"no batch was committed within {timeout:g} s by {names} of job {job.name} "
        f"({job.job_id}); the job keeps running",
        hint="Spark runs no batch without new input; --no-wait shows the newest one",
        **late.data,
    )
