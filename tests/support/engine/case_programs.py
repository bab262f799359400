"""Programs of many cases in one JVM of their own: how tests run them, and what they share.

A program is a module with ``main(DIR, CASES)``; it writes ``DIR/results.json``: case -> what came
of it, or ``{"error": traceback}``, and "spark" -> the version.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.support.checkpoints import streaming_queries as cases

REPOSITORY = Path(__file__).parents[3]
RESULTS = "results.json"


def run_program(
    module: str,
    directory: Path,
    chosen: Sequence[str] = (),
    *,
    python: str = sys.executable,
    timeout: float = 2900,
) -> dict[str, Any]:
    """The results of a program of this package, run by another interpreter.

    ``timeout``: seconds for all ``chosen`` cases; without any the program runs all it has.
    """
    done = subprocess.run(
        [python, "-m", f"tests.engine.{module}", str(directory), *chosen],
        cwd=REPOSITORY,
        env={**os.environ, "PYSPARK_PYTHON": python, "PYTHONPATH": str(REPOSITORY)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    path = directory / RESULTS
    assert path.exists(), done.stdout[-2000:] + done.stderr[-4000:]
    results: dict[str, Any] = json.loads(path.read_text())
    return results


def run_through(
    frame: Any, mode: str, checkpoint: str, *, by_the_clock: bool, seconds: float = 180
) -> None:
    """Run a query over all input that there is.

    ``by_the_clock``: it waits for time to pass; with availableNow it would never end.
    """
    writer = frame.writeStream.outputMode(mode).format("noop")
    once: dict[str, Any] = {"once" if by_the_clock else "availableNow": True}
    query = writer.option("checkpointLocation", checkpoint).trigger(**once).start()
    if not query.awaitTermination(seconds):
        query.stop()
        raise TimeoutError("the query did not end")


def run_cases(
    work: str,
    chosen: Callable[[str], Sequence[str]],
    run_case: Callable[[Any, str, str], Any],
    prepare: Callable[[], object] | None = None,
) -> None:
    """The main function of a program.

    Args:
        work: its directory.
        chosen: the cases for a version of Spark.
        run_case: runs one: the session, its name, and a directory of its own, which is not there.
        prepare: is called before the first.
    """
    spark = cases.make_session(work)
    results: dict[str, Any] = {"spark": spark.version}
    if prepare is not None:
        prepare()
    for name in chosen(spark.version):
        start = time.monotonic()
        try:
            results[name] = run_case(spark, name, f"{work}/{name}")
            outcome = "ran"
        except Exception:  # noqa: BLE001 - the case's test shows it; the others still run
            results[name] = {"error": traceback.format_exc()}
            outcome = "failed"
        print(f"{name} {outcome} {time.monotonic() - start:.1f} s", flush=True)
        with open(f"{work}/{RESULTS}", "w", encoding="utf-8") as file:
            json.dump(results, file)
    spark.stop()
