"""How long-running work speaks to whoever waits for it."""

from __future__ import annotations

import time
from collections import deque
from typing import Protocol


class SavepointReporter(Protocol):
    """Told of progress; called from the working thread, must not raise or block."""

    def phase(self, name: str) -> None:
        """A new phase begins: ``waiting``, ``reading``, ``rewriting``, ``files``,
        ``metadata``."""

    def files(self, done: int, total: int) -> None:
        """``done`` of ``total`` files are in place."""

    def bytes(self, done: int, total: int) -> None:
        """``done`` of ``total`` bytes are in place (state sizes; logs are not counted ahead)."""


class Pace:
    """How fast bytes come into place, and how long the rest will take."""

    #: Seconds over which the rate is taken, so that a stall is seen and a burst is not the rate.
    WINDOW = 10.0

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def measure(self, done: int, total: int, now: float | None = None) -> dict[str, float]:
        """``{"rate": bytes/s, "remaining": s}`` after ``done`` bytes; empty until it can be said.

        ``now`` is ``time.monotonic()`` if not given.
        """
        now = time.monotonic() if now is None else now
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > self.WINDOW:
            self._seen.popleft()
        then, before = self._seen[0]
        if now - then < 0.5 or done <= before:
            return {}
        rate = (done - before) / (now - then)
        return {"rate": round(rate), "remaining": round(max(0, total - done) / rate, 1)}


class SilentSavepointReporter:
    """A reporter for those who do not wait."""

    def phase(self, name: str) -> None:
        """Nothing."""

    def files(self, done: int, total: int) -> None:
        """Nothing."""

    def bytes(self, done: int, total: int) -> None:
        """Nothing."""
