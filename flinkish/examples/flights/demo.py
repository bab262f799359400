"""The demo: a job is stopped with a savepoint halfway and resumed as a better program.

``make demo`` runs it. Every step is a command that a person could type; the demo prints the command
and its output. At the end the stream's whole output is compared with the same query computed as a
batch over all 336,776 rows, and the exit status is 1 when one row differs.

Nothing outside a temporary directory is touched: the registry, the configuration, the logs and
the checkpoints of the jobs are all kept below it.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flinkish.examples.flights import data

#: ``status`` reports this watermark (or a later one) once every real window has been emitted.
ALL_THROUGH = "2014-01-01T00:00"
#: Seconds to wait for the first batches, and for all days.
START_TIMEOUT, STREAM_TIMEOUT = 120.0, 600.0
SPARK = ("-m", "local[2]", "-p", "2", "--conf", "spark.ui.enabled=false")


class DemoError(Exception):
    """A step of the demo failed."""


@dataclass(frozen=True)
class Shell:
    """Runs flinkish in one directory, isolated from the user's own registry and settings."""

    directory: Path
    environment: dict[str, str] = field(repr=False)

    @staticmethod
    def at(directory: Path) -> Shell:
        """Return a shell whose state and configuration are below ``directory``."""
        environment = {
            key: value for key, value in os.environ.items() if not key.startswith("FLINKISH_")
        }
        environment["XDG_STATE_HOME"] = str(directory / "state")
        environment["XDG_CONFIG_HOME"] = str(directory / "config")
        environment["NO_COLOR"] = "1"
        return Shell(directory, environment)

    def flinkish(self, *arguments: str, show: bool = True) -> str:
        """Run one command to its end and return its stdout.

        Parameters
        ----------
        show
            Print the command line and its output, stderr included. Otherwise only the output of a
            command that fails is printed.

        Raises
        ------
        DemoError
            The command exited with a status other than 0.
        """
        if show:
            print(f"\n$ flinkish {shlex.join(arguments)}", flush=True)
        process = subprocess.run(
            # The console script that was installed along with this interpreter.
            [str(Path(sys.executable).with_name("flinkish")), *arguments],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            # Shown together, as in a terminal; separate where the result is parsed.
            stderr=subprocess.STDOUT if show else subprocess.PIPE,
            text=True,
        )
        if show or process.returncode != 0:
            print(process.stdout + (process.stderr or ""), end="", flush=True)
        if process.returncode != 0:
            raise DemoError(f"flinkish {arguments[0]} ended with exit status {process.returncode}")
        return process.stdout

    def status(self, job: str) -> dict[str, Any]:
        """Return the job as ``flinkish status --json`` shows it."""
        described: dict[str, Any] = json.loads(self.flinkish("status", job, "--json", show=False))[
            "job"
        ]
        return described


def run(directory: Path, files_per_trigger: int) -> bool:
    """Run the demo in ``directory`` and return whether the comparison found no difference."""
    shell = Shell.at(directory)
    say("The input: departures from New York in 2013, a file a day")
    flights = data.prepare(directory / "flights")
    print(
        f"{flights.rows:,} departures in {flights.days} files, {flights.repeated:,} of them "
        "delivered twice"
    )
    for program in ("delays_v1.py", "delays_v2.py"):
        shutil.copy(Path(__file__).with_name(program), directory)
    arguments = ("flights", "results", "--files-per-trigger", str(files_per_trigger))
    try:
        say("Run version 1")
        shell.flinkish("run", "-d", *SPARK, "delays_v1.py", *arguments)
        wait(shell, "delays_v1", batch=2)
        shell.flinkish("list")

        say("Take a savepoint; the job continues")
        shell.flinkish("savepoint", "delays_v1", "savepoints")
        first = savepoints(directory)
        wait(shell, "delays_v1", batch=shell.status("delays_v1")["queries"][0]["batch_id"] + 2)

        say("Stop it with a savepoint")
        shell.flinkish("stop", "delays_v1", "-p", "savepoints")
        (stopped,) = savepoints(directory) - first
        document = json.loads(shell.flinkish("savepoint", "show", stopped, "--json", show=False))
        last_v1_batch = int(document["savepoint"]["queries"][0]["batch_id"])
        shell.flinkish("savepoint", "show", stopped)

        say("Resume from it as version 2: a fixed mean, a column more, airlines' names")
        print(f"What changes in the program:\n{program_difference(directory)}", end="")
        shell.flinkish("check", "-s", stopped, *SPARK, "delays_v2.py", *arguments)
        shell.flinkish("run", "-d", "-s", stopped, *SPARK, "delays_v2.py", *arguments)
        wait(shell, "delays_v2", watermark=ALL_THROUGH, report=True)
        shell.flinkish("status", "delays_v2")
        shell.flinkish("cancel", "delays_v2")
        shell.flinkish("list", "-a")

        say("The savepoint that is no longer needed is removed")
        shell.flinkish("savepoint", "-d", *first, "--yes")
    finally:
        cancel_leftovers(shell)

    say("Compare with the same query computed as a batch over all rows")
    return compare(directory, last_v1_batch)


