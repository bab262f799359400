"""The lines of a log that are chosen, however the log comes in blocks."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from flinkish.log_lines import (
    PIECE,
    FollowedOutput,
    LogChoice,
    LogFilter,
    LogLevel,
    ProgramOutput,
    level_of,
    own_lines,
)

LOG = """\
:: loading settings
26/11/23 10:00:00 INFO SparkContext: Running Spark version 4.3.0
hello from the program
26/11/23 10:00:05 WARN TaskSetManager: Lost task 0.0
org.apache.spark.SparkException: it broke
\tat org.apache.spark.Task.run(Task.scala:1)
Caused by: java.io.IOException: disk

\t... 3 more
26/11/23 10:00:06 INFO BlockManager: fine again
Traceback (most recent call last):
  File "/app.py", line 3, in <module>
Strange: it broke
26/11/23 10:00:06 INFO ShutdownHook: called
flinkish: the driver ended with status 1; starting the driver again in 1 s
26/11/23 10:01:00 ERROR MicroBatchExecution: Query counts terminated with error
[SOME_CLASS] a message
of three lines
"""
WARNING = LOG.splitlines(keepends=True)[3:9]
TRACEBACK = LOG.splitlines(keepends=True)[10:13]
RESTART = LOG.splitlines(keepends=True)[14:15]
FAILURE = LOG.splitlines(keepends=True)[15:18]


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def at(hour: int, minute: int, second: int) -> float:
    return 1_795_392_000.0 + 3600 * hour + 60 * minute + second  # 2026-11-23


def chosen(text: str, choice: LogChoice, start: float = 0.0, block: int = 1000) -> list[str]:
    chooser = LogFilter(choice, start)
    found = [line for i in range(0, len(text), block) for line in chooser.feed(text[i : i + block])]
    return [*found, *chooser.finish()]


@pytest.mark.parametrize("block", [1, 7, 10_000])
def test_a_level_takes_what_belongs_to_its_lines(block: int) -> None:
    warn = LogChoice(level=LogLevel.WARN)
    assert chosen(LOG, warn, block=block) == [*WARNING, *TRACEBACK, *RESTART, *FAILURE]
    error = LogChoice(level=LogLevel.ERROR)
    assert chosen(LOG, error, block=block) == [*TRACEBACK, *FAILURE]
    assert "".join(chosen(LOG, LogChoice(level=LogLevel.INFO), block=block)) == LOG


def test_since_takes_the_time_of_the_line_before() -> None:
    found = chosen(LOG, LogChoice(since=at(10, 0, 6)))
    assert found == LOG.splitlines(keepends=True)[9:]
    assert chosen(LOG, LogChoice(since=at(10, 1, 0))) == FAILURE
    assert chosen(LOG, LogChoice(since=at(10, 1, 1))) == []


def test_lines_before_the_first_time_have_the_jobs() -> None:
    early = LogChoice(since=at(9, 0, 0))
    assert "".join(chosen(LOG, early, start=at(9, 59, 0))) == LOG
    assert "".join(chosen(LOG, early, start=at(8, 0, 0))) == LOG.partition("\n")[2]


def test_a_pattern_takes_the_stack_trace_below_it() -> None:
    assert chosen(LOG, LogChoice(pattern=re.compile("Lost task"))) == WARNING
    assert chosen(LOG, LogChoice(pattern=re.compile("IOException"))) == WARNING[3:]
    assert chosen(LOG, LogChoice(pattern=re.compile("^hello"))) == ["hello from the program\n"]
    both = LogChoice(pattern=re.compile("again"), level=LogLevel.WARN)
    assert chosen(LOG, both) == RESTART


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ('{"ts":"2026-11-23T10:00:00.123Z","level":"ERROR","msg":"x"}', LogLevel.ERROR),
        ("2026-11-23 10:00:00,123 WARNING [main] x", LogLevel.WARN),
        ("2026-11-23T10:00:00.123+00:00 [main] CRITICAL x", LogLevel.FATAL),
        ("2026-11-23 10:00:00,123 - root - ERROR - x", LogLevel.ERROR),
        ("2026-11-23 10:00:00,123 - ERROR - x", LogLevel.ERROR),
        ("2026-11-23 10:00:00 app.rides WARNING x", LogLevel.WARN),
        ("2026-11-23 11:00:00 +0100 INFO x", LogLevel.INFO),
        ("2026-11-23T05:30:00.123456789-04:30 INFO x", LogLevel.INFO),
        ('{"ts":"2026-11-23T15:30:00.123+0530","level":"WARN","msg":"x"}', LogLevel.WARN),
        ("26/11/23 10:00:00 DEBUG x: y", LogLevel.DEBUG),
        ("Exception in thread main", LogLevel.ERROR),
    ],
)
def test_other_forms(line: str, level: LogLevel) -> None:
    assert chosen(line, LogChoice(level=level)) == [line]
    if level < LogLevel.FATAL:
        assert chosen(line, LogChoice(level=LogLevel(level + 1))) == []
    if line[0] in "2{":
        assert chosen(line, LogChoice(since=at(10, 0, 0))) == [line]
        assert chosen(line, LogChoice(since=at(10, 0, 1))) == []


def test_times_without_a_zone_are_this_hosts_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    local, utc = "2026-11-23 05:00:00,123 INFO x", "2026-11-23T10:00:00.123Z INFO x"
    for line in (local, utc):
        assert chosen(line, LogChoice(since=at(10, 0, 0))) == [line]
        assert chosen(line, LogChoice(since=at(10, 0, 1))) == []


def test_a_time_that_is_none_is_that_of_the_line_before() -> None:
    text = "26/11/23 10:00:00 INFO a\n26/99/99 10:00:00 INFO b\n"
    assert "".join(chosen(text, LogChoice(since=at(10, 0, 0)))) == text


def test_a_line_without_end_is_held_in_pieces() -> None:
    line = "26/11/23 10:00:00 WARN x: " + "y" * (3 * PIECE)
    chooser = LogFilter(LogChoice(level=LogLevel.WARN), 0.0)
    pieces: list[str] = []
    for i in range(0, len(line), 5000):
        pieces += chooser.feed(line[i : i + 5000])
        assert len(chooser._rest) <= PIECE
    pieces += chooser.feed("\nnot much\n26/11/23 10:00:00 INFO x: y\n")
    assert "".join(pieces) == line + "\nnot much\n"
    assert "".join(chosen(line, LogChoice(level=LogLevel.ERROR))) == ""


def test_levels_have_names_in_any_case() -> None:
    assert [level_of(name) for name in ("warn", "WARNING", " Error ", "critical", "loud")] == [
        LogLevel.WARN,
        LogLevel.WARN,
        LogLevel.ERROR,
        LogLevel.FATAL,
        None,
    ]


#: As a driver writes it; what begins with ``|`` is the program's and flinkish's own.
MIXED = """\
 WARNING: Using incubator modules: jdk.incubator.vector
 Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
 26/11/23 10:00:00 INFO SparkContext: Running Spark version 4.3.0
 Setting default log level to "WARN".
