"""Measuring: things compared run in turn; a child process for each savepoint; what it took."""

from __future__ import annotations

import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


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


def machine() -> str:
    """The machine's size and how busy it is, to be printed beside every figure."""
    return f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


def output_of(command: Sequence[str], environment: Mapping[str, str], directory: Path) -> str:
    """The stdout of a program, which ends the measurement with its stderr when it fails."""
    done = subprocess.run(
        command, env=environment, cwd=directory, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{done.stderr}{shlex.join(command)} failed with {done.returncode}")
    return done.stdout


def in_child(task: str, environment: Mapping[str, str] | None = None, **request: Any) -> Any:
    """The answer of a task of :mod:`tools.bench.child`, run in a process of its own.

    Raises CalledProcessError when it fails; what it wrote to stderr is on ours.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tools.bench.child", task, json.dumps(request)],
        env={**os.environ, **(environment or {})},
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(done.stdout)
