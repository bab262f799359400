"""Compare the stream's output with the same query computed over all rows at once.

The expected rows come from the programs' own ``delays`` functions, run as a batch query over the
same files; the comparison itself is plain Python on a few thousand rows.

``python -m flinkish.examples.flights.check DATA OUTPUT LAST_V1_BATCH`` prints the outcome and exits
with 1 if a row differs, departures are missing, or a version has written nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from flinkish.examples.flights import delays_v1, delays_v2
from flinkish.examples.flights.data import MARKER_CARRIER, ROWS

#: (start of the window, carrier)
Key = tuple[Any, str]
#: The other columns of a result row, by name.
Values = Mapping[str, Any]


@dataclass(frozen=True)
class Written:
    """One row of the stream's output."""

    version: int  # of the program that wrote it: 1 or 2
    key: Key
    values: Values


@dataclass(frozen=True)
class ResultComparison:
    """The outcome: rows by the version that wrote them, and the differences."""

    written: Mapping[int, int]
    equal: Mapping[int, int]
    expected: int
    departures: int  # sum of the flights of all rows written
    differences: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether every expected row was written once, by one of the versions, and is equal."""
        return not self.differences and sum(self.equal.values()) == self.expected

    def table(self) -> str:
        """Return the comparison as a table, followed by the first differences if there are any."""
        lines = [f"{'':24}{'rows':>8}{'equal':>8}{'different':>11}"]
        rows = [*(self._line(f"written by v{v}", v) for v in sorted(self.written))]
        written, equal = sum(self.written.values()), sum(self.equal.values())
        rows.append(("written in all", written, equal, written - equal))
        lines += [f"{name:24}{a:>8,}{b:>8,}{c:>11,}" for name, a, b, c in rows]
        lines.append(f"{'batch over all rows':24}{self.expected:>8,}")
        lines += [f"  {text}" for text in self.differences[:20]]
        if len(self.differences) > 20:
            lines.append(f"  ... and {len(self.differences) - 20:,} more")
        return "\n".join(lines)

    def _line(self, name: str, version: int) -> tuple[str, int, int, int]:
        written, equal = self.written[version], self.equal.get(version, 0)
        return name, written, equal, written - equal


def compare(
    expected: Mapping[int, Mapping[Key, Values]], written: Iterable[Written]
) -> ResultComparison:
    """Compare each row written with the row expected of the version that wrote it.

    Parameters
    ----------
    expected
        The complete result of each version; the results have the same keys.
    written
        The stream's output; a key that appears twice is a difference.
    """
    keys = {key for rows in expected.values() for key in rows}
    seen: set[Key] = set()
    counts: dict[int, int] = dict.fromkeys(expected, 0)
    equal: dict[int, int] = dict.fromkeys(expected, 0)
    departures = 0
    differences = []
    for row in written:
        counts[row.version] += 1
        departures += row.values["flights"]
        want = expected[row.version].get(row.key)
        name = f"{row.key[1]} at {row.key[0]}"
        if want is None:
            differences.append(f"{name}: v{row.version} wrote it, the batch query does not have it")
        elif row.key in seen:
            differences.append(f"{name}: v{row.version} wrote it a second time")
        elif want != row.values:
            differences.append(
                f"{name}: v{row.version} wrote {dict(row.values)}, expected {dict(want)}"
            )
        else:
            equal[row.version] += 1
        seen.add(row.key)
    differences += [f"{carrier} at {start}: missing" for start, carrier in sorted(keys - seen)]
    return ResultComparison(counts, equal, len(keys), departures, tuple(differences))


def expected_rows(spark: SparkSession, data: Path) -> dict[int, dict[Key, Values]]:
    """Return both versions' results over all files in ``data``, each from one batch query."""
    flights = spark.read.schema(delays_v1.SCHEMA).csv(str(data / "departures"), header=True)
    flights = flights.where(f"carrier <> '{MARKER_CARRIER}'").cache()
    try:
        return {
            1: _rows(delays_v1.delays(flights)),
            2: _rows(delays_v2.delays(flights, delays_v2.read_airlines(spark, str(data)))),
        }
    finally:
        flights.unpersist()


def written_rows(spark: SparkSession, output: Path, last_v1_batch: int) -> list[Written]:
    """Return the stream's output: batches up to ``last_v1_batch`` by version 1, later ones by 2."""
    versions: dict[int, list[str]] = {1: [], 2: []}
    for directory in sorted(output.iterdir()):
        if match := re.fullmatch(r"batch=(\d+)", directory.name):
            versions[1 if int(match[1]) <= last_v1_batch else 2].append(str(directory))
    return [
        Written(version, key, values)
        for version, directories in versions.items()
        if directories
        for key, values in _row_list(spark.read.parquet(*directories))
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run this module's command line: compare the output of a stream of all days."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if len(words) != 3:
        print("usage: ...flights.check DATA OUTPUT LAST_V1_BATCH", file=sys.stderr)
        return 2
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("compare")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    try:
        outcome = compare(
            expected_rows(spark, Path(words[0])),
            written_rows(spark, Path(words[1]), int(words[2])),
        )
    finally:
        spark.stop()
    print(outcome.table())
    print(f"departures counted in the output: {outcome.departures:,} of {ROWS:,}")
    if idle := [version for version, rows in outcome.written.items() if rows == 0]:
        print(f"nothing was written by v{idle[0]}: the hand-over was not tested")
    return 0 if outcome.same and outcome.departures == ROWS and not idle else 1


def _rows(result: DataFrame) -> dict[Key, Values]:
    return dict(_row_list(result))


def _row_list(result: DataFrame) -> list[tuple[Key, Values]]:
    """Return the rows as (key, other columns)."""
    rows = (row.asDict() for row in result.collect())
    return [((row.pop("start"), row.pop("carrier")), row) for row in rows]


if __name__ == "__main__":
    raise SystemExit(main())
