"""Programs of many cases in one JVM of their own: how tests run them, and what they share.

A program is a module with ``main(DIR, CASES, SESSION)``; it writes ``DIR/results.json``: case ->
what came of it, or ``{"error": traceback}``, and "spark" -> the version.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.checkpoints import streaming_queries as cases

REPOSITORY = Path(__file__).parents[3]
RESULTS = "results.json"


def run_program(
    module: str,
    directory: Path,
    cases: Sequence[str] = (),
    *,
    python: str = sys.executable,
    timeout: float = 2900,
) -> dict[str, Any]:
    """The results of cases of a program of this package, run by another interpreter.

    ``cases``: none for all of them; ``timeout``: seconds for all that run.
    """
    said = _run([f"tests.support.engine.{module}", str(directory), *cases], python, timeout)
    return results_of(directory, said)


def in_parts(cases: Sequence[str], count: int) -> dict[str, tuple[str, ...]]:
    """The cases dealt out to ``count`` runs of a program, neighbours to different ones.

    The id of a test's parameters that begins with the name of a part lets another worker run it
    (``tests/support/tiers/plugin.py``).
    """
    return {f"part{number}": tuple(cases[number::count]) for number in range(count)}


def part_and_case(parts: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    """The parameters ``("part", "name")`` of a test of all cases of the parts."""
    return [(part, name) for part, names in parts.items() for name in names]


def _run(words: Sequence[str], python: str = sys.executable, timeout: float = 2900) -> str:
    """Run a module in a process of its own; the ends of what it said.

    The environment of an older Spark holds nothing that flinkish needs, because jobs must run there
    without: what the engine needs is beside it (``for-tests``; see the Makefile).
    """
    beside = Path(python).parents[1] / "for-tests"
    path = [str(REPOSITORY), *([str(beside)] if beside.is_dir() else [])]
    done = subprocess.run(
        [python, "-m", *words],
        cwd=REPOSITORY,
        env={**os.environ, "PYSPARK_PYTHON": python, "PYTHONPATH": os.pathsep.join(path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return done.stdout[-2000:] + done.stderr[-4000:]


def results_of(directory: Path, said: str = "") -> dict[str, Any]:
    """What a program has written; ``said``: what its process printed, should that be nothing."""
    path = directory / RESULTS
    assert path.exists(), said
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
    session: Any = None,
) -> None:
    """The main function of a program.

    Args:
        work: its directory.
        chosen: the cases for a version of Spark.
        run_case: runs one: the session, its name, and a directory of its own, which is not there.
        prepare: is called before the first.
        session: that of a test; without one, one is made, and stopped at the end.
    """
    spark = session or cases.make_session(work)
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
    if session is None:
        spark.stop()
