"""Exported checkpoints, which a program goes on in by ``spark-submit``, without flinkish.

What the rows are is in the input, and what must come of them is worked out in Python.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support import venvs
from tests.support.cli.command import LIGHT, PROGRAMS, Flinkish
from tests.support.driver.operator_programs import BACKENDS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]

PROGRAM = str(PROGRAMS / "exported.py")
#: The input's first moment, in seconds since the epoch; a file is half an hour.
_FIRST = 1_700_000_100 // 300 * 300


def write_input(source: Path, numbers: range) -> None:
    """A file a batch: rows every ten seconds or so, in several windows and keys."""
    source.mkdir(exist_ok=True)
    for number in numbers:
        hidden, path = source / f".{number}.json", source / f"{number}.json"
        rows = [
            {"id": number * 100 + i, "k": i % 3, "t": _stamp(_FIRST + number * 1800 + i * 25)}
            for i in range(30)
        ]
        hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(hidden, (1_700_000_000 + number,) * 2)
        hidden.rename(path)


def _stamp(seconds: int) -> str:

    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).isoformat()


def check_output(source: Path, out: Path) -> None:
    """The rows are those of a batch over the input; windows before the watermark are there."""
    lines = [line for path in source.glob("*.json") for line in path.read_text().splitlines()]
    rows = [json.loads(line) for line in lines]

    times = [(row["k"], int(datetime.datetime.fromisoformat(row["t"]).timestamp())) for row in rows]
    totals = dict(Counter(k for k, _ in times))
    pairs = Counter(
        a // 300 * 300 for k, a in times for other, b in times if k == other and abs(a - b) <= 60
    )
    assert dict(written(out, "totals")) == totals
    windows = written(out, "pairs")
    assert len(dict(windows)) == len(windows), "no window twice"
    assert dict(windows) == {start: n for start, n in pairs.items() if start in dict(windows)}
    closed = max(t for _, t in times) - 3600 - 1800
    assert set(dict(windows)) >= {start for start in pairs if start + 300 <= closed}


def written(out: Path, name: str) -> list[tuple[int, int]]:
    files = sorted((out / name).glob("*.json"), key=lambda path: int(path.stem))
    return [tuple(row) for path in files for row in json.loads(path.read_text())]


def submit(python: str, *words: str) -> None:
    """``spark-submit`` of the program, by an interpreter that does not find flinkish."""
    home = venvs.spark_home(python)
    environ = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "SPARK_HOME")}
    # Its safe path: an installed flinkish may be there, but the program asserts that none is used.
    environ.update(PYSPARK_PYTHON=python, SPARK_LOCAL_IP="127.0.0.1")
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", *LIGHT, PROGRAM, *words]
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]


def round_trip(flinkish: Flinkish, directory: Path, backend: str, *spark: str) -> None:
    """Run by flinkish, exported for a changed program with other partitions, and continued."""
    source, out, plain = directory / "in", directory / "out", directory / "plain"
    write_input(source, range(4))
    conf = [f"--conf={key}={value}" for key, value in BACKENDS[backend].items()]
    run = ("run", "-q", "--name", "exported", "-m", "local[2]", *LIGHT, *conf)
    flinkish.ok(*run, PROGRAM, str(source), str(out), "-")
    options = ("-m", "local[2]", *LIGHT, "-p", "3", *spark)
    words = (PROGRAM, str(source), str(out), "-", "changed")
    shown = flinkish.ok("export", "--json", *options, "exported", str(plain), *words).json()
    assert [each["partitions"] for each in shown["checkpoints"]] == [3, 3]
    write_input(source, range(4, 7))
    python = spark[1] if spark else sys.executable
    submit(python, str(source), str(out), str(plain), "changed")
    check_output(source, out)


@pytest.mark.deep
@pytest.mark.parametrize("backend", ["hdfs", "rocksdb-format2"])
def test_each_backend(flinkish: Flinkish, tmp_path: Path, backend: str) -> None:
    """What Spark reads in rewritten state of each format is proved in ``engine/test_resuming``."""
    round_trip(flinkish, tmp_path, backend)


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("spark", "backend"), [("3.5.9", "rocksdb"), ("4.0.5", "hdfs"), ("4.2.1", "rocksdb-changelog")]
)
def test_each_spark(flinkish: Flinkish, tmp_path: Path, spark: str, backend: str) -> None:
    packages = venvs.engine_packages(spark)
    flinkish.environ["PYTHONPATH"] = packages
    round_trip(flinkish, tmp_path, backend, "-pyexec", venvs.interpreter(spark))
