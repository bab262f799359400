"""Notices on stderr and progress while a command runs, and the last lines of a failed driver."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flinkish.cli.output.printer import Output, copy_log, is_terminal
from flinkish.cli.output.text import without_commands
from flinkish.client.reporter import REWRITING, Progress
from flinkish.errors import FlinkishError
from flinkish.units import size_text, visible


class OutputReporter:
    """A :class:`~flinkish.client.reporter.Reporter` that writes to one command's output.

    Progress is drawn only inside :meth:`live`, and only on a terminal.
    """

    def __init__(self, out: Output) -> None:
        self._out = out
        self._is_live = False
        self._status: Any = None

    @contextmanager
    def live(self) -> Iterator[None]:
        """Draw the progress that is reported while the block runs."""
        out = self._out
        self._is_live = not (out.json or out.quiet) and is_terminal(sys.stderr)
        try:
            yield
        finally:
            self._is_live = False
            self.stop()

    def note(self, text: str) -> None:
        """See :class:`~flinkish.client.reporter.Reporter`."""
        self.stop()
        self._out.note(text)

    def warning(self, text: str) -> None:
        """See :class:`~flinkish.client.reporter.Reporter`."""
        self.stop()
        self._out.warning(text)

    def progress(self, progress: Progress) -> None:
        """See :class:`~flinkish.client.reporter.Reporter`."""
        if not self._is_live:
            return
        from rich.console import Console  # only on a terminal: its import is slow
        from rich.text import Text  # rich interprets markup in plain strings

        text = Text(visible(describe(progress)))
        if self._status is None:
            self._status = Console(stderr=True).status(text)
            self._status.start()
        self._status.update(text)

    def log(self, text: str) -> None:
        """See :class:`~flinkish.client.reporter.Reporter`; only with ``--debug``."""
        if self._out.debug:
            self.stop()
            copy_log(without_commands(text), sys.stderr)

    def stop(self) -> None:
        """Erase the progress; the next report draws it again."""
        if self._status is not None:
            self._status.stop()
            self._status = None


def describe(progress: Progress) -> str:
    """Return the progress in a few words. Pure."""
    if progress.phase == REWRITING:
        return f"{progress.rows or 0:,} rows, {size_text(progress.bytes or 0)} written"
    words = [progress.phase]
    for done, total, text, unit in (
        (progress.files, progress.files_total, str, " files"),
        (progress.bytes, progress.bytes_total, size_text, ""),
    ):
        if done is not None:
            of = f" of {text(total)}" if total else ""
            words.append(f"{text(done)}{of}{unit}")
    if progress.rows is not None:
        words.append(f"{progress.rows:,} rows")
    if progress.rate:
        words.append(f"{size_text(int(progress.rate))}/s")
    if progress.remaining:
        words.append(f"{_span(float(progress.remaining))} left")
    return ", ".join(words)


def _span(seconds: float) -> str:
    """Return seconds as ``45 s``, ``3 min 20 s`` or ``2 h 5 min``."""
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


@contextmanager
def driver_output(out: Output) -> Iterator[None]:
    """Show the last lines of the driver's log when the driver that the block runs fails.

    With ``--debug`` the whole log has already been shown (:class:`OutputReporter`). With ``--json``
    the lines are in the error.
    """
    try:
        yield
    except FlinkishError as error:
        if not (out.json or out.debug):
            for line in error.data.get("tail") or ():
                out.complain(f"  {line}")
        raise
