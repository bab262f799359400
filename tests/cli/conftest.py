"""The command in this process, on a real registry; drivers are real processes without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flinkish.cli.entry import main
from flinkish.jobs.registry import Registry
from tests.support.launcher_fakes import kill_processes, make_java, make_spark

ROOT = Path(__file__).resolve().parents[2]


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

    def __call__(self, *argv: str) -> Result:
        self._capsys.readouterr()
        code = main(list(argv))
        captured = self._capsys.readouterr()
        return Result(code, captured.out, captured.err)

    def ok(self, *argv: str) -> Result:
        result = self(*argv)
        assert result.code == 0, f"{argv}: exit {result.code}\n{result.out}\n{result.err}"
        return result

    def process(self, *argv: str, **arguments: Any) -> subprocess.Popen[str]:
        """The command as a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "flinkish", *argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), **arguments.pop("environ", {})},
            **arguments,
        )

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
    if (private / "state/flinkish/registry.db").exists():
        with command.registry() as registry:
            for job in registry.jobs():
                kill_processes(job)
