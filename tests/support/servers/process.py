"""Server processes: start one, wait until it answers, end it, and show what it logged."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

START_PATIENCE = 60.0
STOP_PATIENCE = 5.0

#: Settings of Log4j 2 by which Java servers log warnings to their output.
LOG4J2 = """\
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{HH:mm:ss.SSS} %-5p %c{1}: %m%n%ex
"""

_LOGS: dict[str, Path] = {}
"""The logs of the servers that run, by the names of their fixtures."""


def free_port() -> int:
    """Return a loopback port that nothing listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def accepts(port: int) -> bool:
    """Return whether something takes connections on this loopback port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def answers(url: str) -> bool:
    """Return whether an HTTP server answers a GET of this URL, with whatever status."""
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def tail(log: Path, lines: int = 40) -> str:
    """Return the last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def run_once(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> None:
    """Run a command to its end, its output in a log; an AssertionError shows that if it fails."""
    with log.open("wb") as output:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
            check=False,
        )
    assert done.returncode == 0, tail(log)


def logs_of(fixtures: Sequence[str]) -> list[tuple[str, str]]:
    """Return (name, last lines of its log) for each running server among these fixtures."""
    return [(name, tail(log)) for name, log in _LOGS.items() if name.partition("#")[0] in fixtures]


def _with_parent(command: Sequence[str]) -> list[str]:
    """The command so that it ends with us even when we are killed, where the system can do that."""
    setpriv = shutil.which("setpriv")  # of util-linux; Linux only
    return [*([setpriv, "--pdeathsig", "KILL"] if setpriv else []), *command]


@contextmanager
def running(
    name: str,
    command: Sequence[str],
    log: Path,
    ready: Callable[[], bool],
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server for the time of the context.

    Args:
        name: That of its fixture, under which the log of a failed test is shown; ``#`` and more
            behind it when a fixture starts several.
        command: What starts it in the foreground.
        log: The file that gets its output.
        ready: Tells whether it serves now.
        environment: Variables to add to ours.

    Raises:
        AssertionError: It ended, or does not serve within a minute; with the end of its log.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            _with_parent(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
            start_new_session=True,  # a Ctrl-C in the terminal is for pytest, which then stops it
        )
    _LOGS[name] = log
    try:
        deadline = time.monotonic() + START_PATIENCE
        while not ready():
            ended = process.poll()
            if ended is not None or time.monotonic() > deadline:
                why = "does not serve" if ended is None else f"ended with {ended}"
                raise AssertionError(f"{name} {why}: {' '.join(command)}\n{tail(log)}")
            time.sleep(0.05)
        yield process
    finally:
        _LOGS.pop(name, None)
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask it to end, then make it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
