"""Child processes that nobody waits for: supervisors, and drivers that have answered.

They may outlive this process. While it lives, it must wait for those that end, or they remain as
zombies; a client may be a program that runs for months.
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
    """Wait no longer for ``child``: it may live on, and is reaped some time after its end.

    Those that were left before and have ended by now are reaped.
    """
    with _lock:
        _running.append(child)
        _running[:] = [each for each in _running if each.poll() is None]


@atexit.register
def _let_go() -> None:
    """Forget those that live on: Popen would warn of each that it is still running."""
    with _lock:
        for child in _running:
            if child.poll() is None:
                child.returncode = 0
        _running.clear()
