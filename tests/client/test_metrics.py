"""Numbers for Prometheus: what the registry has, read back by Prometheus' own parser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from flinkish import Client
from flinkish.client.metrics import (
    JobFacts,
    Metric,
    failures_in,
    metrics_of,
    restarts_in,
)
from flinkish.client.metrics_export import prometheus_text
from flinkish.messages.launch import Launch
from flinkish.messages.plan import OperatorRow, RestorePlan
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import SavepointSummary
from flinkish.registry.jobs import JobRecord, JobState, JobStateChange
from flinkish.registry.liveness import process_ref
from tests.cli.conftest import Command

#: 2026-11-23T10:00:00Z
NOW = 1_795_428_000.0
HOSTILE = 'a "name"\\with\nlines, {braces}, é中🎉 and \x1b[31m'
JOB = JobRecord("ab" * 16, "flights", JobState.RUNNING, NOW - 900, Launch("/app.py"))
QUERY = QueryStatus(
    "counts",
    "q",
    "r",
    "/cp",
    batch_id=7,
    watermark="2026-11-23T09:59:00.000Z",
    input_rows_per_second=2.5,
    state_rows=40,
    last_batch_end="2026-11-23T09:59:58.500Z",
    plan=RestorePlan(
        operators=(
            OperatorRow("counts", "window", verdict="as-is"),
            OperatorRow("counts", "dedup", verdict="as-is"),
            OperatorRow("counts", "join", verdict="starts-empty"),
            OperatorRow("other", "join", verdict="as-is"),
        )
    ),
    snapshot_version=5,
    snapshots_repaired=2,
)
SAVED = SavepointSummary("/sp/1", JOB.job_id, NOW - 60, "native", 4096, 3, 1.25)

Numbers = dict[tuple[str, frozenset[tuple[str, str]]], float]


def numbers(text: str) -> Numbers:
    """The numbers that a Prometheus would take from a text."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def parsed(*facts: JobFacts) -> Numbers:
    return numbers(prometheus_text(metrics_of([JobState.RUNNING], facts, 0, NOW)))


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    return f"flinkish_{name}", frozenset(labels.items())


def history(*states: JobState) -> list[JobStateChange]:
    return [JobStateChange(state, NOW) for state in states]


def test_a_job_and_its_query() -> None:
    S = JobState
    states = (S.CREATED, S.RUNNING, S.FAILING, S.RESTARTING, S.RUNNING)
    found = parsed(JobFacts(JOB, [QUERY], history(*states), SAVED))
    job = {"job_id": JOB.job_id, "job_name": "flights"}
    query = {**job, "query": "counts"}
    expected = {
        key("metrics_timestamp_seconds"): NOW,
        key("unacknowledged_failures"): 0.0,
        key("job_restarts_total", **job): 1.0,
        key("job_failures_total", **job): 1.0,
        key("query_active", **query): 1.0,
        key("query_last_batch_id", **query): 7.0,
        key("query_last_batch_age_seconds", **query): 1.5,
        key("query_watermark_age_seconds", **query): 60.0,
        key("query_state_rows", **query): 40.0,
        key("query_input_rows_per_second", **query): 2.5,
        key("query_snapshot_lag_batches", **query): 3.0,
        key("query_snapshots_repaired_total", **query): 2.0,
        key("query_restored_operators", **query, verdict="as-is"): 2.0,
        key("query_restored_operators", **query, verdict="starts-empty"): 1.0,
        key("job_last_savepoint_age_seconds", **job): 60.0,
        key("job_last_savepoint_duration_seconds", **job): 1.25,
        key("job_last_savepoint_size_bytes", **job): 4096.0,
        **{key("jobs", state=s.value): float(s is JobState.RUNNING) for s in JobState},
    }
    assert found == expected


