"""What ten times as much costs: a linear cost is 10, a flat one 1."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.support.checkpoints.many_files import many_files
from tools.bench import engine, startup
from tools.bench.measure import in_child

TIMES = 10


def files(directory: Path, count: int, runs: int) -> tuple[float, ...]:
    """A savepoint of ``count`` files beside one of a tenth."""
    sizes = (max(200, count // TIMES), max(200, count // TIMES) * TIMES)
    # Equal numbers of partitions: only that of the files differs.
    few, many = (
        str(many_files(directory / f"files-{size}", size, deltas=size // 200)) for size in sizes
    )

    def seconds(checkpoint: str) -> float:
        with tempfile.TemporaryDirectory(dir=directory) as target:
            return float(in_child("savepoint", checkpoint=checkpoint, target=target)["seconds"])

    return tuple(seconds(many) / seconds(few) for _ in range(runs))


def jobs(directory: Path, runs: int) -> tuple[float, ...]:
    """``list`` of 20 jobs with 2,000 ended ones beside ``list`` with 200."""
    return _of_command(
        "flinkish list",
        lambda size: startup.startup(
            _new(directory, f"jobs-{size}"), runs, jobs=20, ended=20 * size, savepoints=1
        ),
    )


def history(directory: Path, savepoints: int, runs: int) -> tuple[float, ...]:
    """``savepoint list`` of all savepoints beside that of a tenth."""
    tenth = max(1, savepoints // TIMES)
    return _of_command(
        "savepoint list",
        lambda size: startup.startup(
            _new(directory, f"history-{size}"), runs, jobs=2, savepoints=tenth * size // 10
        ),
    )


def state(directory: Path, rows: int) -> tuple[float, ...]:
    """A rescale of ``rows`` beside that of a tenth."""
    best = [
        min(
            engine.measure(_new(directory, f"state-{size}"), rows=size, runs=2, before=8, after=12)[
                "rescale"
            ]
        )
        for size in (rows // TIMES, rows)
    ]
    return (best[1] / best[0],)


def _of_command(name: str, measure: Callable[[int], dict[str, list[float]]]) -> tuple[float, ...]:
    few, many = (statistics.median(measure(size)[name]) for size in (10, 10 * TIMES))
    return (many / few,)


def _new(directory: Path, name: str) -> Path:
    place = directory / name
    place.mkdir()
    return place
