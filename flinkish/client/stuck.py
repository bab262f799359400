"""Stuck jobs, such as jobs with input that commit nothing: the rule, and how to find them.

The rule uses what a driver reports with each heartbeat. A running query is stuck if it has found
input or computes a batch, but for ``execution.stuck.timeout`` and for two of its trigger intervals
it has neither ended a batch nor been seen waiting for input. A failed query is stuck after the same
time if its job keeps running. A job is stuck if its driver runs but has not reported for
``execution.stuck.timeout``, and for at least 30 s. A query that waits for input is not stuck, and
neither is a query of which nobody knows whether it waits (an irregular trigger).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flinkish.client.context import Context
from flinkish.client.metrics import seconds_of
from flinkish.messages.queries import QueryStatus
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.registry.liveness import STALE
from flinkish.units import age_text

TIMEOUT = "execution.stuck.timeout"
#: Number of triggers that may pass without a batch.
_TRIGGERS = 2


@dataclass(frozen=True)
class Stuck:
    """A stuck query of a job; ``query`` is None if it is the job's driver that is stuck.

    ``seconds``: for how long. ``failed``: whether the query has failed.
    """

    query: str | None
    seconds: float
    failed: bool = False

    def describe(self) -> str:
        """Return what is wrong, as a clause."""
        age = age_text(self.seconds)
        if self.query is None:
            return f"its driver runs but has not reported for {age}"
        if self.failed:
            return f"query '{self.query}' has failed, and has committed nothing for {age}"
        return f"query '{self.query}' has input but has committed nothing for {age}"


def stuck_queries(
    job: JobRecord,
    queries: Sequence[QueryStatus],
    *,
    running_since: float,
    now: float,
    timeout: float,
) -> list[Stuck]:
    """Return the driver of a job if it is stuck, or else the stuck queries of the job. Pure.

    ``queries``: as the driver last reported them. ``running_since``: when the job last became
    RUNNING. ``now``: by the registry's clock. ``timeout``: the value of
    ``execution.stuck.timeout``. Times are seconds since the epoch.
    """
    if job.state is not JobState.RUNNING:
        return []
    silent = now - max(job.heartbeat or 0.0, running_since)
    if silent > max(timeout, STALE):
        return [Stuck(None, silent)]
    stuck = []
    for query in queries:
        failed = not query.active and query.error is not None
        if failed or (query.active and query.waits_for_input is False):
            seen = (query.last_batch_end, query.waited_until)
            since = max(running_since, *(seconds_of(moment) or 0.0 for moment in seen))
            limit = max(timeout, _TRIGGERS * (query.trigger_interval or 0.0))
            if now - since > limit:
                stuck.append(Stuck(query.name, now - since, failed))
    return stuck


def find_stuck(context: Context, jobs: Sequence[JobRecord]) -> dict[str, list[Stuck]]:
    """Return what is stuck in each job, by job id; jobs in which nothing is stuck are left out."""
    registry, timeout = context.registry, context.config.duration(TIMEOUT)
    queries, now = registry.queries_of(job.job_id for job in jobs), registry.now()
    stuck_by_job = {}
    for job in jobs:
        history = registry.state_history(job.job_id)
        began = [change.time for change in history if change.state is JobState.RUNNING]
        stuck = stuck_queries(
            job,
            queries.get(job.job_id, ()),
            running_since=max(began, default=job.start_time),
            now=now,
            timeout=timeout,
        )
        if stuck:
            stuck_by_job[job.job_id] = stuck
    return stuck_by_job
