"""The status of a query: what is read out of Spark's progress reports."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.driver.runtime.running_query import batch_end


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
