"""What a program printed, told from Spark's log."""

from __future__ import annotations

from flinkish.log_lines import own_lines

LOG = """\
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
    assert list(own_lines(LOG.splitlines())) == [
        "usage: rides.py [-h] --out OUT",
        "rides.py: error: the following arguments are required: --out",
        "the end",
    ]


def test_lines_before_any_log_are_the_programs_own() -> None:
    assert list(own_lines(["  indented", "", "}"])) == ["  indented", "}"]