|hello
|    an indented line of the program
|flinkish: query 'counts': its operator has no uid
 26/11/23 10:00:01 INFO MicroBatchExecution: Finish initializing with logical plan:
 WriteToMicroBatchDataSource console
 +- ~Aggregate [value], [value, count(1)]
    +- ~EventTimeWatermark
|-------------------------------------------
|Batch: 0
|+-----+-----+
||value|count|
 26/11/23 10:00:02 INFO MicroBatchExecution: Streaming query made progress: {
   "id" : "x",
   "sources" : [ {
   } ]
 }
|2026-11-23 10:00:02,123 WARNING the program's own logging
 26/11/23 10:00:03 WARN TaskSetManager: Lost task 0.0
 org.apache.spark.SparkException: it broke
 \tat org.apache.spark.Task.run(Task.scala:1)
 Caused by: java.io.IOException: disk
|Traceback (most recent call last):
|  File "/app.py", line 3, in <module>
|ValueError: it broke
 {"ts":"2026-11-23T10:00:00.123Z","level":"ERROR","msg":"x"}
|the end"""


@pytest.mark.parametrize("block", [1, 50, 10_000])
def test_the_programs_own_output(block: int) -> None:
    text = "\n".join(line[1:] for line in MIXED.split("\n"))
    own = "\n".join(line[1:] for line in MIXED.split("\n") if line[0] == "|")
    chooser = ProgramOutput()
    shown = [part for i in range(0, len(text), block) for part in chooser.feed(text[i : i + block])]
    assert "".join([*shown, *chooser.finish()]) == own


RAISED = """\
|Traceback (most recent call last):
|  File "/app.py", line 30, in <module>
|    query.awaitTermination()
   File "/lib/pyspark.zip/pyspark/sql/streaming/query.py", line 225, in awaitTermination
     return self._jsq.awaitTermination()
            ^^^^^^^^^^^^^^^^
