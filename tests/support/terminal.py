"""Commands on a terminal of their own, driven by pexpect.

``pexpect.spawn`` forks this process. With the threads of Spark, of a storage's client or of
pytest-xdist in it, the child can wait for ever for a lock that one of them held. Here the terminal
is opened first, and the command is started as any other process.
"""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pexpect.fdpexpect

#: Seconds to wait for what should appear at once: a limit for hangs, as the machine may be busy.
PATIENCE = 240


@contextmanager
def on_terminal(
    command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[tuple[Any, subprocess.Popen[bytes]]]:
    """Run a command on a terminal; give pexpect's view of the terminal, and the process.

    ``setsid --ctty`` makes it the controlling terminal, as shells with job control want it.
    """
    terminal, end = pty.openpty()
    try:
        process = subprocess.Popen(
            ["setsid", "--ctty", *command],
            stdin=end,
            stdout=end,
            stderr=end,
            env={**os.environ, **environment},
        )
    finally:
        os.close(end)
    view = pexpect.fdpexpect.fdspawn(terminal, timeout=PATIENCE)
    try:
        yield view, process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        view.close()


def answer(
    command: Sequence[str], environment: Mapping[str, str], question: str, reply: str
) -> int:
    """Wait for a question (a regular expression), answer it; returns the exit code."""
    with on_terminal(command, environment) as (view, process):
        view.expect(question)
        view.sendline(reply)
        with suppress(OSError):  # EIO: how Linux tells that the other end is closed
            view.expect(pexpect.EOF)
        return process.wait(PATIENCE)
