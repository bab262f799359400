"""The standard streams of the command, which may be closed, full, or of a narrow encoding.

A command's effect comes before its output, so a stream that cannot be written must not end the
command: the failure is remembered, and reported at the end (:func:`lost`). This module imports only
what Python itself has already loaded, see entry.py.
"""

from __future__ import annotations

import errno
import os
import sys

TYPE_CHECKING = False  # type checkers know this name; importing typing costs start-up time
if TYPE_CHECKING:
    from typing import Any, TextIO

#: The output is kept until it has this many characters, to be reported if stdout cannot be written.
_KEPT = 4000
#: 128 + SIGPIPE, what a shell shows for any other tool whose reader has gone.
READER_GONE = 141


class StreamLost(Exception):
    """A stream that a command only copies into cannot be written: the command has to end."""

    def __init__(self, failure: OSError) -> None:
        super().__init__(str(failure))
        self.failure = failure


class Stream:
    """A text stream that never raises: it remembers the first failure and drops later output.

    ``failure`` is set from the start if the stream is known to be closed.
    """

    def __init__(self, stream: TextIO, failure: OSError | None = None) -> None:
        self._stream = stream
        self.failure = failure
        self.said = ""

    def write(self, text: str) -> int:
        """Write text, unless the stream is lost."""
        if len(self.said) < _KEPT:
            self.said += text
        if self.failure is None:
            try:
                self._stream.write(text)
            except OSError as error:
                self._fail(error)
        return len(text)

    def flush(self) -> None:
        """Flush the stream, unless it is lost."""
        if self.failure is None:
            try:
                self._stream.flush()
            except OSError as error:
                self._fail(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _fail(self, error: OSError) -> None:
        self.failure = error
        try:
            number = self._stream.fileno()
        except (OSError, ValueError):  # it has no file (in a test), or is closed
            return
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)  # Python flushes again when it ends


def guard() -> None:
    """Replace stdout and stderr by streams that never raise; open stdin if it is missing.

    A closed descriptor is opened on the null device. Otherwise the next file that is opened,
    perhaps a database, would get the descriptor's number, and so the output.
    """
    closed = []
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest that is free
            os.set_inheritable(opened, True)
            closed.append(opened)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - for the life of the process
    sys.stdout = _guarded(sys.stdout, 1, 1 in closed)
    sys.stderr = _guarded(sys.stderr, 2, 2 in closed)


def restore() -> None:
    """Put back the streams that :func:`guard` has replaced."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, Stream):
            setattr(sys, name, stream._stream)


def lost(stream: object) -> OSError | None:
    """Return why text that was written to a stream did not arrive; None if it did."""
    if not isinstance(stream, Stream):
        return None
    stream.flush()
    return stream.failure if stream.said else None


def flush(stream: TextIO) -> None:
    """Flush a stream for a command that only copies into it.

    Raises StreamLost if stdout cannot be written, or if the reader of any stream has gone.
    """
    stream.flush()
    failure = lost(stream)
    if failure is not None and (stream is sys.stdout or isinstance(failure, BrokenPipeError)):
        raise StreamLost(failure)


def _guarded(stream: TextIO | None, number: int, was_closed: bool) -> Any:
    if stream is None:  # its descriptor was closed when Python started
        stream = open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as above
    failure = OSError(errno.EBADF, "it is closed") if was_closed else None
    adapt = getattr(stream, "reconfigure", None)
    if adapt is not None:
        ascii_only = (stream.encoding or "").lower() in ("ascii", "us-ascii", "ansi_x3.4-1968")
        if ascii_only and not stream.isatty():
            # In UTF-8, paths have the same bytes in the output as on the disk.
            adapt(encoding="utf-8", errors="backslashreplace")
        elif stream.errors == "strict" or ascii_only:
            adapt(errors="backslashreplace")
    return Stream(stream, failure)
