"""What SIGTERM does to an attached driver: real interpreters, no Spark."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

_TERMINATED = """
import os, signal, threading, time
from flinkish.driver.attached.terminate import Terminated
done = threading.Event()
def act():
    print("saving", flush=True)
    SAVED
terminated = Terminated(act)
os.kill(os.getpid(), signal.SIGTERM)
# Python handles a signal between two instructions: one that comes just before a call that waits is
# handled after it.
while not done.wait(0.1):
    pass
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
