"""The command in this process, on a real registry; drivers are real processes without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from flinkish.cli.entry import main
from flinkish.registry.job_registry import Registry
from tests.support.cli.documents import check_output
from tests.support.launcher_fakes import kill_processes, make_java, make_spark

ROOT = Path(__file__).resolve().parents[2]
#: Starts the command as a shell in the foreground does, with SIGINT as it is: a shell's background
#: jobs, and all they start, ignore it.
_FOREGROUND = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("flinkish", run_name="__main__", alter_sys=True)
"""
#: Seconds after which what a test waits for will never come.
PATIENCE = 60.0


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Poll until ``condition`` holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.02)


def line_with(stream: IO[str] | None, words: str) -> str:
    """Read up to the line that has ``words``; the end of the stream before it is a failure."""
    assert stream is not None
    seen: list[str] = []
    for line in stream:
        if words in line:
            return line
        seen.append(line)
    raise AssertionError(f"no line has {words!r}: {seen}")


@dataclass(frozen=True)
class Result:
    """What one call did."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        document = json.loads(self.out)
        assert document["schema_version"] == 1
        return document

    def error(self) -> dict[str, Any]:
        """The JSON error: exactly one line on stderr, and nothing on stdout."""
        assert self.out == ""
        (line,) = self.err.splitlines()
        document = json.loads(line)
        assert document["schema_version"] == 1
        error: dict[str, Any] = document["error"]
        assert error["code"] == self.code
        return error


class Command:
    """Calls ``flinkish.cli.entry.main`` in a private world below ``directory``."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.directory = directory
        self._capsys = capsys
        self.spark_home = directory / "spark"
        self.program = directory / "app.py"
        self._processes: list[subprocess.Popen[str]] = []

    def __call__(self, *argv: str) -> Result:
        self._capsys.readouterr()
        code = main(list(argv))
        captured = self._capsys.readouterr()
        check_output(argv, captured.out, captured.err)
        return Result(code, captured.out, captured.err)

    def ok(self, *argv: str) -> Result:
        result = self(*argv)
        assert result.code == 0, f"{argv}: exit {result.code}\n{result.out}\n{result.err}"
        return result

    def process(self, *argv: str, **arguments: Any) -> subprocess.Popen[str]:
        """The command as a process of its own, which ends with the test at the latest."""
        started = subprocess.Popen(
            [sys.executable, "-c", _FOREGROUND, *argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), **arguments.pop("environ", {})},
            **arguments,
        )
        self._processes.append(started)
        return started

    def end(self) -> None:
        """End the processes that still run, and close what they wrote to."""
        for process in self._processes:
            with process:
                process.kill()

    def run_words(self, mode: str = "serve", *options: str) -> list[str]:
        """A ``run`` command line whose driver behaves as ``mode`` says."""
        return ["run", "--spark-home", str(self.spark_home), *options, str(self.program), mode]

    def start(self, mode: str = "serve", *options: str) -> str:
        """``run -d`` of the fake driver; returns the job id."""
        return self.ok(*self.run_words(mode, "-d", "-q", *options)).out.strip()

    def status(self, job: str) -> dict[str, Any]:
        record: dict[str, Any] = self.ok("status", job, "--json").json()["job"]
        return record

    def registry(self) -> Registry:
        return Registry.open(f"sqlite:///{self.directory}/state/flinkish/registry.db")


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment of its own: no configuration, no registry, no Spark but the named one."""
    for name in list(os.environ):
        if name.startswith(("FLINKISH_", "SPARK_", "PYSPARK_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("TZ", "UTC")
    make_java(tmp_path / "java")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cli(private: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    command = Command(private, capsys)
    driver = Path(__file__).parents[1] / "support" / "cli" / "fake_driver.py"
    make_spark(command.spark_home, f'exec "{sys.executable}" "{driver}" "$@"\n')
    command.program.write_text("print('never run')\n")
    yield command
    command.end()
    if (private / "state/flinkish/registry.db").exists():
        with command.registry() as registry:
            for job in registry.jobs():
                kill_processes(job)
