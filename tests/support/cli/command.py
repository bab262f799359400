"""The installed command as a user runs it: a process of its own, a private state directory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flinkish.cli.commands.status import job_document
from flinkish.cli.output.printer import masked
from flinkish.client.listing import describe_job
from flinkish.config import Config
from flinkish.errors import RegistryError
from flinkish.registry.job_registry import Registry
from flinkish.registry.liveness import reconcile
from tests.support.cli.documents import check_output
from tests.support.cli.forked_command import can_fork, run_forked

#: The command where it is not installed: it is forked then, unless Python's start matters.
MODULE = (sys.executable, "-m", "flinkish")
PROGRAMS = Path(__file__).parents[2] / "e2e" / "programs"
#: Spark settings that make a driver light. Flags of its JVM come with SPARK_SUBMIT_OPTS, which
#: drivers inherit from the tests' own environment.
LIGHT = (
    "--conf=spark.ui.enabled=false",
    "--conf=spark.sql.adaptive.enabled=false",
    "--conf=spark.sql.shuffle.partitions=2",
    "--conf=spark.driver.memory=700m",
    "--conf=spark.ui.showConsoleProgress=false",
)
#: Seconds that a slow machine may take for what takes a few: a limit for hangs, not for speed.
PATIENCE = 240.0
#: Seconds between two looks at what is waited for.
POLL = 0.1
#: Seconds until the processes of cancelled jobs must have ended.
_FAREWELL = 60.0


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


def wait_until(
    condition: Callable[[], Any], timeout: float = PATIENCE, *, poll: float = POLL
) -> None:
    """Poll until ``condition`` holds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(poll)


class Flinkish:
    """Calls ``flinkish`` with its state below ``directory``; cancels what is left at the end."""

    def __init__(self, directory: Path, command: tuple[str, ...] = MODULE) -> None:
        self.directory = directory
        self.command = command
        self.environ = {
            **os.environ,
            "XDG_STATE_HOME": str(directory / "state"),
            "XDG_CONFIG_HOME": str(directory / "config"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "COLUMNS": "200",
        }
        for name in [k for k in self.environ if k.startswith("FLINKISH_")]:
            del self.environ[name]

    def __call__(self, *args: str, timeout: float = PATIENCE, **environ: str) -> Result:
        complete = {**self.environ, **environ}
        if self.command == MODULE and can_fork(complete):
            done = run_forked(args, environ=complete, directory=self.directory, timeout=timeout)
        else:
            done = subprocess.run(
                [*self.command, *args],
                env=complete,
                cwd=self.directory,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        check_output(args, done.stdout, done.stderr)
        return Result(done.returncode, done.stdout, done.stderr)

    def ok(self, *args: str, **environ: str) -> Result:
        """A call that must succeed."""
        result = self(*args, timeout=PATIENCE, **environ)
        assert result.code == 0, f"{args}: exit {result.code}\n{result.out}\n{result.err}"
        return result

    def run(self, program: str | Path, *args: str, options: tuple[str, ...] = ()) -> str:
        """``run -d`` of a program under tests/e2e/programs (or a path); returns the job id."""
        path = program if os.path.isabs(program) else PROGRAMS / program
        result = self.ok("run", "-d", "-q", "-m", "local[2]", *LIGHT, *options, str(path), *args)
        return result.out.strip()

    def registry(self) -> Registry:
        """The registry that the command uses, opened in this process."""
        config = Config.load(environ=self.environ, cwd=str(self.directory))
        return Registry.open(config.registry_url())

    def job(self, job: str) -> dict[str, Any]:
        """The job's record as ``status --json`` shows it, without a process for it."""
        with self.registry() as registry:
            return _record(registry, job)

    def wait(
        self, job: str, condition: Callable[[dict[str, Any]], Any], timeout: float = PATIENCE
    ) -> Any:
        """Poll the job's record until ``condition`` holds; returns the record."""
        deadline = time.monotonic() + timeout
        with self.registry() as registry:
            while not condition(record := _record(registry, job)):
                assert time.monotonic() < deadline, f"not in time: {record}"
                time.sleep(POLL)
        return record

    def wait_for_state(self, job: str, state: str, timeout: float = PATIENCE) -> Any:
        """Wait until the job is in ``state``; fails at once when it has ended in another."""
        final = ("FINISHED", "CANCELED", "FAILED")
        record = self.wait(job, lambda r: r["state"] in (state, *final), timeout)
        assert record["state"] == state, record
        return record

    def wait_for_batch(self, job: str, batch: int, timeout: float = PATIENCE) -> Any:
        """Wait until all queries have committed ``batch``; fails at once when the job failed."""

        def committed(record: dict[str, Any]) -> bool:
            assert record["state"] != "FAILED", record
            batches = [query["batch_id"] for query in record["queries"]]
            return bool(batches) and all(b is not None and b >= batch for b in batches)

        return self.wait(job, committed, timeout)

    def processes(self) -> list[int]:
        """All processes with this state directory: supervisors, drivers, their JVMs."""
        mark = f"XDG_STATE_HOME={self.environ['XDG_STATE_HOME']}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):  # it has ended, or is another user's
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
        return found

    def clean_up(self) -> None:
        """Cancel every job that is not final, and let no process of this state directory live.

        What goes wrong on the way fails the test, but only when nothing runs any more.
        """
        trouble = self._cancel_all()
        deadline = time.monotonic() + _FAREWELL
        while (left := self.processes()) and not trouble:
            if time.monotonic() > deadline:
                trouble.append(f"processes {left} went on though no job is left")
            time.sleep(POLL)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert not trouble, f"clean-up (killed: {left}): {'; '.join(trouble)}"

    def _cancel_all(self) -> list[str]:
        """Cancel what is not final; returns what went wrong."""
        try:
            with self.registry() as registry:
                jobs = reconcile(registry, registry.jobs())
        except RegistryError as error:
            return [f"the jobs cannot be listed: {error}"]
        trouble = []
        for job in jobs:
            if not job.state.is_final:
                try:
                    done = self("cancel", job.job_id)
                except subprocess.TimeoutExpired as error:
                    trouble.append(str(error))
                else:
                    if done.code not in (0, 13):  # 13: it has ended by itself
                        trouble.append(f"cancel {job.job_id}: exit {done.code}: {done.err}")
        return trouble


def _record(registry: Registry, reference: str) -> dict[str, Any]:
    job = registry.find_job(reference, include_final=True)
    [job] = reconcile(registry, [job])
    record = job_document(describe_job(registry, job))
    plain: dict[str, Any] = json.loads(json.dumps(masked(record), default=str))
    return plain
