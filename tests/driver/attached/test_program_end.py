"""The end of a program, seen from inside its interpreter: real interpreters, no Spark."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
import sys
from flinkish.driver.attached.program_end import ProgramEnd
def conclude(outcome):
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(1) as pool:  # a savepoint in flight still needs one
        print(outcome.status, type(outcome.error).__name__, pool.submit(lambda: "works").result())
    return STATUS
end = ProgramEnd(conclude)
"""


def run(*lines: str, status: int | None = None) -> subprocess.CompletedProcess[str]:
    program = "\n".join([_PROGRAM.replace("STATUS", repr(status)), *lines])
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("line", "code", "outcome"),
    [
        ("pass", 0, "0 NoneType works"),
        ("sys.exit()", 0, "0 NoneType works"),
        ("sys.exit(3)", 3, "3 SystemExit works"),
        ("sys.exit('why')", 1, "1 SystemExit works"),
        ("raise ValueError('why')", 1, "1 ValueError works"),
    ],
)
def test_how_a_program_ended(line: str, code: int, outcome: str) -> None:
    done = run(line)
    assert (done.returncode, done.stdout.strip()) == (code, outcome), done.stderr
    assert ("ValueError: why" in done.stderr) is ("ValueError" in line), "Python says it as ever"


@pytest.mark.parametrize(
    ("after", "outcome"),
    [
        ("queries.append('q')", "0 NoneType works"),
        ("pass", "2 SystemExit works"),  # it may be what ends the program
        ("queries.append('q'); sys.exit(3)", "3 SystemExit works"),
        ("queries.append('q'); raise ValueError", "1 ValueError works"),
    ],
)
def test_an_exit_before_a_start_of_a_query_was_handled(after: str, outcome: str) -> None:
    lines = (
        "end.remove()",
        "queries = []",
        "end = ProgramEnd(conclude, starts=lambda: len(queries))",
        "try: sys.exit(2)",
        "except SystemExit: pass",
        after,
    )
    assert run(*lines).stdout.strip() == outcome


def test_an_exit_before_a_query_of_the_same_name_is_started_again_was_handled() -> None:
    lines = (
        "end.remove()",
        "from types import SimpleNamespace",
        "from flinkish.driver.attached.attachment import Attachment",
        "from flinkish.driver.attached.request import Arguments",
        "from flinkish.driver.runtime.start_phase import StartPhase",
        "__file__ = 'program.py'  # else this is a shell",
        "phase, attachment = StartPhase(), Attachment(Arguments())",
        "attachment._program_ended = conclude",
        "attachment.begin()",
        "names = lambda: ['q']",
        "attachment._served = SimpleNamespace(start_phase=phase, queries=names), None, None",
        "def start():",
        "    with phase.starting('q'): phase.started('q')",
        "start()",
        "try: sys.exit(2)",
        "except SystemExit: start()",
    )
    assert run(*lines).stdout.strip() == "0 NoneType works"


def test_a_refused_restore_has_its_own_status() -> None:
    assert run("pass", status=5).returncode == 5


def test_an_error_in_a_shell_is_not_its_end() -> None:
    lines = "end.remove()", "end = ProgramEnd(conclude, interactive=True)", "raise ValueError"
    assert run(*lines).stdout.strip() == "0 NoneType works"


def test_after_it_is_removed_nothing_is_noticed() -> None:
    done = run("end.remove()", "raise ValueError('why')")
    assert (done.returncode, done.stdout) == (1, "")
