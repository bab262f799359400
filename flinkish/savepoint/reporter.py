"""How long-running work speaks to whoever waits for it."""

from __future__ import annotations

from typing import Protocol


class Reporter(Protocol):
    """Told of progress; called from the working thread, must not raise or block."""

    def phase(self, name: str) -> None:
        """A new phase begins: ``waiting``, ``reading``, ``files``, ``metadata``."""

    def files(self, done: int, total: int) -> None:
        """``done`` of ``total`` files are in place."""

    def bytes(self, done: int, total: int) -> None:
        """``done`` of ``total`` bytes are in place (state sizes; logs are not counted ahead)."""


class SilentReporter:
    """A reporter for those who do not wait."""

    def phase(self, name: str) -> None:
        """Nothing."""

    def files(self, done: int, total: int) -> None:
        """Nothing."""

    def bytes(self, done: int, total: int) -> None:
        """Nothing."""
