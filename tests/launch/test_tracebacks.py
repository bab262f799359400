"""Python tracebacks in texts: whole, chained, cut off, in groups, behind other text."""

from __future__ import annotations

import traceback

import pytest

from flinkish.launch.tracebacks import last_traceback, without_plan

HEAD = "Traceback (most recent call last):"
FRAME = ['  File "/jobs/app.py", line 1, in <module>', "    main()"]


def test_the_root_cause_is_kept_without_its_frames() -> None:
    root = "\nCaused by: java.lang.ArithmeticException: / by zero"
    frames = "\n\tat org.apache.spark.X.run(X.scala:1)\n\t... 12 more"
    for what in ("JVM stacktrace:", "=== Streaming Query ==="):
        text = f"Job aborted.\n\n{what}\norg.apache.spark.SparkException{frames}{root}{frames}"
        assert without_plan(text) == f"Job aborted.{root}"


def lines_of(error: BaseException) -> list[str]:
    return "".join(traceback.format_exception(error)).splitlines()


def raised(error: Exception, cause: Exception | None = None) -> list[str]:
    """The traceback of an error as Python writes it."""
    try:
        raise error from cause
    except type(error) as caught:
        return lines_of(caught)


def test_the_last_one_with_its_innermost_frame() -> None:
    first, second = raised(ValueError("an earlier one")), raised(KeyError("x"))
    found = last_traceback([*first, "go on", *second, "the end"])
    assert found is not None
    assert found.exception == "KeyError: 'x'"
    assert found.end == len(first) + 1 + len(second)
    assert found.last_frame[0].endswith("in raised")
    assert not any("earlier" in line for line in found.lines)


def test_of_a_chain_the_last() -> None:
    found = last_traceback(raised(RuntimeError("outer"), ValueError("inner")))
    assert found is not None
    assert found.exception == "RuntimeError: outer"


def test_one_that_is_cut_off_is_passed_over() -> None:
    whole = raised(ValueError("whole"))
    found = last_traceback([*whole, HEAD, *FRAME])
    assert found is not None
    assert found.exception == "ValueError: whole"
    assert last_traceback([HEAD, *FRAME]) is None
    assert last_traceback([HEAD, *FRAME, HEAD, *FRAME]) is None


def test_lines_of_other_threads_inside_it() -> None:
    found = last_traceback([HEAD, *FRAME, "26/11/21 07:50:01 WARN X: y", "ValueError"])
    assert found is not None
    assert found.exception == "ValueError"


def test_an_exception_in_lower_case() -> None:
    """An earlier one, which was handled, is not the reason of a failure."""
    lower = "socket.gaierror: [Errno -2] Name or service not known"
    first = [HEAD, *FRAME, "ValueError: first"]
    found = last_traceback([*first, "handled: go on", HEAD, *FRAME, lower])
    assert found is not None
    assert found.exception == lower
    found = last_traceback([HEAD, *FRAME, "26/11/21 07:50:01 WARN X: y", "app.py: z", "KeyError"])
    assert found is not None
    assert found.exception == "KeyError"


def test_an_exception_in_a_group() -> None:
    group = [
        "  + Exception Group Traceback (most recent call last):",
        '  |   File "/jobs/app.py", line 1, in <module>',
        "  | ExceptionGroup: both (1 sub-exception)",
        "  +-+---------------- 1 ----------------",
        "    | Traceback (most recent call last):",
        '    |   File "/jobs/app.py", line 2, in main',
        "    |     fail()",
        "    | jobs.Late: too late",
        "    +------------------------------------",
    ]
    found = last_traceback([*raised(ValueError("handled")), *group])
    assert found is not None
    assert found.exception == "jobs.Late: too late"
    assert found.last_frame == ('  File "/jobs/app.py", line 2, in main', "    fail()")


@pytest.mark.parametrize("embedded", [True, False])
def test_behind_other_text(embedded: bool) -> None:
    text = [f"terminated with exception: {HEAD}", *FRAME, "pkg.OddName: why", "== Plan =="]
    found = last_traceback(text, embedded=embedded)
    assert (None if found is None else found.exception) == (
        "pkg.OddName: why" if embedded else None
    )
