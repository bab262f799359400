"""Version 2 takes over the state of version 1, on plain Spark: what the demo relies on."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from flinkish.examples.flights import data

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    running = SparkSession.getActiveSession()
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    if running is None:
        session.stop()


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> data.FlightData:
    """Twelve days, cancelled flights among them, and the marker that closes the last."""
    return data.prepare(tmp_path_factory.mktemp("flights"), last_day="2013-01-12")


@pytest.fixture
def options(tmp_path: Path) -> Callable[[data.FlightData, int], argparse.Namespace]:
    def make(flights: data.FlightData, files_per_trigger: int) -> argparse.Namespace:
        return argparse.Namespace(
            input=str(flights.directory),
            output=str(tmp_path / "results"),
            checkpoint=str(tmp_path / "checkpoint"),
            files_per_trigger=files_per_trigger,
            every="0 seconds",
        )

    return make


def finish(query: Any) -> None:
    try:
        query.processAllAvailable()
    finally:
        query.stop()


@pytest.mark.parametrize(
    ("first", "days", "rows"),
    [(2, 4, 20), pytest.param(7, 12, 200, marks=pytest.mark.deep)],
    ids=["2 days of 4", "7 days of 12"],
)
def test_version_2_goes_on_from_version_1(
    spark: Any,
    options: Callable[[data.FlightData, int], argparse.Namespace],
    tmp_path: Path,
    first: int,
    days: int,
    rows: int,
) -> None:
    """Each version must have written more than ``rows`` rows."""
    from flinkish.examples.flights import check, delays_v1, delays_v2

    flights = data.prepare(tmp_path / "flights", last_day=f"2013-01-{days:02d}")
    # Version 1 sees the first days only: the file source lists what is there.
    held_back = sorted(flights.departures.iterdir())[first:]
    aside = tmp_path / "aside"
    aside.mkdir()
    for path in held_back:
        path.rename(aside / path.name)
    finish(delays_v1.start(spark, options(flights, 2)))
    last_v1_batch = max(int(p.name) for p in (tmp_path / "checkpoint/commits").glob("[0-9]*"))
    for path in aside.iterdir():
        path.rename(flights.departures / path.name)
    finish(delays_v2.start(spark, options(flights, 3)))

    outcome = check.compare(
        check.expected_rows(spark, flights.directory),
        check.written_rows(spark, tmp_path / "results", last_v1_batch),
    )
    assert outcome.same, outcome.table()
    assert outcome.departures == flights.rows
    assert outcome.written[1] > rows
    assert outcome.written[2] > rows


@pytest.mark.deep
def test_what_version_2_improves(spark: Any, flights: data.FlightData) -> None:
    from flinkish.examples.flights import check

    expected = check.expected_rows(spark, flights.directory)
    assert expected[1].keys() == expected[2].keys()
    corrected = 0
    for key, old in expected[1].items():
        new = expected[2][key]
        assert new["cancelled"] == old["flights"] - old["left"]
        assert new["airline"]
        if new["cancelled"] and old["minutes"]:
            assert abs(new["mean_delay"]) > abs(old["mean_delay"])
            corrected += 1
        else:
            assert new["mean_delay"] == old["mean_delay"]
    assert corrected == 46


@pytest.mark.deep
def test_the_query_agrees_with_the_package(spark: Any, flights: data.FlightData) -> None:
    """An independent computation, in plain Python on the package's own rows."""
    from flinkish.examples.flights import check

    wanted: dict[tuple[datetime, str], list[int | None]] = {}
    for row in data.departures():
        departed = datetime.fromisoformat(row[0])
        if departed < datetime(2013, 1, 13):
            key = (departed.replace(hour=departed.hour // 6 * 6, minute=0), row[1])
            delay = row[data.COLUMNS.index("dep_delay")]
            wanted.setdefault(key, []).append(int(delay) if delay else None)
    found = check.expected_rows(spark, flights.directory)[2]
    assert found.keys() == wanted.keys()
    for key, delays in wanted.items():
        left = [delay for delay in delays if delay is not None]
        assert found[key]["flights"] == len(delays)
        assert found[key]["left"] == len(left)
        assert found[key]["minutes"] == (sum(left) if left else None)
        assert found[key]["mean_delay"] == (sum(left) / len(left) if left else None)
