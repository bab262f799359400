"""The watermark of a query made of several; the logs as a whole are in ``test_combined``."""

from __future__ import annotations

import pytest

from flinkish.restore.materialize.new_logs import combined_watermark


@pytest.mark.parametrize(
    ("watermarks", "policy", "expected"),
    [
        ([30, 20], "min", 20),
        ([30, 20], None, 20),
        ([30, 20], "max", 30),
        ([7], "max", 7),
        ([], "min", 0),
    ],
)
def test_combined_watermark(watermarks: list[int], policy: str | None, expected: int) -> None:
    assert combined_watermark(watermarks, policy) == expected
