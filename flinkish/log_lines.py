"""Choose the lines of a job's log to show: by time, level, pattern, or origin. Pure.

A log is one file for all attempts of a job. Spark's lines begin with time and level. Lines without
them are stack traces, longer messages and what the program prints: they take the time and level of
the line before. A Python traceback and flinkish's messages have no time, but their own level.

Text is taken in blocks of any size, so that a log need not fit into memory; of an unfinished line
at most :data:`PIECE` characters are kept at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

#: How many characters of one line are held, and matched against a pattern, at a time.
PIECE = 64 * 1024


class LogLevel(IntEnum):
    """The levels of Spark's log, in order."""

    TRACE = 0
    DEBUG = 1
    INFO = 2
    WARN = 3
    ERROR = 4
    FATAL = 5


#: Other names of levels: those of Python's ``logging``.
_ALIASES = {"WARNING": LogLevel.WARN, "CRITICAL": LogLevel.FATAL}
_LEVELS = {**{level.name: level for level in LogLevel}, **_ALIASES}

_WORD = rf"(?P<level>{'|'.join(_LEVELS)})\b"
#: Beginnings of lines: Spark's own pattern, its structured log, and what Log4j and Python's
#: ``logging`` commonly write. Times without a zone are those of this host.
_HEADS = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        rf"(?P<spark>\d\d/\d\d/\d\d \d\d:\d\d:\d\d) {_WORD}",
        rf'\{{"ts":"(?P<iso>[^"]+)","level":"{_WORD}',
        # The time, then perhaps the thread in brackets, or a logger's name, also between dashes.
        r"(?P<iso>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z| ?[+-]\d\d:?\d\d)?)\S*\s+"
        rf"(?:- )?(?:\[[^\]]*\]\s+|\S+\s+(?:- )?)?{_WORD}",
    )
)
#: The time of a line that is not in Spark's own pattern: the part up to its seconds, and its zone.
_ISO = re.compile(r"(.{19})(?:[.,]\d+)? ?(?:(Z)|([+-]\d\d):?(\d\d))?", re.ASCII)
#: Lines without a time that nevertheless have a level.
_OWN_LEVEL = (
    ("Traceback (most recent call last):", LogLevel.ERROR),
    ("Exception in thread ", LogLevel.ERROR),
    ("flinkish: ", LogLevel.WARN),
)
#: The beginning of what the driver writes about the job's failure, which is in the registry too.
_FAILED = "flinkish: job failed"
#: The forms of Spark's own lines; a program's ``logging`` may write the other forms.
_SPARK_HEADS = _HEADS[:2]
#: What spark-submit and its JVM write before there is a log.
_LAUNCHER = (
    ":: ",
    "WARNING: Using incubator modules",
    "Using Spark's default log4j profile",
    "Setting default log level to",
    "To adjust logging level use",
)
#: Later lines of Spark's longer messages: ends of JSON, trees of plans.
_REMAINDER = re.compile(r"[\]})]+,?$|[:+]- |\*\(\d+\) |== .* ==$")
_DIGITS = re.compile(r"\d\d", re.ASCII)
#: A line of a stack trace: it is indented or empty, or begins with an exception or its cause.
_TRACE = re.compile(
    r"\s|$|: |Caused by: |Driver stacktrace:$|Suppressed: |During handling of |The above exception "
    r"|(?:[A-Za-z_$][\w$]*\.)*[A-Za-z_$][\w$]*(?:Exception|Error|Interrupt|Exit)(?::|$)"
)


#: What Spark writes below the error of a query: the query's position, and its plan.
_PLAN = "=== Streaming Query ==="
_LOGICAL = "Logical Plan:"
_OF_PLAN = re.compile(
    r"$|Identifier: |Current |Thread State: |Logical Plan:|JVM stacktrace:|[ :]*[+:]- |\s"
)
_JAVA_FRAME = re.compile(r"\s+at [\w.$<>/]+\(.*\)$|\s*\.\.\. \d+ more$|Driver stacktrace:$")
_FRAME = re.compile(r'\s*File "([^"]*)", line \d+')
#: Files of PySpark, of Py4J and of flinkish's driver in a traceback, as in ``launch/tracebacks``.
_OF_SPARK = re.compile(r"/pyspark(?:\.zip)?/|/py4j(?:-[^/]*)?/|/flinkish/driver/")


def level_of(name: str) -> LogLevel | None:
    """Return the level that a name stands for (``warn``, ``WARN``); None if it is unknown. Pure."""
    return _LEVELS.get(name.strip().upper())


@dataclass(frozen=True)
class LogChoice:
    """Which lines of a log to show.

    ``since``: only lines of this time or later, in seconds since the epoch. ``level``: only lines
    of this level or a higher one. ``pattern``: only lines in which the pattern is found, with the
    stack traces below them.
    """

    since: float | None = None
    level: LogLevel | None = None
    pattern: re.Pattern[str] | None = None

    @property
    def is_everything(self) -> bool:
        """Whether all lines are wanted."""
        return self.since is None and self.level is None and self.pattern is None


