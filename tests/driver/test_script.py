"""How a program's end is told: the cause, not what Spark wraps around it."""

from __future__ import annotations

from flinkish.driver.script import (
    ProgramOutcome,
    hint_of,
    own_places,
    program_failed,
    python_traceback,
    reason,
    run_callable,
)
from flinkish.errors import ConsentNeeded

#: As Spark 4.3 has it, when a function of foreachBatch raises.
WRAPPED = """\
[STREAM_FAILED] Query [id = 974b, runId = 67ca] terminated with exception: \
[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach \
batch sink. Reason: An exception was raised by the Python Proxy. Return Message: \
Traceback (most recent call last):
  File "/py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
  File "/srv/rides.py", line 30, in write
    raise RuntimeError("the new version is broken")
RuntimeError: the new version is broken
 SQLSTATE: 39000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: counted [id = 974b, runId = 67ca]
Current State: ACTIVE
Logical Plan:
~Aggregate [k#2L], [k#2L, count(1) AS count#3L]
"""


class StreamingQueryException(Exception):
    """Named as PySpark's."""


def test_the_cause_inside_what_spark_says() -> None:
    failed = program_failed(ProgramOutcome(1, StreamingQueryException(WRAPPED)))
    assert failed.message == "StreamingQueryException: RuntimeError: the new version is broken"
    tail = failed.data["tail"]
    assert tail[-1] == "RuntimeError: the new version is broken"
    assert '  File "/srv/rides.py", line 30, in write' in tail
    assert not any("Logical Plan" in line for line in tail)
    assert reason(WRAPPED) == "RuntimeError: the new version is broken"


def test_without_a_traceback_the_first_line_tells() -> None:
    assert python_traceback("[X] it is so\nmore") == []
    assert reason("\n[X] it is so\nmore") == "[X] it is so"
    failed = program_failed(ProgramOutcome(1, StreamingQueryException("[X] it is so\nmore")))
    assert failed.message == "StreamingQueryException: [X] it is so"


def test_the_cause_of_an_error_that_py4j_reports() -> None:
    java = (
        "An error occurred while calling o51.resolve.\n: java.lang.RuntimeException: no\n"
        "\tat scala.A.b(A.scala:1)\n"
    )
    assert reason(java) == "java.lang.RuntimeException: no"
    assert reason(f"{java}Caused by: java.io.IOException: full\n") == "java.io.IOException: full"


def test_a_batch_whose_state_was_not_computed_is_explained() -> None:
    """A restart in place with checkpoint format 2, after a kill between the sink and the commit."""
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: assertion failed: "
        "CheckpointInfo length: 0, numPartitions: 2 SQLSTATE: XXKST\n=== Streaming Query ==="
    )
    failed = program_failed(ProgramOutcome(1, StreamingQueryException(text)))
    assert failed.message.endswith("CheckpointInfo length: 0, numPartitions: 2 SQLSTATE: XXKST")
    for hint in (failed.hint, hint_of(text)):
        assert "flinkish run -s CHECKPOINT" in str(hint)
    other = text.replace("length: 0", "length: 04")
    assert hint_of(other) is None


#: As a sink that writes files says it on Spark 4.3, with the root cause behind it.
WRITING = """\
[STREAM_FAILED] Query [id = 1] terminated with exception: [TASK_WRITE_FAILED] Task failed while \
writing rows to file:/out. SQLSTATE: 58030 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: rides [id = 1]
Caused by: """


def test_the_root_cause_behind_what_a_sink_says() -> None:
    java = WRITING + "ConnectException: refused\nby the host"
    assert reason(java) == "ConnectException: refused"
    error = StreamingQueryException(WRITING.partition("\nCaused")[0])
    failed = program_failed(ProgramOutcome(1, error), java)
    assert failed.message == "StreamingQueryException: ConnectException: refused"
    trace = 'Traceback (most recent call last):\n  File "/a.py", line 3, in f\nValueError: no'
    failed = program_failed(ProgramOutcome(1, error), WRITING + "PythonException: \n" + trace)
    assert failed.message == "StreamingQueryException: ValueError: no"
    assert failed.data["tail"][-1] == "ValueError: no"
    assert "TASK_WRITE_FAILED" in program_failed(ProgramOutcome(1, error)).message


def test_no_plan_stands_before_the_cause() -> None:
    error = StreamingQueryException(
        WRITING.partition("\nCaused")[0] + "\nLogical Plan:\n~Aggregate"
    )
    for failed in (
        program_failed(ProgramOutcome(1, error)),
        program_failed(ProgramOutcome(1, error), WRITING + "ConnectException: refused"),
    ):
        told = "\n".join(failed.data["tail"])
        assert "TASK_WRITE_FAILED" in told
        assert not any(word in told for word in ("Streaming Query ===", "Identifier", "Aggregate"))
    assert told.endswith("Caused by: ConnectException: refused")
    asks = program_failed(ProgramOutcome(1, EOFError("EOF when reading a line")))
    assert "no standard input" in asks.hint


#: As a function of foreachBatch fails in a call into Java.
IN_JAVA = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Return Message: \
Traceback (most recent call last):
  File "/lib/pyspark.zip/pyspark/sql/utils.py", line 163, in call
    self.func(DataFrame(jdf, wrapped_session_jdf), batch_id)
  File "/srv/rides.py", line 14, in write
    frame.write.parquet(path)
  File "/lib/py4j-0.10.9.9-src.zip/py4j/protocol.py", line 327, in get_return_value
    raise Py4JJavaError(
py4j.protocol.Py4JJavaError: An error occurred while calling o211.parquet.
: org.apache.spark.SparkException: Job aborted due to stage failure
\tat org.apache.spark.Thing(Thing.java:1)
Caused by: java.io.IOException: Mkdirs failed
"""


def test_the_cause_of_a_call_into_java() -> None:
    failed = program_failed(ProgramOutcome(1, StreamingQueryException(IN_JAVA)))
    assert failed.message == "StreamingQueryException: java.io.IOException: Mkdirs failed"
    assert [line for line in failed.data["tail"] if "File" in line] == [
        '  File "/srv/rides.py", line 14, in write'
    ]
    assert reason("[STREAM_FAILED] Query [id = 1] terminated with exception: [X] so") == "[X] so"


def test_a_traceback_that_is_cut_off() -> None:
    assert python_traceback("Traceback (most recent call last):\n  File x") == []


def test_an_exit_with_a_status() -> None:
    failed = program_failed(ProgramOutcome(3, SystemExit(3)))
    assert failed.message == "the program exited with status 3"
    assert "tail" not in failed.data


def test_where_in_the_program_a_refusal_came_up() -> None:
    def program() -> None:
        raise ConsentNeeded("not so")

    outcome = run_callable(program)
    assert outcome.error is not None
    (place,) = [each for each in own_places(outcome.error) if "in program" in each]
    assert place.startswith(__file__)
    assert place.endswith('in program: raise ConsentNeeded("not so")')
