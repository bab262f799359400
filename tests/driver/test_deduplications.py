"""When keys are forgotten after ``dropDuplicates`` became ``dropDuplicatesWithinWatermark``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinkish.driver.spark.jvm import configured
from flinkish.messages.restore_options import RestoreOptions
from flinkish.restore.plan.judging import FOR_THE_ENGINE
from flinkish.restore.plan.query_restore import PlanningSettings
from tests.support.driver import recorded_pairs
from tests.support.driver.pair_runner import OPERATOR, ROCKSDB, Bench, Pair
from tests.support.driver.pairs_windows import DEDUPS

PAIRS = {pair.name: pair for pair in DEDUPS}
HOUR = 3600


def row(key: str, value: int, second: int) -> tuple[Any, ...]:
    return (key, "x", value, 0, 0, 0.0, "0.00", second)


def after(spark: Any, directory: Path, pair: Pair, *later: Any) -> list[Any]:
    options = RestoreOptions(accept_partial=(OPERATOR,))
    settings = PlanningSettings(executors=FOR_THE_ENGINE)
    chosen = replace(pair, options=options, settings=settings)
    with configured(spark, {**recorded_pairs.SETTINGS, **pair.conf}):
        bench = Bench(spark, directory)
        restore, _, _ = bench.plan(chosen)
        return bench.continued(chosen, restore, *later)


@pytest.mark.spark
@pytest.mark.deep
@pytest.mark.parametrize("conf", [{}, ROCKSDB])
def test_keys_expire_two_delays_after_the_watermark(
    spark: Any, tmp_path: Path, conf: dict[str, str]
) -> None:
    """The delay is two hours, and the newest row of the savepoint is of 00:18:20: its watermark is
    22:18:20 of the day before, and its keys are kept until 02:18:20."""
    pair = replace(PAIRS["dedup to within"], conf=conf)
    found = after(
        *(spark, tmp_path, pair),
        [row("x1", 1, 4 * HOUR + 1099)],  # the watermark becomes 02:18:19
        [row("a", 1, 4 * HOUR + 1099)],  # known since before the savepoint
        [row("x2", 1, 4 * HOUR + 1100)],  # 02:18:20
        [row("a", 1, 4 * HOUR + 1100)],  # forgotten
        [row("a", 1, 4 * HOUR + 1200)],  # known again
    )
    assert found == [[("x1", 1.0)], [], [("x2", 1.0)], [("a", 1.0)], []]


@pytest.mark.spark
@pytest.mark.deep
@pytest.mark.parametrize("conf", [{}, ROCKSDB])
def test_keys_are_kept_for_ever(spark: Any, tmp_path: Path, conf: dict[str, str]) -> None:
    pair = replace(PAIRS["within to dedup"], conf=conf)
    later = [[row("x1", 1, 40 * HOUR)], [row("a", 1, 40 * HOUR)], [row("x1", 1, 80 * HOUR)]]
    assert after(spark, tmp_path, pair, *later) == [[("x1", 1.0)], [], []]
