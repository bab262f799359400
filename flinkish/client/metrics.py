"""The registry in numbers: jobs, queries, savepoints.

:func:`measure` reads the registry; :func:`metrics_of` makes metrics of what was read (pure).
No driver is asked, so the numbers of a query are as old as its driver's last heartbeat.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Literal

from flinkish.annotations import public_evolving
from flinkish.client.context import Context
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import SavepointSummary
from flinkish.registry.jobs import JobRecord, JobState, JobStateChange
from flinkish.registry.liveness import reconcile

#: What Spark reports as the watermark before there is one.
_NO_WATERMARK = 0.0


@public_evolving
@dataclass(frozen=True)
class Sample:
    """One number of a metric, for a job, a query, a state of jobs, or the whole registry.

    ``labels``: what the number is about.
    """

    labels: Mapping[str, str]
    value: float


@public_evolving
@dataclass(frozen=True)
class Metric:
    """A metric with its numbers.

    ``name``: its name in Prometheus, with its unit. ``samples``: its numbers; empty if none is
    known.
    """

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    samples: Sequence[Sample]


@dataclass(frozen=True)
class JobFacts:
    """What the registry knows about a job that has not ended.

    ``queries``: its queries as its driver last reported them. ``savepoint``: its newest savepoint.
    """

    job: JobRecord
    queries: Sequence[QueryStatus] = ()
    history: Sequence[JobStateChange] = ()
    savepoint: SavepointSummary | None = None


def measure(context: Context) -> list[Metric]:
    """Return the metrics of the registry, always the same ones in the same order.

    A job whose process is gone is recorded as FAILED; see :func:`.liveness.reconcile`.

    Raises RegistryError if the registry cannot be read.
    """
    registry = context.registry
    jobs = reconcile(registry, registry.jobs())
    active = [job for job in jobs if not job.state.is_final]
    queries = registry.queries_of(job.job_id for job in active)
    savepoints = registry.last_savepoints(job.job_id for job in active)
    return metrics_of(
        [job.state for job in jobs],
        [
            JobFacts(
                job,
                queries.get(job.job_id, ()),
                registry.state_history(job.job_id),
                savepoints.get(job.job_id),
            )
            for job in active
        ],
        len(registry.unacknowledged()),
        registry.now(),
    )


def metrics_of(
    states: Iterable[JobState], jobs: Sequence[JobFacts], unacknowledged: int, now: float
) -> list[Metric]:
    """Return the metrics of what was read. Pure.

    ``states``: the states of all jobs. ``jobs``: the jobs that have not ended. ``unacknowledged``:
    the number of failed jobs that nobody has acknowledged. ``now``: seconds since the epoch, by the
    registry's clock.
    """
    return [
        *_of_registry(Counter(states), unacknowledged, now),
        *_of_jobs(jobs),
        *_of_queries(jobs, now),
        *_of_savepoints(jobs, now),
    ]


def _of_registry(states: Mapping[JobState, int], unacknowledged: int, now: float) -> list[Metric]:
    return [
        _gauge(
            "flinkish_jobs",
            "Number of jobs in the registry, by state.",
            [({"state": state.value}, states.get(state, 0)) for state in JobState],
        ),
        _gauge(
            "flinkish_unacknowledged_failures",
            "Number of jobs that ran and failed, and were not acknowledged (flinkish ack).",
            [({}, unacknowledged)],
        ),
        _gauge(
            "flinkish_metrics_timestamp_seconds",
            "When these metrics were read from the registry, in seconds since the epoch.",
            [({}, now)],
        ),
    ]


def _of_jobs(jobs: Sequence[JobFacts]) -> list[Metric]:
    return [
        Metric(
            "flinkish_job_restarts_total",
            "counter",
            "Number of restarts of a job that has not ended.",
            [Sample(_labels(each), restarts_in(each.history)) for each in jobs],
        ),
        Metric(
            "flinkish_job_failures_total",
            "counter",
            "Number of failures of a job that has not ended.",
            [Sample(_labels(each), failures_in(each.history)) for each in jobs],
        ),
    ]


def restarts_in(history: Sequence[JobStateChange]) -> int:
    """Return how often a job was started again. Pure."""
    return sum(1 for change in history if change.state is JobState.RESTARTING)


def failures_in(history: Sequence[JobStateChange]) -> int:
    """Return how often a job has failed; FAILING and then FAILED is one failure. Pure."""
    states = [None, *(change.state for change in history)]
    return sum(
        1
        for before, state in pairwise(states)
        if state is JobState.FAILING
        or (state is JobState.FAILED and before is not JobState.FAILING)
    )


def _of_queries(jobs: Sequence[JobFacts], now: float) -> list[Metric]:
    every = [(_labels(job, query.name), query) for job in jobs for query in job.queries]
    running = [(labels, query) for labels, query in every if query.active]
    verdicts = [
        ({**labels, "verdict": verdict}, count)
        for labels, query in running
        for verdict, count in _verdicts(query).items()
    ]
    return [
        _gauge(
            "flinkish_query_active",
            "Whether the query runs (1) or has ended (0), in a job that has not ended.",
            [(labels, float(query.active)) for labels, query in every],
        ),
        *(
            _gauge(
                f"flinkish_query_{name}", text, [(labels, of(query)) for labels, query in running]
            )
            for name, text, of in _query_gauges(now)
        ),
        Metric(
            "flinkish_query_snapshots_repaired_total",
            "counter",
            "State snapshots that Spark has repaired by itself since the driver started (from "
            "Spark 4.1).",
            [
                Sample(labels, query.snapshots_repaired)
                for labels, query in running
                if query.snapshots_repaired is not None
            ],
        ),
        _gauge(
            "flinkish_query_restored_operators",
            "Number of operators in the restore plan of a query, by verdict (dropped: saved state "
            "that no operator takes).",
            verdicts,
        ),
    ]


def _query_gauges(
    now: float,
) -> Sequence[tuple[str, str, Callable[[QueryStatus], float | None]]]:
    """Return the gauges of a running query: name, help, and a function that returns the number.

    The number is None if it is unknown.
    """
    return (
        (
            "last_batch_id",
            "The id of the newest committed micro-batch of a query.",
            lambda query: query.batch_id,
        ),
        (
            "last_batch_age_seconds",
            "Seconds since a query last ended a micro-batch or was seen waiting for input.",
            lambda query: _last_age(query, now),
        ),
        (
            "watermark_age_seconds",
            "Seconds by which the watermark of a query is behind the clock.",
            lambda query: _watermark_age(query.watermark, now),
        ),
        (
            "state_rows",
            "Number of rows in the state of a query.",
            lambda query: query.state_rows,
        ),
        (
            "snapshot_lag_batches",
            "Batches since the newest state snapshot, in the partition where it is oldest (from "
            "Spark 4.0).",
            lambda query: query.snapshot_lag,
        ),
        (
            "input_rows_per_second",
            "Rows that a query has read per second, in its newest micro-batch.",
            lambda query: query.input_rows_per_second,
        ),
    )


def _verdicts(query: QueryStatus) -> Mapping[str, int]:
    """Return the number of the query's operators in its restore plan, by verdict. Pure."""
    rows = () if query.plan is None else query.plan.operators
    return Counter(row.verdict for row in rows if row.query == query.name)


