"""The installed command as a user runs it: a process of its own, a private state directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parents[2] / "e2e" / "programs"
#: Spark settings that make a driver light.
LIGHT = (
    "--conf=spark.ui.enabled=false",
    "--conf=spark.sql.shuffle.partitions=2",
    "--conf=spark.driver.memory=1g",
    "--conf=spark.ui.showConsoleProgress=false",
)


@dataclass(frozen=True)
class Result:
    """What one call of the command did."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    def error(self) -> dict[str, Any]:
        """The JSON error on stderr (its last line)."""
        record: dict[str, Any] = json.loads(self.err.strip().splitlines()[-1])["error"]
        return record


class Flinkish:
    """Calls ``flinkish`` with its state below ``directory``; cancels what is left at the end."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environ = {
            **os.environ,
            "XDG_STATE_HOME": str(directory / "state"),
            "XDG_CONFIG_HOME": str(directory / "config"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "COLUMNS": "200",
        }
        for name in [k for k in self.environ if k.startswith("FLINKISH_")]:
            del self.environ[name]

    def __call__(self, *args: str, timeout: float = 120, **environ: str) -> Result:
        done = subprocess.run(
            [sys.executable, "-m", "flinkish", *args],
            env={**self.environ, **environ},
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def ok(self, *args: str, **environ: str) -> Result:
        """A call that must succeed."""
        result = self(*args, **environ)
        assert result.code == 0, f"{args}: exit {result.code}\n{result.out}\n{result.err}"
        return result

    def run(self, program: str | Path, *args: str, options: tuple[str, ...] = ()) -> str:
        """``run -d`` of a program under tests/e2e/programs (or a path); returns the job id."""
        path = program if os.path.isabs(program) else PROGRAMS / program
        result = self.ok("run", "-d", "-q", "-m", "local[2]", *LIGHT, *options, str(path), *args)
        return result.out.strip()

    def job(self, job: str) -> dict[str, Any]:
        """The job's record of ``status --json``."""
        record: dict[str, Any] = self.ok("status", job, "--json").json()["job"]
        return record

    def wait(
        self, job: str, condition: Callable[[dict[str, Any]], Any], timeout: float = 60
    ) -> Any:
        """Poll ``status`` until ``condition`` holds; returns the record."""
        deadline = time.monotonic() + timeout
        while True:
            record = self.job(job)
            if condition(record):
                return record
            assert time.monotonic() < deadline, f"not in time: {record}"
            time.sleep(0.2)

    def wait_for_batch(self, job: str, batch: int, timeout: float = 60) -> Any:
        return self.wait(
            job,
            lambda r: (
                r["queries"]
                and all(q["batch_id"] is not None and q["batch_id"] >= batch for q in r["queries"])
            ),
            timeout,
        )

    def clean_up(self) -> None:
        """Cancel every job that is not final."""
        listed = self("list", "--json")
        if listed.code == 0:
            for job in listed.json()["jobs"]:
                self("cancel", job["job_id"])
