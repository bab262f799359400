"""What users wait for, measured: ``make bench`` (or ``python -m tests.bench``).

* The start-up of ``flinkish list`` and ``--help``, as multiples of ``python -c pass``; the budget
  of ``list`` is 4.
* A savepoint of a checkpoint with many files, as a multiple of ``cp -al`` of the same directory
  (which links old versions and sidecars too, and computes no digests).
* ``check`` (only when it is asked for: it starts Spark): a restore of the flights example, beside
  a plain ``spark-submit`` of the same program that calls ``explain()`` on its query. The budget is
  two seconds more.

Wall times; runs of the things compared alternate, so that other load hits all of them. The best
and the median of the runs are shown: on a busy machine only the best means something.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flinkish.examples.flights import data as flights
from flinkish.jobs.liveness import process_ref
from flinkish.jobs.model import Job, JobState, Launch
from flinkish.jobs.registry import Registry, new_job_id
from flinkish.savepoint.model import QuerySource, SavepointJob
from flinkish.savepoint.reporter import SilentReporter
from flinkish.savepoint.writer import write_savepoint
from tests.checkpoint.likeness import CheckpointLikeness

JOB = SavepointJob("0123456789abcdef0123456789abcdef", "bench", spark_version="4.3.0")


def main() -> int:
    """Run the measurements named on the command line, or all."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument(
        "what", nargs="*", choices=["", "startup", "savepoint", "check"], default=""
    )
    parser.add_argument("--runs", type=int, default=30, help="start-ups of each command")
    parser.add_argument("--checks", type=int, default=5, help="runs of check")
    parser.add_argument("--files", type=int, default=20_000, help="files of the checkpoint")
    options = parser.parse_args()
    what = options.what or ["startup", "savepoint"]
    with tempfile.TemporaryDirectory(prefix="flinkish-bench-") as directory:
        if "startup" in what:
            startup(Path(directory), options.runs)
        if "savepoint" in what:
            savepoint(Path(directory), options.files)
        if "check" in what:
            check(Path(directory), options.checks)
    return 0


def startup(directory: Path, runs: int) -> None:
    """Wall time of commands beside that of Python itself, with three jobs in the registry."""
    url = f"sqlite:///{directory}/state/flinkish/registry.db"
    with Registry.open(url) as registry:
        for number in range(3):
            job_id = new_job_id()
            launch = Launch(application="/app.py")
            registry.add_job(
                Job(job_id, f"job {number}", JobState.INITIALIZING, time.time(), launch)
            )
            registry.transition(job_id, JobState.CREATED)
            registry.transition(job_id, JobState.RUNNING)
            registry.update_job(job_id, driver=process_ref(os.getpid()))
    script = str(Path(sys.executable).with_name("flinkish"))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FLINKISH_")}
    environment["XDG_STATE_HOME"] = str(directory / "state")

    def start(*words: str) -> Callable[[], None]:
        def run() -> None:
            subprocess.run(
                words, env=environment, cwd=directory, check=True, stdout=subprocess.DEVNULL
            )

        return run

    times = alternate(
        {
            "python -c pass": start(sys.executable, "-c", "pass"),
            "flinkish list": start(script, "list"),
            "flinkish --help": start(script, "--help"),
            "flinkish status": start(script, "status", "job 1"),
        },
        runs,
    )
    show(f"start-up, {runs} runs each", times, "python -c pass")


