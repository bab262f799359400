"""The receiver of what a use case reports: notices, warnings, progress, a driver's output."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from flinkish.annotations import public_evolving

#: The phase in which a separate driver rewrites state, and counts its rows and bytes.
REWRITING = "rewriting state"


@public_evolving
@dataclass(frozen=True)
class Progress:
    """The progress of long-running work; None means not known or not counted.

    Parameters
    ----------
    phase : str
        The current activity, in a word or two.
    files, files_total : int or None
        Files in place, and their final number.
    bytes, bytes_total : int or None
        Bytes in place, and their final number.
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


@public_evolving
class Reporter(Protocol):
    """Receives reports. Called from the thread that called the client; must not block for long."""

    def note(self, text: str) -> None:
        """Take one line about the current activity."""

    def warning(self, text: str) -> None:
        """Take one line that the user should read although nothing failed."""

    def progress(self, progress: Progress) -> None:
        """Take the progress of the current work."""

    def log(self, text: str) -> None:
        """Take the output of a driver that did not succeed."""


@public_evolving
class SilentReporter:
    """A reporter that drops everything; the default."""

    def note(self, text: str) -> None:
        """Do nothing."""

    def warning(self, text: str) -> None:
        """Do nothing."""

    def progress(self, progress: Progress) -> None:
        """Do nothing."""

    def log(self, text: str) -> None:
        """Do nothing."""


class WriterProgress:
    """Forwards the progress of a writer of savepoints (``savepoint.reporter``) to a reporter."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._progress = Progress("Waiting for response")

    def phase(self, name: str) -> None:
        """Begin a phase."""
        self._tell(replace(self._progress, phase=name))

    def files(self, done: int, total: int) -> None:
        """Report the number of files in place."""
        self._tell(replace(self._progress, files=done, files_total=total))

    def bytes(self, done: int, total: int) -> None:
        """Report the number of bytes in place."""
        self._tell(replace(self._progress, bytes=done, bytes_total=total))

    def warning(self, text: str) -> None:
        """Forward a warning."""
        self._reporter.warning(text)

    def _tell(self, progress: Progress) -> None:
        self._progress = progress
        self._reporter.progress(progress)
