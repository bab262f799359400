"""The table: every comparison once, and its rows; what cannot run stays with its reason."""

from __future__ import annotations

import os
import platform
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from importlib import metadata
from itertools import chain
from pathlib import Path
from typing import Any

from tools.bench import (
    agent,
    copies,
    engine,
    handover,
    local,
    memory,
    reading,
    restored,
    s3peers,
    scaling,
    startup,
)
from tools.bench.measure import machine
from tools.bench.row import Row, Table, as_text, ratios


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    rows: int = 5_000_000
    files: int = 20_000
    bytes: int = 1_000_000_000
    runs: int = 3
    starts: int = 30
    savepoints: int = 1000
    pairs: int = 20
    batches: int = 50


QUICK = Sizes(20_000, 600, 20_000_000, 1, 3, 20, 2, 10)


class Unavailable(Exception):
    """A comparison needs something that is not here; says what."""


#: The ratios of each row of a group, in the order of the rows.
Ratios = list[tuple[float, ...]]


@dataclass(frozen=True)
class Group:
    """Rows that one measurement gives."""

    name: str
    rows: tuple[Row, ...]
    measure: Callable[[Path, Sizes], Ratios]


def _other(directory: Path) -> Path:
    other = memory.other_disk(directory)
    if other is None:
        raise Unavailable("needs a second file system (/dev/shm)")
    return other


def _repeated(directory: Path, runs: int, once: Callable[[Path], Any]) -> list[Any]:
    """What each run returns; each has a directory of its own."""
    return [once(Path(tempfile.mkdtemp(dir=directory))) for _ in range(runs)]


def _engine(before: int, after: int) -> Callable[[Path, Sizes], Ratios]:
    def measure(directory: Path, sizes: Sizes) -> Ratios:
        times = engine.measure(
            directory, rows=sizes.rows, runs=sizes.runs, before=before, after=after
        )
        ways = ("rescale", "evolve", "typed") if after == 12 else ("rescale",)
        return [ratios(times[way], times["spark"], speed=True) for way in ways]

    return measure


def _reading(directory: Path, sizes: Sizes) -> Ratios:
    times = reading.measure(directory, sizes.rows, sizes.runs)
    return [
        ratios(times[way], times["statestore"], speed=True) for way in ("canonical", "state export")
    ]


def _local(directory: Path, sizes: Sizes) -> Ratios:
    times = local.savepoint(directory, sizes.files)
    return [ratios(times["savepoint"], times["cp -al"], speed=False)]


def _copies(directory: Path, sizes: Sizes) -> Ratios:
    times = copies.beside_cp(directory, _other(directory), sizes.bytes, sizes.runs)
    return [ratios(times["savepoint"], times["cp"], speed=False)]


def _second(directory: Path, sizes: Sizes) -> Ratios:
    def once(place: Path) -> tuple[float, float]:
        return copies.second(place, _other(place), sizes.bytes)

    return list(zip(*_repeated(directory, sizes.runs, once), strict=True))


def _s3(tool: str) -> Callable[[Path, Sizes], Ratios]:
    def measure(directory: Path, sizes: Sizes) -> Ratios:
        if shutil.which(tool) is None:
            raise Unavailable(f"needs {tool}")
        return s3peers.measure(directory, tool, sizes.files, sizes.runs)

    return measure


def _agent(directory: Path, sizes: Sizes, *, savepoints: bool = False) -> Ratios:
    blocks = agent.measure(
        directory, pairs=sizes.pairs, batches=sizes.batches, savepoints=savepoints
    )
    pairs = list(zip(blocks["attached"], blocks["without"], strict=True))

    def each(of: Callable[[Sequence[float]], float]) -> tuple[float, ...]:
        return tuple(of(ours) / of(peer) for ours, peer in pairs)

    def p99(times: Sequence[float]) -> float:
        return sorted(times)[int(0.99 * (len(times) - 1))]

    # Batches of one size follow one another: the mean is the inverse of the throughput.
    return [each(statistics.median), each(p99), each(statistics.mean)]


def _restored(directory: Path, sizes: Sizes) -> Ratios:
    times = restored.measure(directory, sizes.runs)
    less = [seconds - 1 for seconds in times["run -s"]]
    return [ratios(less, times["spark-submit"], speed=False)]


def _handover(job: Callable[[Sizes], handover.Job]) -> Callable[[Path, Sizes], Ratios]:
    def measure(directory: Path, sizes: Sizes) -> Ratios:
        times = handover.measure(directory, sizes.runs, job(sizes))
        return [ratios(times["upgrade --handover"], times["stop and spark-submit"], speed=False)]

    return measure


_COMMANDS = ("flinkish list", "flinkish status", "flinkish --help", "savepoint list")


def _startup(directory: Path, sizes: Sizes) -> Ratios:
    times = startup.startup(directory, sizes.starts, savepoints=sizes.savepoints)
    return [ratios(times[name], times["python -c pass"], speed=False) for name in _COMMANDS]


def _scaling(directory: Path, sizes: Sizes) -> Ratios:
    return [
        scaling.files(directory, sizes.files, sizes.runs),
        *(
            tuple(chain.from_iterable(_repeated(directory, sizes.runs, once)))
            for once in (
                partial(scaling.jobs, runs=sizes.starts),
                partial(scaling.state, rows=sizes.rows),
                partial(scaling.history, savepoints=sizes.savepoints, runs=sizes.starts),
            )
        ),
    ]


