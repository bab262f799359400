"""``logs``: chosen lines of a log, the last of them, and those that are still to come."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkish.client.logs import LogReader
from flinkish.log_lines import LogChoice, LogLevel
from flinkish.messages.launch import Launch
from flinkish.registry.jobs import JobRecord, JobState
from tests.cli.conftest import PATIENCE, Command, line_with, wait_until
from tests.test_log_lines import FAILURE, LOG, RESTART, TRACEBACK, WARNING

JOB = "ab" * 16


@pytest.fixture
def log(cli: Command) -> Path:
    """The log of a job that has failed."""
    path = cli.directory / "driver.log"
    path.write_text(LOG)
    with cli.registry() as registry:
        job = JobRecord(
            JOB, "app", JobState.INITIALIZING, 1.0, Launch("/app.py"), log_path=str(path)
        )
        registry.add_job(job)
        registry.transition(JOB, JobState.FAILED)
    return path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), LOG),
        (("--level", "warn"), "".join([*WARNING, *TRACEBACK, *RESTART, *FAILURE])),
        (("--level", "ERROR", "--grep", "broke$"), TRACEBACK[2]),
        (("--level", "error", "-n", "2"), "".join(FAILURE[1:])),
        (("--since", "2026-11-23T10:01", "-n", "9"), "".join(FAILURE)),
        (("--since", "2999-01-01"), ""),
        (("--since", "90000d"), LOG),
        (("--grep", "no such words"), ""),
        (("--grep", "hello", "-f"), "hello from the program\n"),
        (("--level", "warn", "-n", "0"), ""),
    ],
    ids=str,
)
def test_what_is_shown(cli: Command, log: Path, words: tuple[str, ...], expected: str) -> None:
    assert cli.ok("logs", JOB, *words).out == expected
    if "-f" not in words:
        assert cli.ok("logs", JOB, *words, "--json").json()["lines"] == expected.splitlines()


def test_a_log_that_is_gone_may_have_been_removed(cli: Command, log: Path) -> None:
    log.unlink()
    refused = cli("logs", JOB)
    assert "cannot read the log of job app" in refused.err
    assert "may have been removed" in refused.err


@pytest.mark.parametrize("count", [0, 1, 2])
def test_an_incomplete_last_line_counts_among_the_last(cli: Command, log: Path, count: int) -> None:
    log.write_text("one\ntwo\nthree")
    expected = ["one\n", "two\n", "three"][3 - count :]
    for choice in ([], ["--level", "info"]):
        words = ("logs", JOB, "-n", str(count), *choice)
        assert cli.ok(*words).out == "".join(expected)
        assert cli.ok(*words, "--json").json()["lines"] == [line.rstrip() for line in expected]


@pytest.mark.parametrize("count", [1, 2])
def test_only_a_line_feed_ends_a_line(cli: Command, log: Path, count: int) -> None:
    """Spark's progress bar has carriage returns, a program's text perhaps others of Unicode."""
    log.write_bytes("one\n\r[Stage 0:> ]\r[Stage 0:=>]\r\nthree\x0cfour\u2028five\n".encode())
    expected = ["\r[Stage 0:> ]\r[Stage 0:=>]", "three\x0cfour\u2028five"][2 - count :]
    for choice in ([], ["--level", "info"]):
        words = ("logs", JOB, "-n", str(count), *choice, "--json")
        assert cli.ok(*words).json()["lines"] == expected


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--grep", "a(b"), "is not a regular expression"),
        (("--level", "loud"), "'loud' is not a log level"),
        (("--since", "tomorrow"), "is neither a duration nor a time"),
        (("--since", "2026-13-01"), "is neither a duration nor a time"),
        (("--since", ""), "the value is empty"),
    ],
)
def test_mistakes(cli: Command, log: Path, words: tuple[str, str], text: str) -> None:
    result = cli("logs", JOB, *words)
    assert (result.code, result.out) == (2, "")
    assert text in result.err


def test_a_log_that_is_followed_is_no_document(cli: Command, log: Path) -> None:
    refused = cli("logs", JOB, "-f", "--json")
    assert refused.code == 2
    assert "-f and --json are mutually exclusive" in refused.error()["message"]


def test_following_chooses_too(cli: Command) -> None:
    job = cli.start()
    log = Path(cli.status(job)["log_path"])
    following = cli.process("logs", "-f", "--level", "error", job)
    with log.open("a") as stream:
        stream.write("26/11/23 10:00:00 INFO a: b\n26/11/23 10:00:01 ERROR c: ")
        stream.flush()
        wait_until(lambda: "ERROR" in log.read_text(), "it is written")
        stream.write("d\n\tat e.f\n")
    assert line_with(following.stdout, "") == "26/11/23 10:00:01 ERROR c: d\n"
    assert line_with(following.stdout, "") == "\tat e.f\n"
    cli.ok("cancel", job)
    assert following.wait(PATIENCE) == 0


def test_characters_between_two_blocks_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("é" * 100_001 + "\n" + "26/11/23 10:00:00 WARN é\n")
    job = JobRecord(JOB, "app", JobState.RUNNING, 1.0, Launch("/app.py"), log_path=str(path))
    assert "".join(LogReader(job).read()) == path.read_text()
    warnings = LogReader(job, LogChoice(level=LogLevel.WARN))
    assert "".join(warnings.read_last(1)) == "26/11/23 10:00:00 WARN é\n"
