"""The example's input: complete, deterministic, with the repeats that the programs have to drop."""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from pathlib import Path

import pytest

from flinkish.examples.flights import data


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> data.FlightData:
    return data.prepare(tmp_path_factory.mktemp("flights"))


@pytest.fixture(scope="module")
def rows(written: data.FlightData) -> dict[str, list[tuple[str, ...]]]:
    """Each file's rows by its name (a day), in the order in which Spark reads the files."""
    files = sorted(written.departures.iterdir(), key=lambda path: path.stat().st_mtime)
    found = {}
    for path in files:
        with path.open(encoding="utf-8", newline="") as file:
            header, *lines = csv.reader(file)
        assert tuple(header) == data.COLUMNS
        found[path.stem] = [tuple(line) for line in lines]
    return found


def digest(directory: Path) -> str:
    found = hashlib.sha256()
    for path in sorted((directory / "departures").iterdir()):
        found.update(f"{path.name} {path.stat().st_mtime}".encode())
        found.update(path.read_bytes())
    found.update((directory / "airlines.csv").read_bytes())
    return found.hexdigest()


@pytest.mark.deep
def test_every_departure_is_there_once_and_some_twice(
    written: data.FlightData, rows: dict[str, list[tuple[str, ...]]]
) -> None:
    counts = Counter(row for lines in rows.values() for row in lines)
    (marker,) = (row for row in counts if row[1] == data.MARKER_CARRIER)
    assert counts.pop(marker) == 1
    assert len(counts) == written.rows == data.ROWS == 336_776
    assert sum(counts.values()) - len(counts) == written.repeated == 6_736
    assert Counter(counts.values()) == {1: 336_776 - 6_736, 2: 6_736}
    assert written.days == data.DAYS == 365


@pytest.mark.deep
def test_no_two_departures_share_the_key_of_the_deduplication(
    rows: dict[str, list[tuple[str, ...]]],
) -> None:
    distinct = {row for lines in rows.values() for row in lines}
    key = [data.COLUMNS.index(name) for name in ("departed", "carrier", "flight", "origin")]
    assert len({tuple(row[i] for i in key) for row in distinct}) == len(distinct)


@pytest.mark.deep
def test_days_are_read_in_order_and_rows_come_on_their_day_or_the_next(
    rows: dict[str, list[tuple[str, ...]]],
) -> None:
    days = list(rows)
    assert days == sorted(days)
    assert days[0] == "2013-01-01"
    assert days[-2:] == ["2013-12-31", "2014-01-03"]
    first_seen: dict[tuple[str, ...], str] = {}
    late = 0
    for number, day in enumerate(days):
        for row in rows[day]:
            assert first_seen.setdefault(row, day) == row[0][:10]  # the first delivery is on time
            if row[0][:10] != day:
                assert row[0][:10] == days[number - 1]
                late += 1
    assert late == 3_368 - 8  # half of the repeats, without the last day's


@pytest.mark.deep
def test_missing_values_are_empty_fields(rows: dict[str, list[tuple[str, ...]]]) -> None:
    values = {value for lines in rows.values() for row in lines for value in row}
    assert "NA" not in values
    distinct = {row for lines in rows.values() for row in lines if row[1] != data.MARKER_CARRIER}
    assert sum(row[data.COLUMNS.index("dep_delay")] == "" for row in distinct) == 8_255
    assert sum(row[data.COLUMNS.index("arr_delay")] == "" for row in distinct) == 9_430


@pytest.mark.deep
def test_the_same_bytes_each_time(written: data.FlightData, tmp_path: Path) -> None:
    again = data.prepare(tmp_path)
    assert digest(tmp_path) == digest(written.directory)
    assert (again.days, again.rows, again.repeated, again.bytes) == (
        written.days,
        written.rows,
        written.repeated,
        written.bytes,
    )


def test_a_few_days_only(tmp_path: Path) -> None:
    few = data.prepare(tmp_path, last_day="2013-01-03")
    assert sorted(path.stem for path in few.departures.iterdir()) == [
        "2013-01-01",
        "2013-01-02",
        "2013-01-03",
        "2014-01-03",
    ]
    assert few.days == 3


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert data.main([]) == 2
    assert "usage" in capsys.readouterr().err
