"""An upgrade with ``--handover`` beside what plain Spark's users do: stop, and submit again.

Measured is the time from the commit of the last batch before the switch to the commit of the first
after it, while a file arrives every 100 ms. For plain Spark the new ``spark-submit`` begins as soon
as ``query.stop()`` has returned, on the same checkpoint; nobody has to find out that it has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.bench import handover_program
from tools.bench.measure import machine, show

PROGRAM = Path(handover_program.__file__)
PARTITIONS = int(handover_program.SETTINGS["spark.sql.shuffle.partitions"])
_PATIENCE = 900.0


@dataclass(frozen=True)
class Job:
    """What is switched; another number of ``partitions`` than before has its state rewritten."""

    rows: int = 100_000
    queries: int = 1
    partitions: int = PARTITIONS


def measure(directory: Path, runs: int, job: Job) -> dict[str, list[float]]:
    """Time the switch both ways, in turn, on a RocksDB state of ``job.rows`` rows a query."""
    times: dict[str, list[float]] = {"stop and spark-submit": [], "upgrade --handover": []}
    print(f"switch of {job} ({machine()})", flush=True)
    for number in range(runs):
        for name, switch in zip(times, (_plain, _handover), strict=True):
            with tempfile.TemporaryDirectory(dir=directory) as place:
                seconds = switch(Path(place), job)
            print(f"  {number + 1}. {name}: {seconds:.2f} s ({machine()})", flush=True)
            times[name].append(seconds)
    show("from the last batch before to the first after", times, "stop and spark-submit")
    return times


def _plain(directory: Path, job: Job) -> float:
    checkpoints = directory / "checkpoints"
    places = [checkpoints / name for name in handover_program.names(job.queries)]
    with fed(directory, job.rows) as source:
        old = submit(source, checkpoints, job.queries)
        try:
            until_busy(places)
            Path(f"{checkpoints}.stop").touch()
            until(Path(f"{checkpoints}.stopped").exists)
            last = [commits(place)[-1] for place in places]
            before = _times(places, last)
            Path(f"{checkpoints}.stop").unlink()
            new = submit(source, checkpoints, job.queries)
            try:
                return _pause(places, last, before)
            finally:
                end(new)
        finally:
            end(old)


def _handover(directory: Path, job: Job) -> float:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FLINKISH_")}
    environment["XDG_STATE_HOME"] = str(directory / "state")

    def flinkish(*words: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "flinkish", *words],
            stdout=subprocess.PIPE,
            env=environment,
            cwd=directory,
            check=True,
            text=True,
        ).stdout

    def places(job_id: str) -> list[Path]:
        root = directory / "state" / "flinkish" / "checkpoints" / job_id
        return [root / name for name in handover_program.names(job.queries)]

    with fed(directory, job.rows) as source:
        conf = [w for k, v in handover_program.SETTINGS.items() for w in ("--conf", f"{k}={v}")]
        words = ("--master", "local[2]", *conf, str(PROGRAM), str(source), str(job.queries))
        old = flinkish("run", "-d", "-q", *words).strip()
        try:
            until_busy(places(old))
            upgrade = ["upgrade", "in-place", old, "--handover", "--health-batches", "1", "-q"]
            if job.partitions != PARTITIONS:
                upgrade += ["--parallelism", str(job.partitions)]
            new = flinkish(*upgrade, "--savepointPath", str(directory / "savepoints")).strip()
            last = [commits(place)[-1] for place in places(old)]
            return _pause(places(new), last, _times(places(old), last))
        finally:
            for each in json.loads(flinkish("list", "--json"))["jobs"]:
                flinkish("cancel", each["job_id"])


def _pause(places: list[Path], last: list[int], before: list[float]) -> float:
    """Wait for the first batch after ``last`` of each query, and return the longest pause."""
    pairs = list(zip(places, last, strict=True))
    until(lambda: all(commits(place)[-1] > batch for place, batch in pairs))
    first = [min(each for each in commits(place) if each > batch) for place, batch in pairs]
    return max(b - a for a, b in zip(before, _times(places, first), strict=True))


def _times(places: list[Path], batches: list[int]) -> list[float]:
    return [committed(place, batch) for place, batch in zip(places, batches, strict=True)]


def submit(source: Path, checkpoints: Path, queries: int = 1) -> subprocess.Popen[bytes]:
    conf = [w for k, v in handover_program.SETTINGS.items() for w in ("--conf", f"{k}={v}")]
    submit = str(Path(sys.executable).with_name("spark-submit"))
    words = [str(PROGRAM), str(source), str(queries), str(checkpoints)]
    return subprocess.Popen(
        [submit, "--master", "local[2]", *conf, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        start_new_session=True,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, 9)
    process.wait()


@contextmanager
def fed(directory: Path, rows: int) -> Iterator[Path]:
    """Give a directory that gets a file with ``rows`` keys, and then a small one every 100 ms."""
    source = directory / "input"
    source.mkdir()
    over = threading.Event()

    def write(number: int, end: int) -> None:
        hidden = source / f".{number}"
        hidden.write_text(json.dumps({"start": 0, "end": end}) + "\n")
        hidden.rename(source / f"{number:06}.json")

    def feed() -> None:
        number = 1
        while not over.wait(0.1):
            write(number, 10)
            number += 1

    write(0, rows)
    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield source
    finally:
        over.set()
        thread.join()


def until_busy(checkpoints: Sequence[Path]) -> None:
    """Wait until every query has committed some batches: its JVM is warm."""
    until(lambda: all(commits(checkpoint)[-1] >= 8 for checkpoint in checkpoints))


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.02)


def commits(checkpoint: Path) -> list[int]:
    """Return the committed batches, in order; -1 when there is none."""
    try:
        names = os.listdir(checkpoint / "commits")
    except FileNotFoundError:
        names = []
    return sorted(int(name) for name in names if name.isdigit()) or [-1]


def committed(checkpoint: Path, batch: int) -> float:
    return (checkpoint / "commits" / str(batch)).stat().st_mtime
