"""Programs that other launchers start, and that attach themselves: ``python APP.py``.

What the rows are is worked out in Python: ten numbers a batch.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import venvs
from tests.support.cli.command import LIGHT, PATIENCE, PROGRAMS, Flinkish, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

PROGRAM = PROGRAMS / "attached.py"
ROOT = Path(__file__).resolve().parents[2]


class Launcher:
    """Starts programs as anybody but flinkish does; kills what is left at the end."""

    def __init__(self, flinkish: Flinkish, directory: Path) -> None:
        self.flinkish = flinkish
        self.directory = directory
        self.checkpoint, self.out = directory / "checkpoint", directory / "out"
        self.out.mkdir()
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(
        self,
        *words: str,
        command: Sequence[str] = (sys.executable, str(PROGRAM)),
        **environ: str,
    ) -> subprocess.Popen[bytes]:
        """The program in a process whose output is a log of its own, by the number of the start."""
        log = (self.directory / f"log-{len(self.processes)}").open("wb")
        conf = [word for option in LIGHT for word in ("--conf", option.removeprefix("--conf="))]
        submit = " ".join(["--master", "local[2]", *conf, "pyspark-shell"])
        with log:
            process = subprocess.Popen(
                [*command, str(self.checkpoint), str(self.out), *words],
                env={
                    **self.flinkish.environ,
                    "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
                    "PYSPARK_SUBMIT_ARGS": submit,
                    "PYSPARK_PYTHON": command[0],
                    **environ,
                },
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.processes.append(process)
        return process

    def log(self, number: int = -1) -> str:
        number = number % len(self.processes)
        return (self.directory / f"log-{number}").read_text(errors="replace")

    def wait_for_batch(self, batch: int) -> None:
        path = self.out / f"{batch}.json"
        wait_until(lambda: path.exists() or self.processes[-1].poll() is not None)
        assert path.exists(), self.log()

    def newest(self) -> int:
        return max((int(path.stem) for path in self.out.glob("*.json")), default=-1)

    def check_counts(self) -> None:
        """Every batch has counted all numbers so far, and none is missing."""
        written = {int(path.stem): json.loads(path.read_text()) for path in self.out.glob("*.json")}
        assert sorted(written) == list(range(len(written)))
        for batch, counts in written.items():
            numbers = Counter(str(number % 7) for number in range(10 * (batch + 1)))
            assert counts == dict(numbers), f"batch {batch}"

    def close(self) -> None:
        for process in self.processes:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()


@pytest.fixture
def launcher(flinkish: Flinkish, tmp_path: Path) -> Iterator[Launcher]:
    launcher = Launcher(flinkish, tmp_path)
    yield launcher
    launcher.close()


@pytest.mark.deep
def test_saved_stopped_gone_on_killed_and_terminated(
    flinkish: Flinkish, launcher: Launcher, tmp_path: Path
) -> None:
    """The life of a job that its launcher starts again and again, with one setting."""
    first = launcher.start(FLINKISH_NAME="job")
    launcher.wait_for_batch(1)
    record = flinkish.wait_for_state("job", "RUNNING")
    assert (record["launcher"], record["external_launcher"]["name"]) == ("external", "python")
    stopped = flinkish.ok("stop", "job", "-p", str(tmp_path / "sp"), "--json").json()
    assert first.wait(PATIENCE) == 0, launcher.log()
    assert flinkish.job("job")["state"] == "FINISHED"
    again = flinkish("restart", "job", "--json")
    assert (again.code, again.error()["id"]) == (13, "external-job")
    assert "FLINKISH_FROM_SAVEPOINT" in again.error()["hint"]

    # Its own location has a checkpoint: the restored one is beside it, and stays in use there.
    settings = {
        "FLINKISH_NAME": "job",
        "FLINKISH_FROM_SAVEPOINT": stopped["savepoint"]["path"],
        "FLINKISH_EXECUTION_SAVEPOINT_ON_TERMINATE": "true",
        "FLINKISH_EXECUTION_CHECKPOINTING_SAVEPOINT_DIR": str(tmp_path / "sp"),
    }
    second = launcher.start(**settings)
    launcher.wait_for_batch(launcher.newest() + 2)
    restored = flinkish.wait_for_state("job", "RUNNING")
    assert restored["queries"][0]["checkpoint_dir"].startswith(f"{launcher.checkpoint}-restored-")
    second.kill()
    lost = flinkish.wait_for_state("job", "FAILED")
    assert lost["failure"]["id"] == "driver-lost"

    third = launcher.start(**settings)
    launcher.wait_for_batch(launcher.newest() + 2)
    assert flinkish.wait_for_state("job", "RUNNING")["job_id"] == restored["job_id"]
    third.send_signal(signal.SIGTERM)
    assert third.wait(PATIENCE) == 0, launcher.log()
    ended = flinkish.job(restored["job_id"])
    assert ended["state"] == "FINISHED"
    assert [request["requester"] for request in ended["requests"]] == ["SIGTERM"]
    assert len(ended["savepoints"]) == 1
    launcher.check_counts()


@pytest.mark.deep
def test_a_program_that_fails_says_why(flinkish: Flinkish, launcher: Launcher) -> None:
    assert launcher.start("--fail", FLINKISH_NAME="job").wait(PATIENCE) == 1
    failure = flinkish.job("job")["failure"]
    assert failure["id"] == "program-failed"
    assert "ValueError: as was asked for" in failure["message"]
    assert "Traceback" in launcher.log(), "Python says it as ever"


@pytest.mark.deep
def test_a_registry_that_cannot_be_reached_stops_nothing(
    flinkish: Flinkish, launcher: Launcher, tmp_path: Path
) -> None:
    """What is in the way of its directory is a file, which is removed later."""
    obstacle = tmp_path / "obstacle"
    obstacle.touch()
    url = f"sqlite:///{obstacle}/registry.db"
    flinkish.environ["FLINKISH_REGISTRY"] = url
    process = launcher.start(FLINKISH_NAME="job")
    launcher.wait_for_batch(2)
    assert launcher.log().count("registry cannot be reached") == 1
    obstacle.unlink()
    wait_until(lambda: obstacle.is_dir() and "has been reached" in launcher.log())
    flinkish.wait_for_state("job", "RUNNING")
    flinkish.ok("cancel", "job")
    assert process.wait(PATIENCE) == 0
    launcher.check_counts()


@pytest.mark.deep
@pytest.mark.parametrize(("registry", "code"), [(None, 11), ("sqlite:////dev/null/x.db", 16)])
def test_a_restore_that_is_not_possible_ends_it(
    launcher: Launcher, tmp_path: Path, registry: str | None, code: int
) -> None:
    environ = {"FLINKISH_FROM_SAVEPOINT": str(tmp_path / "nothing")}
    if registry is not None:
        environ["FLINKISH_REGISTRY"] = registry
    assert launcher.start(**environ).wait(PATIENCE) == code, launcher.log()
    assert launcher.newest() == -1
    assert "flinkish: error: " in launcher.log()


@pytest.mark.deep
def test_sigterm_of_spark_submit_takes_a_savepoint(
    flinkish: Flinkish, launcher: Launcher, tmp_path: Path
) -> None:
    """A container's signal reaches the JVM alone."""
    bundle = flinkish.ok("bundle", "-q", "-o", "job.py", str(PROGRAM)).out.strip()
    submit = venvs.spark_home(sys.executable) / "bin" / "spark-submit"
    process = launcher.start(
        command=(str(submit), "--master", "local[2]", *LIGHT, bundle),
        PYSPARK_PYTHON=sys.executable,
        FLINKISH_NAME="job",
        FLINKISH_EXECUTION_SAVEPOINT_ON_TERMINATE="true",
        FLINKISH_EXECUTION_CHECKPOINTING_SAVEPOINT_DIR=str(tmp_path / "sp"),
    )
    launcher.wait_for_batch(2)
    record = flinkish.wait_for_state("job", "RUNNING")
    assert record["external_launcher"]["name"] == "spark-submit"
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE)
    ended = flinkish.wait_for_state("job", "FINISHED")
    assert len(ended["savepoints"]) == 1, launcher.log()
    launcher.check_counts()