def wait(
    shell: Shell,
    job: str,
    *,
    batch: int | None = None,
    watermark: str | None = None,
    report: bool = False,
) -> None:
    """Wait until the job's query has committed ``batch``, or has reached ``watermark``.

    Raises
    ------
    DemoError
        The job ended, or the wait took too long.
    """
    deadline = time.monotonic() + (START_TIMEOUT if watermark is None else STREAM_TIMEOUT)
    reported = time.monotonic()
    if report:
        say(f"Wait until the watermark has passed {watermark}Z (flinkish status --json)")
    while time.monotonic() < deadline:
        status = shell.status(job)
        if status["state"] != "RUNNING":
            raise DemoError(f"job {job} is {status['state']}: {status.get('failure')}")
        for query in status["queries"]:
            committed, now = query["batch_id"], query["watermark"] or ""
            if (batch is not None and committed is not None and committed >= batch) or (
                watermark is not None and now >= watermark
            ):
                return
            if report and time.monotonic() - reported >= 5:
                print(f"  batch {committed}, watermark {now}", flush=True)
                reported = time.monotonic()
        time.sleep(1.0)
    raise DemoError(f"job {job} did not get as far as expected in time")


def savepoints(directory: Path) -> set[str]:
    """Return the savepoints taken so far, as paths relative to ``directory``."""
    files = (directory / "savepoints").glob("savepoint-*/_metadata")
    return {str(path.parent.relative_to(directory)) for path in files}


def program_difference(directory: Path) -> str:
    """Return what version 2 changes in the query itself (the docstrings aside)."""
    import difflib

    old, new = (
        (directory / name).read_text().partition("def delays")[2].splitlines()
        for name in ("delays_v1.py", "delays_v2.py")
    )
    lines = [
        line
        for line in difflib.unified_diff(old, new, n=0, lineterm="")
        if line[:1] in "+-" and line[:3] not in ("+++", "---") and line[1:].strip()
    ]
    return "".join(f"{line}\n" for line in lines)


def cancel_leftovers(shell: Shell) -> None:
    """Cancel the jobs that still run after a failed step or Ctrl-C."""
    for job in json.loads(shell.flinkish("list", "--json", show=False))["jobs"]:
        shell.flinkish("cancel", job["job_id"])


def compare(directory: Path, last_v1_batch: int) -> bool:
    """Compare the stream's output with the batch query in a separate process, and print the result.

    Spark's log lines are shown only when the comparison itself fails.
    """
    process = subprocess.run(
        [
            *(sys.executable, "-m", "flinkish.examples.flights.check"),
            *(str(directory / "flights"), str(directory / "results"), str(last_v1_batch)),
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    print(process.stdout, end="")
    if process.returncode not in (0, 1) or not process.stdout:
        print(process.stderr, end="")
        raise DemoError(f"the comparison ended with exit status {process.returncode}")
    return process.returncode == 0


def say(text: str) -> None:
    """Print a heading."""
    print(f"\n== {text}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo in a temporary directory, which is removed at the end, or in a given one."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--directory", type=Path, help="work there (a new directory) and keep it")
    parser.add_argument("--files-per-trigger", type=int, default=10, help="days per batch")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    temporary = None
    if options.directory:
        directory = options.directory.absolute()
        try:
            directory.mkdir(parents=True)
        except OSError as error:
            parser.error(f"cannot make the directory {directory}: {error.strerror}")
    else:
        temporary = tempfile.TemporaryDirectory("", "flinkish-demo-", ignore_cleanup_errors=True)
        directory = Path(temporary.name)
    print(f"$ cd {directory}")
    try:
        same = run(directory, options.files_per_trigger)
    except (DemoError, ModuleNotFoundError) as error:  # the data is in another package
        print(f"\nDemo failed: {error}", file=sys.stderr)
        return 1
    finally:
        if temporary is not None:
            temporary.cleanup()
    seconds = time.monotonic() - began
    if not same:
        print("\nDemo failed: the results differ", file=sys.stderr)
        return 1
    print(f"\nDemo passed in {seconds:.0f} s: not one row differs.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
