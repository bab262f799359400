"""A restore check of the flights example, beside a plain ``spark-submit`` of the same program.

That one calls ``explain()`` on its query. The budget is two seconds more.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
import time
from pathlib import Path

from flinkish.examples.flights import data as flights
from tools.bench.measure import alternate, output_of, show


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
        return output_of(words, environment, directory).strip()

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