def savepoint(directory: Path, files: int) -> None:
    """A savepoint of an HDFS-backed checkpoint, beside hard links made by ``cp``."""
    checkpoint = directory / "checkpoint"
    # Two deltas and a snapshot a partition belong to the cut; each has a sidecar.
    CheckpointLikeness(checkpoint, partitions=max(1, files // 3)).run_to(4)
    present = sum(len(names) for _, _, names in os.walk(checkpoint))
    target, copies = directory / "savepoints", directory / "copies"
    copies.mkdir()
    written = []

    def take() -> None:
        query = QuerySource("query", str(checkpoint))
        written.append(
            write_savepoint(
                str(target), JOB, [query], trigger="savepoint", reporter=SilentReporter()
            )
        )

    def copy() -> None:
        name = copies / str(len(list(copies.iterdir())))
        subprocess.run(["cp", "-al", str(checkpoint), str(name)], check=True)

    times = alternate({"cp -al": copy, "savepoint": take}, 5)
    show(f"checkpoint with {present:,} files, sidecars included", times, "cp -al")
    best = min(times["savepoint"])
    info = written[-1]
    print(
        f"  the savepoint holds {info.files:,} files ({info.linked:,} linked), all with digests: "
        f"{info.files / best:,.0f} files/s"
    )


def check(directory: Path, runs: int) -> None:
    """A restore check of the flights example beside ``explain()`` of its query."""
    flights.prepare(directory / "flights")
    programs = Path(flights.__file__).parent
    for name in ("delays_v1.py", "delays_v2.py"):
        shutil.copy(programs / name, directory)
    text = (directory / "delays_v2.py").read_text()
    head, writer, rest = text.partition("    def write(")
    assert writer, rest
    plain = head + "    delays(flights, airlines).explain()\n\n\n" + _EXPLAIN_MAIN
    (directory / "explain.py").write_text(plain)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("FLINKISH_")}
    environment |= {"XDG_STATE_HOME": str(directory / "state"), "PYSPARK_PYTHON": sys.executable}
    environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    script = str(Path(sys.executable).with_name("flinkish"))
    spark = ("--master", "local[2]", "--conf", "spark.ui.enabled=false")
    partitions = ("--conf", "spark.sql.shuffle.partitions=2")
    ours = ("-m", "local[2]", "--conf", "spark.ui.enabled=false", "-p", "2")

    def call(*words: str) -> str:
        done = subprocess.run(
            words, env=environment, cwd=directory, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    job = call(script, "run", "-d", "-q", *ours, "delays_v1.py", "flights", "out")
    deadline = time.monotonic() + 120
    batch = -1
    while batch < 1 and time.monotonic() < deadline:
        time.sleep(1)
        queries = json.loads(call(script, "status", job, "--json"))["job"]["queries"]
        batch = max((query["batch_id"] or 0 for query in queries), default=-1)
    path = call(script, "stop", job, "-p", "savepoints", "-q")
    submit = str(Path(sys.executable).with_name("spark-submit"))
    times = alternate(
        {
            "explain()": lambda: call(submit, *spark, *partitions, "explain.py", "flights", "out"),
            "flinkish check": lambda: call(
                script, "check", "-s", path, *ours, "delays_v2.py", "flights", "out"
            ),
        },
        runs,
    )
    show(f"check of the flights example, {runs} runs each", times, "explain()")
    more = [statistics.median(times["flinkish check"]), min(times["flinkish check"])]
    more[0] -= statistics.median(times["explain()"])
    more[1] -= min(times["explain()"])
    print(f"  check takes {more[0]:.2f} s (median), {more[1]:.2f} s (best) more than explain()")


_EXPLAIN_MAIN = """def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("--files-per-trigger", type=int, default=7)
    options = parser.parse_args()
    builder = SparkSession.builder.appName("delays").config("spark.sql.session.timeZone", "UTC")
    start(builder.getOrCreate(), options)


main()
"""


def alternate(actions: Mapping[str, Callable[[], Any]], runs: int) -> dict[str, list[float]]:
    """Wall times in seconds of each action, run in turn after one warm-up each."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(runs + 1):
        for name, action in actions.items():
            started = time.perf_counter()
            action()
            if number:
                times[name].append(time.perf_counter() - started)
    return times


def show(title: str, times: Mapping[str, list[float]], unit: str) -> None:
    """A table of the measured times and their ratios to ``unit``."""
    print(f"{title}\n  {'':18}{'best':>10}{'median':>10}{'best':>8}{'median':>8}")
    base_best, base_median = min(times[unit]), statistics.median(times[unit])
    for name, seconds in times.items():
        best, median = min(seconds), statistics.median(seconds)
        print(
            f"  {name:18}{best * 1000:8.1f}ms{median * 1000:8.1f}ms"
            f"{best / base_best:7.2f}x{median / base_median:7.2f}x"
        )


if __name__ == "__main__":
    raise SystemExit(main())
