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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.bench import handover_program
from tools.bench.measure import machine, show

PROGRAM = Path(handover_program.__file__)
ROWS = 100_000
_PATIENCE = 300.0


def measure(directory: Path, runs: int, rows: int = ROWS) -> dict[str, list[float]]:
    """Time the switch both ways, in turn, on a RocksDB state of ``rows`` rows."""
    times: dict[str, list[float]] = {"stop and spark-submit": [], "upgrade --handover": []}
    print(f"switch of a job with {rows:,} rows of state ({machine()})", flush=True)
    for number in range(runs):
        for name, switch in zip(times, (_plain, _handover), strict=True):
            with tempfile.TemporaryDirectory(dir=directory) as place:
                seconds = switch(Path(place), rows)
            print(f"  {number + 1}. {name}: {seconds:.2f} s ({machine()})", flush=True)
            times[name].append(seconds)
    show("from the last batch before to the first after", times, "stop and spark-submit")
    return times


def _plain(directory: Path, rows: int) -> float:
    checkpoint = directory / "checkpoint"
    with fed(directory, rows) as source:
        old = submit(source, checkpoint)
        try:
            until_busy(checkpoint)
            Path(f"{checkpoint}.stop").touch()
            until(Path(f"{checkpoint}.stopped").exists)
            last = commits(checkpoint)[-1]
            Path(f"{checkpoint}.stop").unlink()
            new = submit(source, checkpoint)
            try:
                until(lambda: commits(checkpoint)[-1] > last)
                first = min(each for each in commits(checkpoint) if each > last)
                return committed(checkpoint, first) - committed(checkpoint, last)
            finally:
                end(new)
        finally:
            end(old)


def _handover(directory: Path, rows: int) -> float:
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

    def checkpoint(job: str) -> Path:
        return directory / "state" / "flinkish" / "checkpoints" / job / "counts"

    with fed(directory, rows) as source:
        conf = [w for k, v in handover_program.SETTINGS.items() for w in ("--conf", f"{k}={v}")]
        words = ("--master", "local[2]")
        old = flinkish("run", "-d", "-q", *words, *conf, str(PROGRAM), str(source)).strip()
        try:
            before = checkpoint(old)
            until_busy(before)
            upgrade = ("upgrade", "in-place", old, "--handover", "--health-batches", "1", "-q")
            new = flinkish(*upgrade, "--savepointPath", str(directory / "savepoints")).strip()
            after, last = checkpoint(new), commits(before)[-1]
            first = min(each for each in commits(after) if each > last)
            return committed(after, first) - committed(before, last)
        finally:
            for job in json.loads(flinkish("list", "--json"))["jobs"]:
                flinkish("cancel", job["job_id"])


def submit(source: Path, checkpoint: Path) -> subprocess.Popen[bytes]:
    conf = [w for k, v in handover_program.SETTINGS.items() for w in ("--conf", f"{k}={v}")]
    submit = str(Path(sys.executable).with_name("spark-submit"))
    return subprocess.Popen(
        [submit, "--master", "local[2]", *conf, str(PROGRAM), str(source), str(checkpoint)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        start_new_session=True,
    )


def end(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, 9)
    process.wait()


@contextmanager
def fed(directory: Path, rows: int = ROWS) -> Iterator[Path]:
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


def until_busy(checkpoint: Path) -> None:
    """Wait until the job has committed some batches: its JVM is warm."""
    until(lambda: commits(checkpoint)[-1] >= 8)


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
