"""Children that are left to themselves: none stays as a zombie, none is complained of."""

from __future__ import annotations

import subprocess
import sys

_LEAVE = """
import os, subprocess
from flinkish.launch import detached
ends = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
lives_on = subprocess.Popen(["cat"], stdout=subprocess.DEVNULL)
detached.leave(ends)
ends.stdin.close()
os.waitid(os.P_PID, ends.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has waited
detached.leave(lives_on)
try:
    os.kill(ends.pid, 0)
except ProcessLookupError:
    print("reaped", lives_on.poll(), flush=True)
"""


def test_who_has_ended_is_reaped_and_who_lives_on_is_not_complained_of() -> None:
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", _LEAVE],
        stdin=subprocess.PIPE,  # the child that lives on ends when this is closed
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stdout is not None
        assert client.stderr is not None
        assert client.stdout.readline() == "reaped None\n"
        assert client.wait() == 0
        assert client.stdin is not None
        client.stdin.close()
        assert client.stderr.read() == ""
