"""`.ci/tools` and the Makefile on machines that lack something: one line says what to install."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
Tool = Callable[[str, str], None]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A PATH with nothing but what the scripts themselves need."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("sh", "sed", "head", "make", "cat", "awk"):
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"needs {name} on the PATH")
        (directory / name).symlink_to(found)
    return directory


@pytest.fixture
def tool(machine: Path) -> Tool:
    """Put a program (a shell script) on that PATH."""

    def add(name: str, script: str) -> None:
        path = machine / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    return add


def run(machine: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=ROOT, env={"PATH": str(machine), **environment}, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 0),
        ('openjdk version "21" 2023-09-19', 0),
        ('java version "1.8.0_412"', 1),
        ('openjdk version "11.0.22" 2024-01-16', 1),
        ("what?", 1),
    ],
)
def test_java_versions(machine: Path, tool: Tool, said: str, status: int) -> None:
    tool("java", f"echo '{said}' >&2")
    done = run(machine, ".ci/tools", "java")
    assert done.returncode == status
    assert (done.stderr == "") == (status == 0)


def test_java_home_wins_as_in_spark(machine: Path, tool: Tool, tmp_path: Path) -> None:
    tool("java", "echo 'openjdk version \"17.0.1\"' >&2")
    done = run(machine, ".ci/tools", "java", JAVA_HOME=str(tmp_path / "jdk"))
    assert done.returncode == 1
    assert f"{tmp_path}/jdk/bin/java does not run" in done.stderr


@pytest.mark.parametrize("target", ["demo", "test", "test-matrix", "faults"])
def test_make_without_java_says_what_to_install_first(machine: Path, target: str) -> None:
    done = run(machine, "make", target)
    assert done.returncode == 2
    error, *rest = done.stderr.splitlines()
    assert "apt-get install openjdk-17-jre-headless" in error
    assert len(rest) == 1  # make's own
    assert "pip" not in done.stdout


def test_no_python(machine: Path) -> None:
    done = run(machine, ".ci/tools", "python")
    assert done.returncode == 1
    assert "no Python found: install Python 3.10 or newer" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_python_too_old(machine: Path, tool: Tool) -> None:
    tool("python3", "case $2 in *3,\\ 10*) exit 1 ;; esac")
    done = run(machine, ".ci/tools", "python")
    assert done.returncode == 1
    assert "python3 is older than 3.10" in done.stderr


def test_python_without_venv(machine: Path, tool: Tool) -> None:
    tool("python3.11", "case $2 in *ensurepip*) exit 1 ;; esac")
    done = run(machine, ".ci/tools", "python")
    assert done.returncode == 1
    assert "apt-get install python3-venv" in done.stderr


def test_a_shim_of_a_version_that_is_not_there_is_passed_over(machine: Path, tool: Tool) -> None:
    tool("python3.13", "echo 'python3.13: command not found' >&2; exit 127")
    (machine / "python3").symlink_to(sys.executable)
    done = run(machine, ".ci/tools", "python")
    assert done.returncode == 0
    assert os.access(done.stdout.strip(), os.X_OK)


def test_make_alone_lists_the_targets(machine: Path) -> None:
    done = run(machine, "make")
    assert done.returncode == 0
    for target in ("demo", "test", "lint", "fmt", "bench", "test-matrix", "faults", "clean"):
        assert f"make {target} " in done.stdout