def test_what_is_unknown_is_left_out() -> None:
    bare = QueryStatus("counts", "q", "r", "/cp", watermark="1970-01-01T00:00:00.000Z")
    odd = replace(bare, name="odd", watermark="soon", last_batch_end="yesterday")
    ended = replace(QUERY, name="ended", active=False)
    found = parsed(JobFacts(JOB, [bare, odd, ended]))
    names = {name: labels for name, labels in found if name.startswith("flinkish_query")}
    assert set(names) == {"flinkish_query_active"}
    active = {dict(labels)["query"]: v for (n, labels), v in found.items() if n in names}
    assert active == {"counts": 1.0, "odd": 1.0, "ended": 0.0}
    assert not [name for name, _ in found if "savepoint" in name]


def test_a_query_that_waits_for_input_does_not_age() -> None:
    waiting = replace(
        QUERY, last_batch_end="2026-11-23T08:00:00Z", waited_until=QUERY.last_batch_end
    )
    found = parsed(JobFacts(JOB, [waiting]))
    assert {v for (n, _), v in found.items() if "last_batch_age" in n} == {1.5}


def test_names_come_back_as_they_are() -> None:
    job = replace(JOB, name=HOSTILE)
    found = parsed(JobFacts(job, [replace(QUERY, name=HOSTILE)]))
    labels = {"job_id": JOB.job_id, "job_name": HOSTILE, "query": HOSTILE}
    assert found[key("query_last_batch_id", **labels)] == 7.0
    text = prometheus_text(metrics_of([], [JobFacts(replace(JOB, name="a\udcffb"))], 0, NOW))
    assert 'job_name="a?b"' in text


def test_every_metric_says_what_it_is() -> None:
    text = prometheus_text(metrics_of([], [JobFacts(JOB, [QUERY], (), SAVED)], 0, NOW))
    families = list(text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families)
    for family in families:
        assert family.name.startswith("flinkish_")
        assert family.documentation.endswith(".")
        assert family.type in ("gauge", "counter")
        assert (family.type == "counter") == any(
            sample.name.endswith("_total") for sample in family.samples
        )


@pytest.mark.parametrize(
    ("states", "failures", "restarts"),
    [
        ((), 0, 0),
        (("RUNNING", "FAILED"), 1, 0),
        (("RUNNING", "FAILING", "FAILED"), 1, 0),
        (("RUNNING", "FAILING", "RESTARTING", "RUNNING", "FAILED", "RESTARTING"), 2, 2),
        (("RUNNING", "CANCELED"), 0, 0),
    ],
)
def test_failures_and_restarts(states: tuple[str, ...], failures: int, restarts: int) -> None:
    found = history(*(JobState(state) for state in states))
    assert (failures_in(found), restarts_in(found)) == (failures, restarts)


def by_name(metrics: list[Metric]) -> Mapping[str, list[tuple[Any, float]]]:
    return {m.name: [(dict(s.labels), s.value) for s in m.samples] for m in metrics}


def test_they_are_the_registrys(cli: Command, client: Client) -> None:
    with cli.registry() as registry:
        running = replace(JOB, state=JobState.INITIALIZING, supervisor=process_ref())
        failed = replace(running, job_id="cd" * 16, name="other")
        for job in (running, failed):
            registry.add_job(job)
            registry.transition(job.job_id, JobState.CREATED)
            registry.transition(job.job_id, JobState.RUNNING)
        registry.heartbeat(running.job_id, [QUERY])
        registry.add_savepoint(replace(SAVED, created=registry.now() - 100))
        registry.transition(failed.job_id, JobState.FAILED)
    found = by_name(client.metrics())
    states = {labels["state"]: value for labels, value in found["flinkish_jobs"] if value}
    assert states == {"RUNNING": 1.0, "FAILED": 1.0}
    assert found["flinkish_unacknowledged_failures"] == [({}, 1.0)]
    labels = {"job_id": running.job_id, "job_name": "flights"}
    assert found["flinkish_query_last_batch_id"] == [({**labels, "query": "counts"}, 7.0)]
    assert found["flinkish_job_last_savepoint_size_bytes"] == [(labels, 4096.0)]
    [(_, age)] = found["flinkish_job_last_savepoint_age_seconds"]
    assert 100 <= age < 160
