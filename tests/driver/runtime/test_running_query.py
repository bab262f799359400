"""The status of a query: what is read out of Spark's progress reports."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.runtime.running_query import (
    RECENT_BATCHES,
    ManagedQuery,
    SnapshotFacts,
    batch_end,
    status_of,
    with_batch,
)
from flinkish.messages.queries import BatchRun


@pytest.mark.parametrize(
    ("progress", "expected"),
    [
        (
            {"timestamp": "2026-11-23T23:59:59.750Z", "durationMs": {"triggerExecution": 500}},
            "2026-11-24T00:00:00.250Z",
        ),
        ({"timestamp": "2026-11-23T10:00:00.000Z", "durationMs": {}}, None),
        ({}, None),
    ],
)
def test_the_end_of_a_batch(progress: dict[str, Any], expected: str | None) -> None:
    assert batch_end(progress) == expected


def progress(batch: int, **metrics: int) -> dict[str, Any]:
    return {"batchId": batch, "stateOperators": [{"customMetrics": metrics}]}


def test_snapshots_as_spark_4_3_reports_them() -> None:
    """The names are those of a progress report of Spark 4.3.0, of both providers."""
    facts = SnapshotFacts()
    first, second = (
        "SnapshotLastUploaded.partition_0_default",
        "SnapshotLastUploaded.partition_1_default",
    )
    facts.see(progress(40, **{first: -1, second: -1, "rocksdbNumSnapshotsAutoRepaired": 1}))
    assert (facts.version, facts.repaired) == (40, 1)  # not more than this driver can know
    facts.see(progress(40, **{first: -1, second: -1, "rocksdbNumSnapshotsAutoRepaired": 1}))
    assert facts.repaired == 1
    facts.see(progress(50, **{first: 48, second: 44, "numSnapshotsAutoRepaired": 2}))
    assert (facts.version, facts.repaired) == (44, 3)


def test_snapshots_of_a_spark_that_does_not_report_them() -> None:
    facts = SnapshotFacts()
    facts.see({})
    facts.see(progress(3, rocksdbCommitFlushLatency=2))
    assert (facts.version, facts.repaired) == (None, None)


def _progress(batch: int, rows: int = 7, **durations: int) -> dict[str, Any]:
    took = durations or {"triggerExecution": 1500, "addBatch": 900}
    return {"batchId": batch, "numInputRows": rows, "durationMs": took}


def test_the_newest_batches_are_kept() -> None:
    batches: tuple[BatchRun, ...] = ()
    for number in range(RECENT_BATCHES + 5):
        batches = with_batch(with_batch(batches, _progress(number)), _progress(number))
    assert batches[-1] == BatchRun(RECENT_BATCHES + 4, 1.5, 7)
    assert [each.batch_id for each in batches] == list(range(5, RECENT_BATCHES + 5))


def test_a_batch_that_is_run_again_replaces_the_later_ones() -> None:
    batches = tuple(BatchRun(number, 1.0, 1) for number in range(4))
    assert with_batch(batches, _progress(2)) == (*batches[:2], BatchRun(2, 1.5, 7))


@pytest.mark.parametrize(
    "progress",
    [{}, _progress(4, 0, triggerExecution=3), {"batchId": 4, "durationMs": {"addBatch": 1}}],
    ids=["none yet", "idle", "unfinished"],
)
def test_a_report_without_a_batch_adds_none(progress: dict[str, Any]) -> None:
    batches = (BatchRun(3, 1.0, 1),)
    assert with_batch(batches, progress) is batches


@pytest.mark.parametrize(
    ("reported", "newest"),
    [
        (None, None),
        (_progress(0), 0),
        (_progress(0, 0, triggerExecution=3), None),
        (_progress(8, 0, triggerExecution=3), 7),
    ],
    ids=["nothing yet", "first batch", "idle before it", "idle after batch 7"],
)
def test_an_idle_query_on_remote_storage_is_at_its_last_batch(
    reported: dict[str, Any] | None, newest: int | None
) -> None:
    """Spark reports an idle trigger under the number of the batch to come."""
    query = ManagedQuery(
        name="q",
        generated_name=False,
        facts=WriterFacts(),
        writer=None,
        begin=lambda: None,
        handle=SimpleNamespace(_jsq="jsq"),
        root_uri="s3a://bucket/q",
        session=None,
        query_id="id",
        run_id="r",
    )
    look = SimpleNamespace(progress=reported, waits_for_input=True, has_ended=False, error=None)
    query._run = SimpleNamespace(jsq="jsq", look=lambda: look)  # type: ignore[assignment]
    assert status_of(query).batch_id == newest
