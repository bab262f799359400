"""Child processes that nobody waits for: supervisors, and drivers that have answered.

The children may outlive this process. While this process lives, it must reap the children that end,
or they remain zombies; a client may be a program that runs for months.
"""

from __future__ import annotations

import atexit
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

_lock = threading.Lock()
_running: list[subprocess.Popen[bytes]] = []


def leave(child: subprocess.Popen[bytes]) -> None:
    """Stop waiting for ``child``, which may live on; a later call reaps it after its end.

    The children of earlier calls that have ended are reaped now.
    """
    with _lock:
        _running.append(child)
        _running[:] = [each for each in _running if each.poll() is None]


@atexit.register
def _let_go() -> None:
    """Forget the children that live on, or Popen would warn that they are still running."""
    with _lock:
        for child in _running:
            if child.poll() is None:
                child.returncode = 0
        _running.clear()
