"""A job with typed state, stopped and resumed as a program whose class has other fields."""

from __future__ import annotations

import csv
import shutil
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from flinkish.examples.flights import data
from tests.support import venvs
from tests.support.cli.command import Flinkish
from tests.support.driver.operator_programs import BACKENDS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

LAST_DAY = "2013-01-20"
#: Days in the first savepoint, at the least; days in all.
FIRST, DAYS = 4, 20
STATS = {
    "name": "stats",
    "type": "AircraftStats(flights: int, delay: int, worst: int)",
    "serializer": "flinkish.state.builtin.records:DataclassSerializer",
}


# In the fast tier tests/driver/test_typed_restore.py has the same change of a class.
@pytest.mark.deep
@pytest.mark.parametrize("migration", ["eager", "lazy"])
@pytest.mark.parametrize("backend", ["hdfs", "rocksdb"])
def test_fields_of_the_class_change(
    flinkish: Flinkish, tmp_path: Path, backend: str, migration: str
) -> None:
    resumed_as_version_2(flinkish, tmp_path, backend, migration, sys.executable)


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("spark", "migration"), [("3.5.9", "eager"), ("3.5.9", "lazy"), ("4.0.5", "eager")]
)
def test_on_an_older_spark(flinkish: Flinkish, tmp_path: Path, spark: str, migration: str) -> None:
    """flinkish is not installed there: the executors get it from the driver."""
    if migration == "eager":  # the engine rewrites the values
        flinkish.environ["PYTHONPATH"] = venvs.engine_packages(spark)
    resumed_as_version_2(flinkish, tmp_path, "hdfs", migration, venvs.interpreter(spark))


def resumed_as_version_2(
    flinkish: Flinkish, tmp_path: Path, backend: str, migration: str, python: str
) -> None:
    from flinkish.examples.flights import aircraft_v1, aircraft_v2

    data.prepare(tmp_path / "flights", last_day=LAST_DAY)
    for program in (aircraft_v1, aircraft_v2):
        shutil.copy(str(program.__file__), tmp_path)
    conf = tuple(f"--conf={key}={value}" for key, value in BACKENDS[backend].items())
    options = ("-pyexec", python, *conf)
    words = ("flights", "results", "--files-per-trigger", "1")
    old = flinkish.run(tmp_path / "aircraft_v1.py", *words, "--every", "2 seconds", options=options)
    flinkish.wait_for_batch(old, FIRST - 1)
    stopped = flinkish.ok("stop", old, "-p", "sp", "--json").json()
    savepoint = stopped["savepoint"]
    last_of_v1 = savepoint["queries"][0]["batch_id"]
    assert last_of_v1 < DAYS - 2, "version 1 has read everything"

    described = flinkish.ok("info", "--json", *options, "aircraft_v2.py", *words).json()
    states = [op["typed_states"] for op in described["queries"][0]["operators"] if op["stateful"]]
    assert states == [[STATS]]

    migrate = ("-D", f"state.migration={migration}")
    asked = ("check", "-s", savepoint["path"], *options, *migrate, "--json")
    plan = flinkish.ok(*asked, "aircraft_v2.py", *words).json()
    (row,) = plan["operators"]
    assert row["verdict"] == {"eager": "migrate", "lazy": "as-is"}[migration]
    assert "state `stats`" in row["text"]

    start = ("-s", savepoint["path"], *options, *migrate)
    new = flinkish.run(tmp_path / "aircraft_v2.py", *words, "--every", "0 seconds", options=start)
    flinkish.wait_for_batch(new, DAYS)  # and the marker's file
    flinkish.ok("cancel", new, "-s", "sp", "--json")
    assert newest(tmp_path / "results") == expected(tmp_path / "flights", last_of_v1)


def newest(results: Path) -> dict[str, dict[str, Any]]:
    """The newest row of each aircraft."""
    found: dict[str, dict[str, Any]] = {}
    for batch in sorted(results.glob("batch=*")):
        for part in batch.glob("*.parquet"):
            for row in pq.read_table(part, partitioning=None).to_pylist():
                found[row["tailnum"]] = {k: v for k, v in row.items() if v is not None}
    return found


def expected(directory: Path, last_of_v1: int) -> dict[str, dict[str, Any]]:
    """What both versions promise, by plain Python: a file is a batch."""
    days = sorted((directory / "departures").iterdir(), key=lambda file: file.stat().st_mtime)
    found: dict[str, dict[str, Any]] = {}
    known: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for number, day in enumerate(days):
        with day.open() as file:
            rows = [row for row in csv.DictReader(file) if row["dep_delay"] and row["tailnum"]]
        for row in rows:
            total = known[row["tailnum"]]
            delay = int(row["dep_delay"])
            total[0] += 1
            total[1] += delay
            if number <= last_of_v1:
                total[2] += int(row["distance"])
            else:
                total[3] = max(total[3], delay)
        for tailnum in {row["tailnum"] for row in rows}:
            count, minutes, miles, worst = known[tailnum]
            old = {"minutes": minutes, "miles": miles, "version": 1}
            new = {"delay": minutes, "worst": worst, "version": 2}
            shown = old if number <= last_of_v1 else new
            found[tailnum] = {"tailnum": tailnum, "flights": count, **shown}
    return found
