"""Tell what a program printed from Spark's log, where both are in one file. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

#: The beginning of a line of Spark's log: its own pattern, its structured log, a common one of
#: Log4j.
_SPARK = re.compile(
    r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d [A-Z]+ |\{\"ts\":|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S* +[A-Z]+ "
)
#: What Spark's launcher prints before there is a log.
_LAUNCHER = re.compile(
    r"WARNING: |Using Spark's default log4j profile|Setting default log level to "
    r"|To adjust logging level use |Using incubator modules: |:: loading settings :: "
)
#: A line that goes on with the message before it: a stack trace, or the JSON of a progress report.
_MORE = re.compile(r"[\s}\]]|$|Caused by: |/\*|(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error)\b")


def own_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines that are not Spark's, without blank ones.

    Lines that continue a message of Spark's log (indented ones, closing brackets) belong to it.
    """
    in_message = False
    for line in lines:
        if _SPARK.match(line) or _LAUNCHER.match(line):
            in_message = True
            continue
        if in_message and _MORE.match(line):
            continue
        in_message = False
        if line.strip():
            yield line