class _Lines:
    """Takes a log in blocks and decides on each line, after :data:`PIECE` characters at most."""

    def __init__(self) -> None:
        self._rest = ""
        self._shown = False
        self._inside = False

    def feed(self, text: str) -> Iterator[str]:
        """Yield the chosen lines of the next block, with line ends; very long lines in pieces."""
        *lines, last = (self._rest + text).split("\n")
        for line in lines:
            yield from self._piece(line + "\n")
        self._rest = last
        while len(self._rest) > PIECE:
            piece, self._rest = self._rest[:PIECE], self._rest[PIECE:]
            yield from self._piece(piece)

    def finish(self) -> Iterator[str]:
        """Yield a last line without a line end, if it is chosen."""
        last, self._rest = self._rest, ""
        if last:
            yield from self._piece(last)

    def _piece(self, text: str) -> Iterator[str]:
        begins = not self._inside
        self._inside = not text.endswith("\n")
        line = text.rstrip("\r\n")
        self._shown = self._begins_shown(line) if begins else self._goes_on_shown(line)
        if self._shown:
            yield text

    def _begins_shown(self, line: str) -> bool:
        """Return whether a line, or the first piece of a long one, is shown."""
        raise NotImplementedError

    def _goes_on_shown(self, _piece: str) -> bool:
        """Return whether a further piece of a long line is shown."""
        return self._shown


class LogFilter(_Lines):
    """Chooses lines of a log that is read in blocks, from its beginning.

    ``start``: the time of lines before the first one that has a time, in seconds since the epoch.
    """

    def __init__(self, choice: LogChoice, start: float) -> None:
        super().__init__()
        self._choice = choice
        self._stamp = ""
        self._time = start
        self._level = LogLevel.INFO
        self._is_head = False

    def _begins_shown(self, line: str) -> bool:
        self._read_head(line)
        in_trace = self._shown and not self._is_head and _TRACE.match(line) is not None
        return self._is_wanted() and (in_trace or self._is_matched(line))

    def _goes_on_shown(self, piece: str) -> bool:
        return self._shown or (self._is_wanted() and self._is_matched(piece))

    def _read_head(self, line: str) -> None:
        """Take the time and the level of a line, if it has them."""
        self._is_head = True
        for pattern in _HEADS:
            head = pattern.match(line)
            if head is not None:
                self._level = _LEVELS[head["level"]]
                stamp = head.group(1)
                if self._choice.since is not None and stamp != self._stamp:
                    self._stamp, self._time = stamp, _seconds(stamp, self._time)
                return
        for beginning, level in _OWN_LEVEL:
            if line.startswith(beginning):
                self._level = level
                return
        self._is_head = False

    def _is_wanted(self) -> bool:
        """Return whether the line's time and level are wanted."""
        choice = self._choice
        return (choice.since is None or self._time >= choice.since) and (
            choice.level is None or self._level >= choice.level
        )

    def _is_matched(self, line: str) -> bool:
        pattern = self._choice.pattern
        return pattern is None or pattern.search(line) is not None


class ProgramOutput(_Lines):
    """Chooses what the program and flinkish write; leaves out Spark's log and its launcher's notes.

    Stack traces and indented lines below a line of Spark's log belong to that line. If the line
    ends with a colon, the next line belongs to it in any case. Of an error that Spark raises in the
    program, the query's plan and the frames of Java, PySpark, Py4J and flinkish's driver are left
    out; the message and the causes stay.
    """

    def __init__(self) -> None:
        super().__init__()
        self._in_spark = False
        self._in_plan = self._is_root_next = self._in_foreign = False
        self._is_announced = False

    def _begins_shown(self, line: str) -> bool:
        announced, self._is_announced = self._is_announced, False
        if any(head.match(line) for head in _SPARK_HEADS):
            self._in_spark, self._is_announced = True, line.endswith(":")
            return False
        if line.startswith(_LAUNCHER):
            return False
        if self._in_spark and (announced or _TRACE.match(line) or _REMAINDER.match(line)):
            return False
        self._in_spark = False
        is_root, self._is_root_next = self._is_root_next, self._in_plan and line == _LOGICAL
        self._in_plan = line == _PLAN or (
            self._in_plan and (is_root or _OF_PLAN.match(line) is not None)
        )
        frame = _FRAME.match(line)
        if frame is not None:
            self._in_foreign = _OF_SPARK.search(frame[1]) is not None
        elif not line.startswith("    "):
            self._in_foreign = False
        return not (self._in_plan or self._in_foreign or _JAVA_FRAME.match(line))


class FollowedOutput(ProgramOutput):
    """Output of a job that is followed to its end, without the failure that the command reports."""

    def _begins_shown(self, line: str) -> bool:
        return super()._begins_shown(line) and not line.startswith(_FAILED)


def own_lines(text: str) -> list[str]:
    """Return the lines that the program and flinkish wrote to a log, without blank lines."""
    chosen = ProgramOutput()
    lines = "".join([*chosen.feed(text), *chosen.finish()]).splitlines()
    return [line.rstrip() for line in lines if line.strip()]


def _seconds(stamp: str, unknown: float) -> float:
    """Return a line's time in seconds since the epoch; ``unknown`` if there is no such time."""
    try:
        if stamp[2] == "/":  # strptime takes ten times as long
            year, month, day, hour, minute, second = map(int, _DIGITS.findall(stamp))
            return datetime(2000 + year, month, day, hour, minute, second).timestamp()
        iso = _ISO.fullmatch(stamp)
        if iso is None:
            return unknown
        moment, is_utc, hours, minutes = iso.groups()  # Python 3.10 reads zones in one form only
        zone = "+00:00" if is_utc else f"{hours}:{minutes}" if hours else ""
        return datetime.fromisoformat(moment + zone).timestamp()
    except (ValueError, OverflowError):
        return unknown
