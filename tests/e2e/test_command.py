"""The helper behind these tests leaves no process behind, also when the registry is broken."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli.command import Flinkish


@pytest.fixture
def command(tmp_path: Path) -> Flinkish:
    return Flinkish(tmp_path)


@pytest.fixture
def forgotten(command: Flinkish) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the command's state directory that no registry knows."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"],
        env=command.environ,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.stdout.close()
    process.kill()
    process.wait()


def test_a_registry_that_cannot_be_read_leaves_no_process_and_fails(
    command: Flinkish, forgotten: subprocess.Popen[bytes]
) -> None:
    assert command.processes() == [forgotten.pid]
    registry = Path(command.environ["XDG_STATE_HOME"]) / "flinkish" / "registry.db"
    registry.parent.mkdir(parents=True)
    registry.write_bytes(b"no database " * 1000)
    with pytest.raises(AssertionError, match="the jobs cannot be listed"):
        command.clean_up()
    assert forgotten.wait(60) == -9
    assert command.processes() == []


def test_flags_for_the_tests_jvms_reach_drivers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-XX:+UseSerialGC")
    monkeypatch.setenv("FLINKISH_REGISTRY", "a user's own")
    environ = Flinkish(tmp_path).environ
    assert environ["SPARK_SUBMIT_OPTS"] == "-XX:+UseSerialGC"
    assert "FLINKISH_REGISTRY" not in environ
