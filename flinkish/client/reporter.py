"""Who is told of a use case while it goes on: notices, warnings, progress, a driver's output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

#: The phase in which state is rewritten by a driver of its own: rows and bytes are counted.
REWRITING = "rewriting state"


@dataclass(frozen=True)
class Progress:
    """How far long-running work has come; None is not known, or not counted.

    Parameters
    ----------
    phase : str
        What is being done, in a word or two.
    files, files_total : int or None
        Files in place, and how many there will be.
    bytes, bytes_total : int or None
        Bytes in place, and how many there will be.
    rows : int or None
        State rows written.
    rate : float or None
        Bytes per second.
    remaining : float or None
        Seconds until the work is done.
    """

    phase: str
    files: int | None = None
    files_total: int | None = None
    bytes: int | None = None
    bytes_total: int | None = None
    rows: int | None = None
    rate: float | None = None
    remaining: float | None = None


class Reporter(Protocol):
    """Told what happens. Called from the thread that called the client; must not block for long."""

    def note(self, text: str) -> None:
        """Take one line about what happens meanwhile."""

    def warning(self, text: str) -> None:
        """Take one line to know about although nothing failed."""

    def progress(self, progress: Progress) -> None:
        """Take the state of the work under way."""

    def log(self, text: str) -> None:
        """Take the output of a driver that did not succeed."""


class SilentReporter:
    """A reporter that drops everything, the default."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def warning(self, text: str) -> None:
        """Do nothing."""

    def progress(self, progress: Progress) -> None:
        """Do nothing."""

    def log(self, text: str) -> None:
        """Do nothing."""
