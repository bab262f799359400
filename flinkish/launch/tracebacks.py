"""Python tracebacks in logs and in the texts of errors. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_HEAD = "Traceback (most recent call last):"
#: The characters that Python puts before the lines of a traceback of an exception in a group.
_IN_GROUP = " |+"
#: The line of an exception: a dotted class name, then its message.
_EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:: .*|$)")

#: The line of an exception with a lower-case class (``socket.gaierror``); other text may match.
_LOWER_CASE = re.compile(r"(?:[A-Za-z_]\w*\.)+[a-z]\w*(?:: .*|$)")


@dataclass(frozen=True)
class Traceback:
    """A traceback in a text.

    ``lines`` are those below its head; the last one is the exception. ``end`` is the index of the
    line after it in the text.
    """

    lines: tuple[str, ...]
    end: int

    @property
    def exception(self) -> str:
        """The line of the exception."""
        return self.lines[-1]

    @property
    def last_frame(self) -> tuple[str, ...]:
        """The lines from the innermost frame on, without the exception."""
        inner = self.lines[:-1]
        starts = [i for i, line in enumerate(inner) if line.startswith('  File "')]
        return inner[starts[-1] :] if starts else ()


#: The text after which Spark adds the query's offsets, state and plan to its error.
_ON_THE_QUERY = "=== Streaming Query ==="
#: The text after which PySpark adds Java's stack.
_JAVA = "JVM stacktrace:"


def without_plan(text: str, cause: str = "\nCaused by: ") -> str:
    """Return the text of a query's error without its offsets, its plan and Java's stack.

    The root cause, which begins with ``cause``, is kept even if it follows them.
    """
    head, separator, rest = text.partition(_ON_THE_QUERY)
    if not separator:
        head, separator, rest = text.partition(_JAVA)
    if not separator:
        return text
    _, caused, root = rest.rpartition(cause)
    root = root.partition("\n\tat ")[0]
    return head.rstrip() + (caused + root if caused else "")


#: The exception of a call into Java: it names the call, and its text continues with Java's error.
JAVA_ERROR = "Py4JJavaError"
#: Files of PySpark, of Py4J, and of flinkish in the driver, as opposed to the user's files.
_OF_SPARK = re.compile(r"/pyspark(?:\.zip)?/|/py4j(?:-[^/]*)?/|/flinkish/driver/|^<frozen runpy>$")
_FRAME = re.compile(r'\s*File "([^"]*)", line \d+')


def is_of_spark(file: str) -> bool:
    """Return whether a file in a traceback is of PySpark, Py4J, flinkish or ``runpy``."""
    return _OF_SPARK.search(file) is not None or file.endswith("/runpy.py")


def own_frames(lines: Sequence[str]) -> list[str]:
    """Return the lines of a traceback without frames of PySpark, Py4J, flinkish and ``runpy``."""
    kept, foreign = [], False
    for line in lines:
        frame = _FRAME.match(line)
        if frame is not None:
            foreign = is_of_spark(frame[1])
        elif not line.startswith("    "):
            foreign = False
        if not foreign:
            kept.append(line)
    return kept


def java_cause(text: str) -> str | None:
    """Return the line of a Java error's innermost cause, else of the error; None without one."""
    lines = text.splitlines()
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    first = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return causes[-1] if causes else first[-1] if first else None


def is_exception(line: str) -> bool:
    """Return whether a line can be that of an exception in a traceback."""
    return _EXCEPTION.match(line) is not None


def last_traceback(lines: Sequence[str], *, embedded: bool = False) -> Traceback | None:
    """Return the last traceback that is not cut off before its exception, or None.

    With ``embedded``, a traceback may begin in the middle of a line, as in Spark's messages.
    """
    for start in reversed(range(len(lines))):
        indent = _indent(lines[start], embedded=embedded)
        if indent is not None and (traceback := _below(lines, start + 1, indent)) is not None:
            return traceback
    return None


def _indent(line: str, *, embedded: bool = False) -> int | None:
    """Return the indentation of the lines below a head; None if it is not a head."""
    plain = line.lstrip(_IN_GROUP)
    if plain.startswith(_HEAD):
        return len(line) - len(plain)
    return 0 if embedded and line.rstrip().endswith(_HEAD) else None


def _below(lines: Sequence[str], start: int, indent: int) -> Traceback | None:
    frames: list[str] = []
    for index in range(start, len(lines)):
        line = lines[index][indent:].rstrip()
        if _indent(line) is not None:
            return None
        follows_frame = bool(frames) and frames[-1][:1].isspace()
        frames.append(line)
        if is_exception(line) or (follows_frame and _LOWER_CASE.match(line)):
            return Traceback(tuple(frames), index + 1)
    return None
