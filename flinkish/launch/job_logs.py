"""A job's log file: its location, its last lines, following it, and the error in it."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator, Mapping
from io import BytesIO

from flinkish.launch.deploy_mode import Submission, submission_of
from flinkish.launch.tracebacks import is_exception, last_traceback
from flinkish.log_lines import own_lines

_TAIL_BYTES = 64 * 1024
_ERROR_LINES = 12
_LINE_LIMIT = 500
#: Lines after a Python traceback that may contain its Java causes.
_CAUSES = 400

#: Lines in which a JVM or spark-submit itself reports an error.
_JVM = re.compile(
    r"^(Exception in thread |Error: |Error occurred during |Caused by: |# +(A fatal error|There is)"
    r"|(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error)\b|.*\bOutOfMemoryError\b"
    r"|\d\d/\d\d/\d\d \d\d:\d\d:\d\d ERROR |JAVA_HOME is not set|.*: command not found"
    r"|.*: No such file or directory)"
)
_FRAME = re.compile(r"^\s*(at |\.\.\. \d+ more)")


def state_directory(environ: Mapping[str, str]) -> str:
    """Return ``$XDG_STATE_HOME/flinkish``, by default below ``~/.local/state``."""
    base = environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):
        home = environ.get("HOME") or os.path.expanduser("~")
        base = os.path.join(home, ".local", "state")
    return os.path.join(base, "flinkish")


def log_path(environ: Mapping[str, str], job_id: str) -> str:
    """Return the path of a new job's log."""
    return os.path.join(state_directory(environ), "logs", f"{job_id}.log")


def open_log(path: str) -> int:
    """Open a log for appending, created with mode 0600, and return the file descriptor."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def last_text(path: str, size: int = _TAIL_BYTES) -> str:
    """Return the end of a log, at most ``size`` bytes; empty when it cannot be read."""
    try:
        with open(path, "rb") as stream:
            end = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, end - size))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def submission_in(path: str | None) -> Submission | None:
    """Return the application in cluster mode that a job's log names last; None without one."""
    return submission_of(last_text(path)) if path else None


def last_lines(path: str, count: int) -> tuple[str, int]:
    """Return the last ``count`` lines of a file, and the offset at which they end.

    That offset is the file's size, or the beginning of an incomplete character at its end. Only the
    end of the file is read. Raises OSError.
    """
    block = 64 * 1024
    with open(path, "rb") as stream:
        end = position = stream.seek(0, os.SEEK_END)
        data = b""
        while position > 0 and data.count(b"\n", 0, len(data) - 1 if data else 0) < count:
            step = min(block, position)
            position -= step
            stream.seek(position)
            data = stream.read(step) + data
    lines = BytesIO(data).readlines()  # only a line feed ends a line, as in LogFilter
    data = b"".join(lines[len(lines) - min(count, len(lines)) :])
    text, length = codecs.utf_8_decode(data, "replace", False)
    return text, end - (len(data) - length)


class Follower:
    """Reads what is appended to a file, starting at an offset; the file may not exist yet."""

    def __init__(self, path: str, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
        self._rest = b""

    def read(self) -> str:
        """Return what was added since the last call, in complete lines."""
        return "".join(self._blocks(whole_lines=True))

    def rest(self) -> str:
        """Return everything that is left, including an incomplete last line."""
        return "".join(self._blocks(whole_lines=False))

    def _blocks(self, *, whole_lines: bool) -> Iterator[str]:
        try:
            with open(self.path, "rb") as stream:
                stream.seek(self.offset)
                data = stream.read()
        except FileNotFoundError:
            data = b""
        self.offset += len(data)
        data = self._rest + data
        at = data.rfind(b"\n") + 1 if whole_lines else len(data)
        self._rest = data[at:]
        yield data[:at].decode("utf-8", "replace")


def error_tail(text: str, count: int = _ERROR_LINES, *, killed: bool = False) -> list[str]:
    """Return the lines of a driver's log that explain its failure, at most ``count``. Pure.

    First choice is the end of the last Python traceback (its last frame, the exception, and the
    causes that Java adds to it); second, errors of a JVM or of ``spark-submit`` (exceptions and
    their causes without frames); otherwise the last lines that are not Spark's log. If the driver
    was ``killed`` from outside, its last lines explain nothing and are not returned.
    """
    lines = [line.rstrip() for line in text.splitlines()]
    error_lines = _python_error(lines) or _jvm_error(lines)
    if not error_lines and not killed:
        error_lines = own_lines(text)
    return [line[:_LINE_LIMIT] for line in error_lines[-count:]]


def error_summary(tail: list[str]) -> str:
    """Return the line of an :func:`error_tail` that names the error, else its last line.

    The result is empty if the tail has no text.
    """
    plain = [line.strip() for line in tail if line.strip()]
    for line in plain:
        if is_exception(line) and not line.startswith("File "):
            return line
    for line in plain:
        if _JVM.match(line):
            return line
    return plain[-1] if plain else ""


def _python_error(lines: list[str]) -> list[str]:
    traceback = last_traceback(lines)
    if traceback is None:
        return []
    below = lines[traceback.end : traceback.end + _CAUSES]
    causes = [line for line in below if line.startswith((": ", "Caused by: "))]
    return [*traceback.last_frame, traceback.exception, *causes]


def _jvm_error(lines: list[str]) -> list[str]:
    return [line for line in lines if _JVM.match(line) and not _FRAME.match(line)]
