"""The registry in numbers for Prometheus: jobs, queries, savepoints.

:func:`measure` reads the registry, :func:`metrics_of` makes the numbers of what was read (pure),
and :func:`prometheus_text` writes them. No driver is asked, so they are as old as the last
heartbeat.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from flinkish.annotations import public_evolving
from flinkish.client.context import Context
from flinkish.errors import FlinkishError, UsageError
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import SavepointSummary
from flinkish.registry.jobs import JobRecord, JobState, JobStateChange
from flinkish.registry.liveness import reconcile

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

#: Spark's watermark before there is one.
_NO_WATERMARK = 0.0


@public_evolving
@dataclass(frozen=True)
class Sample:
    """One number of a metric, for one job, query or state.

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
    """What the registry knows of a job that has not ended.

    ``queries``: its queries as its driver last reported them.
    """

    job: JobRecord
    queries: Sequence[QueryStatus] = ()
    history: Sequence[JobStateChange] = ()
    savepoint: SavepointSummary | None = None


def measure(context: Context) -> list[Metric]:
    """Return the metrics of all jobs of the registry, always the same ones in the same order.

    A job whose process is gone is recorded as FAILED, as by every reader of the registry.

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


def prometheus_text(metrics: Iterable[Metric]) -> str:
    """Return metrics in Prometheus' text format. Pure."""
    from prometheus_client import generate_latest

    listed = list(metrics)
    return generate_latest(_collected(lambda: listed)).decode()


@contextmanager
def served(read: Callable[[], Iterable[Metric]], host: str, port: int) -> Iterator[int]:
    """Serve metrics over HTTP in the block, and yield the port; 0 asks for a free one.

    ``read``: returns the metrics; called for each request, from a thread of the server. What it
    raises is an answer with the status 500.

    Raises FlinkishError if the address cannot be used.
    """
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(port, host, _collected(read))
    except OSError as error:
        raise FlinkishError(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            hint="name another address: --listen [HOST:]PORT",
        ) from error
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _collected(read: Callable[[], Iterable[Metric]]) -> CollectorRegistry:
    """Return a registry of the library with the metrics of the time of each look."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector

    class Numbers(Collector):
        def describe(self) -> Iterable[GaugeMetricFamily]:
            """Return nothing: the library would collect the metrics to know their names."""
            return ()

        def collect(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
            """Yield the metrics as the library's own."""
            for metric in read():
                family = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
                metric_family = family(metric.name, metric.help)
                for sample in metric.samples:
                    labels = {name: _encodable(value) for name, value in sample.labels.items()}
                    metric_family.add_sample(metric.name, labels, sample.value)
                yield metric_family

    # A registry of its own: the library's default one adds numbers of this very process.
    own = CollectorRegistry()
    own.register(Numbers())
    return own


def write_text(path: str, text: str) -> None:
    """Write metrics to a temporary file and rename it, so that readers never see a partial file.

    ``path``: the file; its directory must exist. ``text``: what :func:`prometheus_text` returns.

    Raises UsageError if it is a directory, or a URL; StorageError if it cannot be written.
    """
    from flinkish.storage import is_local, locate, write_atomically

    location = locate(path)
    if not is_local(location) or os.path.isdir(location):
        raise UsageError(f"{path} is not a local file", hint="name a file, such as flinkish.prom")
    write_atomically(location, text.encode())


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
    return [
        _gauge(
            "flinkish_query_active",
            "Whether the query runs (1) or has ended (0), in a job that has not ended.",
            [(labels, float(query.active)) for labels, query in every],
        ),
        _gauge(
            "flinkish_query_last_batch_id",
            "The newest committed micro-batch of a query.",
            [(labels, query.batch_id) for labels, query in running],
        ),
        _gauge(
            "flinkish_query_last_batch_age_seconds",
            "Seconds since the newest micro-batch of a query ended.",
            [(labels, _age(query.last_batch_end, now)) for labels, query in running],
        ),
        _gauge(
            "flinkish_query_watermark_age_seconds",
            "Seconds by which the watermark of a query is behind the clock.",
            [(labels, _watermark_age(query.watermark, now)) for labels, query in running],
        ),
        _gauge(
            "flinkish_query_state_rows",
            "Number of rows in the state of a query.",
            [(labels, query.state_rows) for labels, query in running],
        ),
        _gauge(
            "flinkish_query_input_rows_per_second",
            "Rows that a query has read per second, in its newest micro-batch.",
            [(labels, query.input_rows_per_second) for labels, query in running],
        ),
    ]


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
    """Return ISO 8601 as Python 3.10 reads it, which does not know the ``Z``."""
    return moment[:-1] + "+00:00" if moment.endswith("Z") else moment


def _encodable(text: str) -> str:
    """Return ``text`` without lone surrogates, which cannot be written as UTF-8."""
    return text.encode("utf-8", "replace").decode()
