"""The status of a query: what is read out of Spark's progress reports."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.driver.runtime.running_query import SnapshotFacts, batch_end


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