def _of_savepoints(jobs: Sequence[JobFacts], now: float) -> list[Metric]:
    last = [(_labels(job), job.savepoint) for job in jobs if job.savepoint is not None]
    return [
        _gauge(
            "flinkish_job_last_savepoint_age_seconds",
            "Seconds since the newest savepoint of a job was taken.",
            [(labels, max(0.0, now - saved.created)) for labels, saved in last],
        ),
        _gauge(
            "flinkish_job_last_savepoint_duration_seconds",
            "Duration of the newest savepoint of a job, in seconds.",
            [(labels, saved.duration) for labels, saved in last],
        ),
        _gauge(
            "flinkish_job_last_savepoint_size_bytes",
            "Size of the newest savepoint of a job.",
            [(labels, saved.bytes) for labels, saved in last],
        ),
    ]


def _labels(facts: JobFacts, query: str | None = None) -> Mapping[str, str]:
    # Not "job": Prometheus gives every number it fetches a label of that name.
    labels = {"job_id": facts.job.job_id, "job_name": facts.job.name}
    return labels if query is None else {**labels, "query": query}


def _gauge(
    name: str, text: str, samples: Iterable[tuple[Mapping[str, str], float | None]]
) -> Metric:
    present = [Sample(labels, float(value)) for labels, value in samples if value is not None]
    return Metric(name, "gauge", text, present)


def _age(moment: str | None, now: float) -> float | None:
    """Return the seconds since a moment in ISO 8601; None where it is unknown."""
    seconds = seconds_of(moment)
    return None if seconds is None else max(0.0, now - seconds)


def _last_age(query: QueryStatus, now: float) -> float | None:
    if query.last_batch_end is None:
        return None
    ages = (_age(each, now) for each in (query.last_batch_end, query.waited_until))
    return min((age for age in ages if age is not None), default=None)


def _watermark_age(watermark: str | None, now: float) -> float | None:
    """Return the seconds by which a watermark is behind the clock; negative if it is ahead."""
    seconds = seconds_of(watermark)
    return None if seconds is None or seconds <= _NO_WATERMARK else now - seconds


def seconds_of(moment: str | None) -> float | None:
    """Return a moment in ISO 8601 in seconds since the epoch; None where it is unknown."""
    try:
        return None if moment is None else datetime.fromisoformat(_offset(moment)).timestamp()
    except ValueError:  # a watermark is text that a driver has reported
        return None


def _offset(moment: str) -> str:
    """Return a moment in ISO 8601 with ``+00:00`` for the ``Z``, which Python 3.10 cannot read."""
    return moment[:-1] + "+00:00" if moment.endswith("Z") else moment