_REPARTITION, _READER = "Spark's repartition of a copy", "Spark's statestore reader, Parquet"
_PLAIN = "the same query without the agent"
GROUPS = (
    Group(
        "engine-8-12",
        (
            Row("rescale, 8 to 12", _REPARTITION, 3, True),
            Row("evolve and rescale", _REPARTITION, 3, True),
            Row("typed eager migration", _REPARTITION, 3, True),
        ),
        _engine(8, 12),
    ),
    Group("engine-8-16", (Row("rescale, 8 to 16", _REPARTITION, 4, True),), _engine(8, 16)),
    Group("engine-200-64", (Row("rescale, 200 to 64", _REPARTITION, 3, True),), _engine(200, 64)),
    Group(
        "reading",
        (Row("canonical savepoint", _READER, 1, True), Row("state export", _READER, 1, True)),
        _reading,
    ),
    Group("local", (Row("savepoint, local, many files", "cp -al of all", 1, False),), _local),
    Group(
        "copies",
        (Row("savepoint, 200 partitions, other disk", "cp of the needed bytes", 1.15, False),),
        _copies,
    ),
    Group(
        "second",
        (
            Row("second savepoint, 1 % changed: bytes", "the first", 0.05, False),
            Row("second savepoint, 1 % changed: time", "the first", 0.2, False),
        ),
        _second,
    ),
    *(
        Group(
            tool,
            (
                Row("savepoint to S3 from local", f"{tool} cp", 1, True),
                Row("savepoint to S3 from S3", f"{tool} cp", 1, True),
            ),
            _s3(tool),
        )
        for tool in ("aws", "s5cmd")
    ),
    *(
        Group(
            name,
            (
                Row(f"{when}: p50 of batches", _PLAIN, 1.03, False),
                Row(f"{when}: p99 of batches", _PLAIN, 1.03, False),
                Row(f"{when}: mean of batches", _PLAIN, 1.01, False),
            ),
            partial(_agent, savepoints=savepoints),
        )
        for name, when, savepoints in (
            ("agent", "idle agent", False),
            ("agent-savepoint", "agent during a savepoint", True),
        )
    ),
    Group(
        "restored",
        (Row("run -s to first batch, less 1 s", "spark-submit, own checkpoint", 1.1, False),),
        _restored,
    ),
    *(
        Group(name, (Row(what, "stop and spark-submit", 0.34, False),), _handover(job))
        for name, what, job in (
            ("handover", "handover", lambda _sizes: handover.Job()),
            ("handover-large", "handover, large state", lambda sizes: handover.Job(sizes.rows)),
            (
                "handover-rewritten",
                "handover, state rewritten",
                lambda sizes: handover.Job(sizes.rows, partitions=2 * handover.PARTITIONS),
            ),
            ("handover-queries", "handover, three queries", lambda _sizes: handover.Job(queries=3)),
        )
    ),
    Group(
        "startup",
        tuple(
            Row(name.removeprefix("flinkish "), "python -c pass", needed, False)
            for name, needed in zip(_COMMANDS, (3, 5, 5, 5), strict=True)
        ),
        _startup,
    ),
    Group(
        "scaling",
        (
            # A tenth above linear is the noise of single runs.
            Row("files x10: savepoint", "itself", 11, False),
            Row("ended jobs x10: list", "itself", 1.1, False),
            Row("state x10: rescale", "itself", 11, False),
            Row("savepoints x10: savepoint list", "itself", 11, False),
        ),
        _scaling,
    ),
)


def short(error: BaseException) -> str:
    """One line of an error: of a program's stderr the first that names an error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = (line for line in lines if re.search(r"(Error|Exception)\b.*:", line))
    return next(named, lines[-1] if lines else type(error).__name__)[:300]


def measured(group: Group, sizes: Sizes) -> list[Row]:
    """The group's rows with their ratios, or with the reason why there are none."""
    began = time.monotonic()
    today, load = date.today().isoformat(), os.getloadavg()[0]
    rows = [replace(row, load=load, date=today) for row in group.rows]
    try:
        with tempfile.TemporaryDirectory(prefix="flinkish-bench-") as directory:
            found = group.measure(Path(directory), sizes)
    # One comparison that fails must not cost the others, which take an hour.
    except (Exception, SystemExit) as error:  # noqa: BLE001
        print(error, file=sys.stderr, flush=True)
        reason = short(error)
        return [replace(row, reason=reason) for row in rows]
    print(f"# {group.name}: {time.monotonic() - began:.0f} s", flush=True)
    return [replace(row, ratios=each) for row, each in zip(rows, found, strict=True)]


def versions() -> dict[str, str]:
    """What was measured, and with what."""
    found = {"python": platform.python_version()}
    for name in ("flinkish", "pyspark", "flinkish-rocksdb"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def run(sizes: Sizes, only: Sequence[str], output: Path, *, quick: bool) -> Table:
    """Measure the groups in turn, and write the document after each, so that none is lost.

    The rows of groups that ``only`` leaves out are kept as the document has them.
    """
    before = Table.from_json(output.read_text()).rows if only and output.exists() else ()
    rows = {group.name: _rows_of(group, before) for group in GROUPS}
    at = machine()
    for group in GROUPS:
        if only and group.name not in only:
            continue
        print(f"# {group.name}", flush=True)
        rows[group.name] = measured(group, sizes)
        table = Table(tuple(chain.from_iterable(rows.values())), at, versions(), quick)
        output.write_text(table.to_json(), encoding="utf-8")
    print(as_text(table.rows))
    return table


def _rows_of(group: Group, rows: Sequence[Row]) -> list[Row]:
    names = {(row.what, row.peer) for row in group.rows}
    return [row for row in rows if (row.what, row.peer) in names]