|pyspark.errors.StreamingQueryException: [STREAM_FAILED] Query [id = 1] terminated: disk full
 === Streaming Query ===
 Identifier: counted [id = 1, runId = 2]
 Current Committed Offsets: {}

 Current State: ACTIVE
 Thread State: RUNNABLE

 Logical Plan:
 WriteToMicroBatchDataSource org.apache.spark.Sink, 1
 +- Aggregate [k#2L], [k#2L]
    +- Relation [k#2L] json
|The program says more
|: java.io.IOException: disk full
 \tat org.apache.spark.Thing.run(Thing.java:1)
 \tat java.base/java.lang.Thread.run(Thread.java:840)
|Caused by: java.lang.Exception: why
 \t... 3 more
|flinkish: job failed
"""


def test_of_an_error_of_spark_the_program_shows_no_plan_and_no_frames() -> None:
    text = "".join(line[1:] for line in RAISED.splitlines(keepends=True))
    own = [line[1:] for line in RAISED.splitlines() if line.startswith("|")]
    assert own_lines(text) == own


def test_who_follows_a_job_is_told_of_its_failure_once() -> None:
    text = "flinkish: query 'q' restored\nflinkish: job failed at /app.py, line 3\n" + RAISED
    shown = "".join(FollowedOutput().feed(text.replace("|", "")))
    assert "flinkish: query 'q' restored\n" in shown
    assert "job failed" not in shown
    assert "The program says more" in shown


WITH_USAGE = """\
WARNING: Using incubator modules: jdk.incubator.vector
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
26/11/23 14:00:00 INFO MicroBatchExecution: Streaming query made progress: {
  "id" : "1b2",
  "sources" : [ {
    "description" : "FileStreamSource[file:/in]"
  } ]
}
usage: rides.py [-h] --out OUT
rides.py: error: the following arguments are required: --out

26/11/23 14:00:01 ERROR Executor: Exception in task 0.0
java.lang.IllegalStateException: why
\tat org.apache.spark.Thing(Thing.java:1)
Caused by: java.io.IOException: no room
\tat org.apache.spark.Other(Other.java:1)
{"ts":"2026-11-23T14:00:02Z","level":"INFO","msg":"structured"}
2026-11-23 14:00:03,123 WARN something of another pattern
the end
"""


def test_what_is_not_sparks() -> None:
    assert own_lines(WITH_USAGE) == [
        "usage: rides.py [-h] --out OUT",
        "rides.py: error: the following arguments are required: --out",
        "2026-11-23 14:00:03,123 WARN something of another pattern",
        "the end",
    ]


def test_lines_before_any_log_are_the_programs_own() -> None:
    assert own_lines("  indented\n\n}\n") == ["  indented", "}"]
