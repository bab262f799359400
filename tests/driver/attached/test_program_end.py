"""The end of a program, seen from inside its interpreter: real interpreters, no Spark."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

_PROGRAM = """
import sys
from flinkish.driver.attached.program_end import ProgramEnd
def conclude(outcome):
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(1) as pool:  # a savepoint in flight still needs one
        print(outcome.status, type(outcome.error).__name__, pool.submit(lambda: "works").result())
    return STATUS
end = ProgramEnd(conclude)
"""


def run(*lines: str, status: int | None = None) -> subprocess.CompletedProcess[str]:
    program = "\n".join([_PROGRAM.replace("STATUS", repr(status)), *lines])
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("line", "code", "outcome"),
    [
        ("pass", 0, "0 NoneType works"),
        ("sys.exit()", 0, "0 NoneType works"),
        ("sys.exit(3)", 3, "3 SystemExit works"),
        ("sys.exit('why')", 1, "1 SystemExit works"),
        ("raise ValueError('why')", 1, "1 ValueError works"),
    ],
)
def test_how_a_program_ended(line: str, code: int, outcome: str) -> None:
    done = run(line)
    assert (done.returncode, done.stdout.strip()) == (code, outcome), done.stderr
    assert ("ValueError: why" in done.stderr) is ("ValueError" in line), "Python says it as ever"


def test_a_refused_restore_has_its_own_status() -> None:
    assert run("pass", status=5).returncode == 5


def test_after_it_is_removed_nothing_is_noticed() -> None:
    done = run("end.remove()", "raise ValueError('why')")
    assert (done.returncode, done.stdout) == (1, "")


_TERMINATED = """
import os, signal, threading, time
from flinkish.driver.attached.program_end import Terminated
done = threading.Event()
def act():
    print("saving", flush=True)
    SAVED
terminated = Terminated(act)
os.kill(os.getpid(), signal.SIGTERM)
done.wait(60)
print("ends", flush=True)
"""


@pytest.mark.parametrize(
    ("saved", "code", "output"),
    [
        ("done.set()", 0, ["saving", "ends"]),
        ("terminated.go_on()", -signal.SIGTERM, ["saving"]),  # no savepoint: as it would have
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM, ["saving"]),  # a second one
    ],
)
def test_sigterm(saved: str, code: int, output: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _TERMINATED.replace("SAVED", saved)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (code, output), done.stderr