@pytest.mark.matrix
@pytest.mark.parametrize("spark", ["3.5.9", "4.0.5", "4.1.4", "4.2.1"])
def test_each_spark(flinkish: Flinkish, launcher: Launcher, tmp_path: Path, spark: str) -> None:
    """In an environment without flinkish: the bundle has it."""
    bundle = flinkish.ok("bundle", "-q", "-o", "job.py", str(PROGRAM)).out.strip()
    command = (venvs.interpreter(spark), bundle)
    launcher.start(command=command, PYTHONPATH="", FLINKISH_NAME="job")
    launcher.wait_for_batch(1)
    flinkish.wait_for_state("job", "RUNNING")
    path = flinkish.ok("stop", "-q", "job", "-p", str(tmp_path / "sp")).out.strip()
    assert launcher.processes[-1].wait(PATIENCE) == 0, launcher.log()
    restored = {"FLINKISH_NAME": "job", "FLINKISH_FROM_SAVEPOINT": path}
    launcher.start(command=command, PYTHONPATH="", **restored)
    launcher.wait_for_batch(launcher.newest() + 2)
    flinkish.ok("stop", "job", "-p", str(tmp_path / "sp"))
    assert launcher.processes[-1].wait(PATIENCE) == 0, launcher.log()
    launcher.check_counts()
