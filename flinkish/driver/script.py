"""Runs the user's program inside the driver and reports how it ended."""

from __future__ import annotations

import os
import re
import runpy
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.driver.spark.jvm import CAUSED_BY
from flinkish.errors import FlinkishError, ProgramFailed
from flinkish.launch.tracebacks import (
    JAVA_ERROR,
    is_of_spark,
    java_cause,
    last_traceback,
    own_frames,
    without_plan,
)
from flinkish.messages.launch import is_pipeline

_TAIL_LINES = 12
#: The first line of Py4J's text of a Java error; it does not say what went wrong.
_CALLED = "An error occurred while calling "


@dataclass(frozen=True)
class ProgramOutcome:
    """How the user's program ended.

    ``error`` is the exception that ended it; None for an exit with status 0.
    """

    status: int
    error: BaseException | None = None


def run_program(argv: Sequence[str]) -> ProgramOutcome:
    """Run the user's script or module as ``__main__``, or the pipeline of a specification."""
    if argv[0] == "--module":
        sys.argv = list(argv[1:])
        sys.path.insert(0, os.getcwd())
        return run_callable(lambda: runpy.run_module(argv[1], run_name="__main__", alter_sys=True))
    sys.argv = list(argv)
    # As ``python script.py`` does, so that imports from the directory of the script work.
    sys.path.insert(0, os.path.dirname(os.path.abspath(argv[0])))
    if is_pipeline(argv[0]):
        from flinkish.driver.connect.spec_program import run_specification

        return run_callable(lambda: run_specification(argv))
    return run_callable(lambda: runpy.run_path(argv[0], run_name="__main__"))


def run_callable(program: Callable[[], Any]) -> ProgramOutcome:
    """Call ``program`` and return its outcome, whatever it raises."""
    try:
        program()
    except SystemExit as stop:
        if stop.code is None or stop.code == 0:
            return ProgramOutcome(0)
        if not isinstance(stop.code, int):
            print(stop.code, file=sys.stderr)
        return ProgramOutcome(stop.code if isinstance(stop.code, int) else 1, stop)
    except BaseException as error:  # noqa: BLE001 - see below
        # This is the program's outermost frame: every exception is its outcome, Ctrl-C included.
        return ProgramOutcome(1, error)
    return ProgramOutcome(0)


#: Spark's text before the reason why a query failed.
_WRAPPED = re.compile(r"\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: (?=\S)")
#: The error of Spark 4 (``StateStoreWriter``) when it commits a batch whose state was not computed,
#: under checkpoint format 2, which gives every version of the state an id.
_NO_STATE = re.compile(r"CheckpointInfo length: 0\b")
#: The hint for that error. A restore from the checkpoint asks what to do with the sink's batch.
_SKIPPED = (
    "the batch ran without computing its state: its sink has it already, from a driver that was "
    "killed before Spark committed it, or a foreachBatch function does not read its frame. With "
    "checkpoint format 2 Spark cannot commit such a batch; see where the query's checkpoint is "
    "with: flinkish status JOB, and start the job from there with: flinkish run -s CHECKPOINT, "
    "which says what can be done with the batch"
)
#: The hint for a program that reads its standard input.
_NO_INPUT = "a job has no standard input: give it what it needs as arguments or in a file"


def program_failed(outcome: ProgramOutcome, query_error: str = "") -> FlinkishError:
    """Return the error for a program that ended with a status other than 0.

    ``query_error`` is the error of a failed query, with its root cause; empty if no query failed.
    """
    if isinstance(outcome.error, FlinkishError):
        return outcome.error
    if outcome.error is None or isinstance(outcome.error, SystemExit):
        return ProgramFailed(f"the program exited with status {outcome.status}")
    kind = type(outcome.error).__name__
    hint = hint_of(query_error or str(outcome.error))
    inner = python_traceback(str(outcome.error))
    if inner:  # a query's StreamingQueryException, which has Python's traceback in its text
        return ProgramFailed(f"{kind}: {reason(str(outcome.error))}", hint=hint, tail=inner)
    if kind == "StreamingQueryException" and CAUSED_BY in query_error:
        tail = python_traceback(query_error) or outcome_lines(without_plan(query_error, CAUSED_BY))
        return ProgramFailed(f"{kind}: {reason(query_error)}", hint=hint, tail=tail)
    lines = without_plan("".join(_own_traceback(outcome.error))).splitlines()
    hint = _NO_INPUT if isinstance(outcome.error, EOFError) else hint
    return ProgramFailed(last_line(outcome.error), hint=hint, tail=lines[-_TAIL_LINES:])


def hint_of(query_error: str) -> str | None:
    """Return what to do about the error of a failed query; None if the error needs no hint."""
    return _SKIPPED if _NO_STATE.search(query_error) else None


def _own_traceback(error: BaseException) -> list[str]:
    """Return the traceback without the frames of flinkish, PySpark and ``runpy``."""
    exception = traceback.TracebackException.from_exception(error)
    exception.stack = traceback.StackSummary.from_list(_own_frames(error))
    return list(exception.format())


def _own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    frames = traceback.extract_tb(error.__traceback__)
    return [frame for frame in frames if not is_of_spark(frame.filename)]


def own_places(error: BaseException) -> list[str]:
    """Return the program's calls that led to an error, one line each, outermost first."""
    return [
        f"{frame.filename}, line {frame.lineno}, in {frame.name}: {frame.line or ''}".rstrip(": ")
        for frame in _own_frames(error)
    ]


def print_traceback(error: BaseException) -> None:
    """Print the program's own part of the traceback to stderr, except for a ``SystemExit``."""
    if not isinstance(error, SystemExit):
        print("".join(_own_traceback(error)), file=sys.stderr, end="", flush=True)


def last_line(error: BaseException) -> str:
    """Return the error as it appears in the last line of its traceback."""
    return _first_line(f"{type(error).__name__}: {error}")


def outcome_lines(text: str) -> list[str]:
    """Return the last of the lines of a text that are not blank."""
    return [line for line in text.splitlines() if line.strip()][-_TAIL_LINES:]


def reason(text: str) -> str:
    """Return the line of an error text that states the cause.

    That is the last exception line if the text contains a Python traceback (or the root cause of
    the Java error in that line), else the root cause of
    :func:`~flinkish.driver.spark.jvm.error_of` or of Py4J's error, else the first line.
    """
    inner = python_traceback(text)
    if not inner and text.startswith(_CALLED):
        return _first_line(java_cause(text) or text)
    if inner and JAVA_ERROR in inner[-1]:
        return _first_line(java_cause(text) or inner[-1])
    return _first_line(inner[-1] if inner else text.rpartition(CAUSED_BY)[2])


def python_traceback(text: str) -> list[str]:
    """Return the end of the last Python traceback in an error text; empty when there is none.

    The last line is the exception.
    """
    last = last_traceback([line for line in text.splitlines() if line.strip()], embedded=True)
    return [] if last is None else own_frames(last.lines)[-_TAIL_LINES:]


def _first_line(text: str) -> str:
    line = next((part for part in text.splitlines() if part.strip()), text)
    line = _WRAPPED.sub("", line)
    return line if len(line) <= 400 else line[:397] + "..."
