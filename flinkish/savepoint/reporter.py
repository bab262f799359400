"""Progress reports of long-running work."""

from __future__ import annotations

import time
from collections import deque
from typing import Protocol


class SavepointReporter(Protocol):
    """Receives progress from the working thread; its methods must not raise or block."""

    def phase(self, name: str) -> None:
        """Report a phase.

        It is ``waiting``, ``reading``, ``rewriting``, ``files``, ``rows`` or ``metadata``.
        """

    def files(self, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` files are in place."""

    def bytes(self, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` bytes are in place.

        ``total`` is the sum of the listed sizes of all files, and never less than ``done``.
        """

    def warning(self, text: str) -> None:
        """Report something that the user must know about a savepoint that was taken."""


class Pace:
    """The transfer rate, and an estimate of the remaining time."""

    #: Seconds over which the rate is averaged, so that a stall shows and a burst does not dominate.
    WINDOW = 10.0

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def measure(self, done: int, total: int, now: float | None = None) -> dict[str, float]:
        """Return ``{"rate": bytes/s, "remaining": s}`` after ``done`` bytes; empty until known.

        ``now`` defaults to ``time.monotonic()``.
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
    """A reporter that discards all reports."""

    def phase(self, name: str) -> None:
        """Do nothing."""

    def files(self, done: int, total: int) -> None:
        """Do nothing."""

    def bytes(self, done: int, total: int) -> None:
        """Do nothing."""

    def warning(self, text: str) -> None:
        """Do nothing."""
