"""The input of every measured query, and the rows that each must give. Plain Python, no Spark.

The input are four files, one a batch: two before the savepoint, two after it. They are made so that
lost or misread state shows in what comes after: ids repeat from file to file, groups go on, windows
and sessions are open at the savepoint and close in the end.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

FILES = 4
#: The batches before the savepoint and those after it, by the number of their file.
HALVES = (range(2), range(2, FILES))
SCHEMA = "id long, k int, v long, f int, ts timestamp"
#: 2026-01-01, and the minute in which the rows of each file begin; the last closes what is open.
START = 1767225600
MINUTES = (0, 1, 2, 10)
#: What the queries of the same name use, in seconds.
WINDOW, WINDOW_DELAY = 180, 30
GAP, SESSION_DELAY = 20, 10
NEAR, JOIN_DELAY = 120, 300
TIMER, TIMER_DELAY = 300, 60
LIMIT = 50

#: A row of output; all columns are whole numbers, or null.
Output = tuple[int | None, ...]


@dataclass(frozen=True)
class Row:
    """One row of input; ``f`` is the number of its file, ``ts`` in seconds since the epoch."""

    id: int
    k: int
    v: int
    f: int
    ts: int


def rows(side: str, file: int) -> list[Row]:
    """The rows of one file. ``a`` has everything, ``b`` is for joins and lacks every fifth id."""
    start = START + MINUTES[file] * 60
    made = [Row(file * 10 + i, i % 4, file * 100 + i, file, start + i * 3) for i in range(20)]
    return made if side == "a" else [row for row in made if row.id % 5]


def write_half(directory: Path, half: int) -> None:
    """Write the files of one half below ``directory``.

    Spark's file source takes files in the order of their modification times.
    """
    for side in ("a", "b"):
        (directory / side).mkdir(parents=True, exist_ok=True)
        for file in HALVES[half]:
            path = directory / side / f"{file}.json"
            lines = [
                json.dumps(
                    {**asdict(row), "ts": datetime.fromtimestamp(row.ts, timezone.utc).isoformat()}
                )
                for row in rows(side, file)
            ]
            building = path.with_name(f".{path.name}")
            building.write_text("\n".join(lines) + "\n")
            os.utime(building, (START + file * 60,) * 2)
            building.rename(path)


def _until(side: str, file: int) -> Iterator[Row]:
    """All rows up to and with those of a file."""
    return (row for number in range(file + 1) for row in rows(side, number))


def _watermark(files: range, delay: int) -> int:
    """The watermark when the batches of ``files`` are done."""
    return max(row.ts for row in rows("a", files[-1])) - delay


def _stateless(files: range) -> list[Output]:
    return [(r.id, r.v * 2) for f in files for r in rows("a", f) if r.v % 2 == 0]


def _aggregate(files: range) -> list[Output]:
    """Counts and sums by key after each batch, all keys being in every file."""
    return [
        (k, len(values), sum(values))
        for f in files
        for k in range(4)
        for values in [[row.v for row in _until("a", f) if row.k == k]]
    ]


def _windows(files: range) -> list[Output]:
    groups: dict[tuple[int, int], list[int]] = {}
    for row in _until("a", files[-1]):
        groups.setdefault((row.ts - row.ts % WINDOW, row.k), []).append(row.v)
    done = _watermark(files, WINDOW_DELAY)
    before = _watermark(HALVES[0], WINDOW_DELAY) if files != HALVES[0] else 0
    return [
        (start, k, len(values), sum(values))
        for (start, k), values in groups.items()
        if before < start + WINDOW <= done
    ]


def _sessions(files: range) -> list[Output]:
    open_until: dict[int, list[list[int]]] = {}
    for row in _until("a", files[-1]):
        sessions = open_until.setdefault(row.k, [])
        if not sessions or row.ts >= sessions[-1][-1] + GAP:
            sessions.append([])
        sessions[-1].append(row.ts)
    done = _watermark(files, SESSION_DELAY)
    before = _watermark(HALVES[0], SESSION_DELAY) if files != HALVES[0] else 0
    return [
        (times[0], k, len(times))
        for k, sessions in open_until.items()
        for times in sessions
        if before < times[-1] + GAP <= done
    ]


def _first_of_ids(file: int) -> dict[int, Row]:
    first: dict[int, Row] = {}
    for row in _until("a", file):
        first.setdefault(row.id, row)
    return first


def _distinct(files: range) -> list[Output]:
    return [(row.id, row.v) for row in _first_of_ids(files[-1]).values() if row.f in files]


def _distinct_counts(files: range) -> list[Output]:
    """Counts by key of distinct ids after each batch, all keys being among its new ids."""
    return [
        (k, sum(row.k == k for row in _first_of_ids(f).values())) for f in files for k in range(4)
    ]


def _limited(files: range) -> list[Output]:
    return [(row.f,) for row in list(_until("a", files[-1]))[:LIMIT] if row.f in files]


def _inner(files: range) -> list[Output]:
    return [
        (left.id, left.v, right.v)
        for left in _until("a", files[-1])
        for right in _until("b", files[-1])
        if left.id == right.id and abs(left.ts - right.ts) <= NEAR
        if max(left.f, right.f) in files
    ]


def _left_outer(files: range) -> list[Output]:
    done = _watermark(files, JOIN_DELAY)
    before = _watermark(HALVES[0], JOIN_DELAY) if files != HALVES[0] else 0
    known = {row.id for row in _until("b", files[-1])}
    alone: list[Output] = [
        (row.id, row.v, None)
        for row in _until("a", files[-1])
        if row.id not in known and before <= row.ts + NEAR < done
    ]
    return _inner(files) + alone


def _processor(files: range) -> list[Output]:
    """After each batch by key: rows, values listed, files mapped; and what the timers give."""
    given: list[Output] = [
        (k, count, count, f + 1)
        for f in files
        for k in range(4)
        for count in [sum(row.k == k for row in _until("a", f))]
    ]
    before = _watermark(HALVES[0], TIMER_DELAY) if files != HALVES[0] else 0
    if before < START + TIMER <= _watermark(files, TIMER_DELAY):
        given += [
            (k, -1, sum(row.v for row in _until("a", files[-1]) if row.k == k), 0) for k in range(4)
        ]
    return given


#: By the name of the query: the rows that the batches of some files give.
_EXPECTED: dict[str, Callable[[range], list[Output]]] = {
    "stateless": _stateless,
    "aggregate": _aggregate,
    "windows": _windows,
    "sessions": _sessions,
    "distinct": _distinct,
    "distinct_within_watermark": _distinct,
    "limit": _limited,
    "join_inner": _inner,
    "join_left": _left_outer,
    "pandas_with_state": _aggregate,
    "processor_in_pandas": _processor,
    "processor_in_rows": _processor,
    "distinct_counts": _distinct_counts,
}


def in_order(output: list[Output]) -> list[Output]:
    """The same rows, sorted; nulls first."""
    return sorted(output, key=lambda row: [(value is not None, value or 0) for value in row])


def expected(query: str, half: int) -> list[Output]:
    """The rows that a query gives for one half of the input, sorted.

    Parameters
    ----------
    query: name of a query of :mod:`tools.compatmatrix.queries`.
    half: 0: up to the savepoint, 1: after it, with the state that was saved.
    """
    return in_order(_EXPECTED[query](HALVES[half]))
