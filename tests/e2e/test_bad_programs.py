"""Programs that cannot work: each with its reason at once, its exit code, and nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli.command import LIGHT, PROGRAMS, Flinkish

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("program", "code", "id_", "words"),
    [
        pytest.param("bad_syntax.py", 1, "program-failed", ["SyntaxError"], marks=pytest.mark.deep),
        ("dies.py", 1, "program-failed", ["ModuleNotFoundError", "a_module_that_does_not_exist"]),
        pytest.param(
            "connect.py", 4, "unsupported-session", ["Spark Connect"], marks=pytest.mark.deep
        ),
    ],
)
def test_run_says_why_a_program_died(
    flinkish: Flinkish, program: str, code: int, id_: str, words: list[str]
) -> None:
    path = PROGRAMS / program
    if program == "bad_syntax.py":  # not kept as a file: linters read every file
        path = flinkish.directory / program
        path.write_text("import sys\n\ndef broken(:\n    pass\n")
    result = flinkish("run", "-d", "--json", *LIGHT, str(path))
    assert result.code == code, result.err
    error = result.error()
    assert (error["id"], error["code"]) == (id_, code)
    for word in words:
        assert word in error["message"]
    assert error["hint"]
    (job,) = flinkish.ok("list", "-a", "--json").json()["jobs"]
    assert job["state"] == "FAILED"
    record = flinkish.job(job["job_id"])
    assert words[0] in record["state_history"][-1]["reason"]


@pytest.mark.deep
def test_a_batch_program_finishes_and_has_nothing_to_savepoint(
    flinkish: Flinkish, tmp_path: Path
) -> None:
    result = flinkish.ok("run", "-d", "-q", *LIGHT, str(PROGRAMS / "no_query.py"))
    job = result.out.strip()
    assert flinkish.job(job)["state"] == "FINISHED"
    assert "sum 4950" in flinkish.ok("logs", job).out
    failed = flinkish("savepoint", job, str(tmp_path))
    assert failed.code == 13
    assert "FINISHED" in failed.err


@pytest.mark.deep
def test_a_savepoint_of_a_batch_program_waits_for_queries_and_is_given_up_for_a_cancel(
    flinkish: Flinkish, tmp_path: Path
) -> None:
    job = flinkish.ok(
        "run", "-d", "-q", "--no-wait", *LIGHT, str(PROGRAMS / "no_query.py"), "60"
    ).out.strip()
    flinkish.wait(job, lambda r: r["spark_version"])
    late = flinkish("savepoint", job, str(tmp_path), "--timeout", "5s", "--json").error()
    assert late["code"] == 14
    assert "waiting for the program to start its queries" in late["message"]
    flinkish.ok("cancel", job)
    assert flinkish("request", "wait", late["request_id"]).code == 13
    assert flinkish.job(job)["state"] == "CANCELED"


def test_a_failed_query_fails_the_job_and_no_secret_is_shown(flinkish: Flinkish) -> None:
    """The program does not look at its query's error, and stops Spark before it ends."""
    failed = flinkish("run", "--json", *LIGHT, str(PROGRAMS / "fails_unseen.py"))
    assert failed.code == 1
    error = failed.error()
    assert error["id"] == "program-failed"
    assert "query 'q' failed: " in error["message"]
    assert "RuntimeError: cannot reach postgresql://bob:" in error["message"]
    (job,) = flinkish.ok("list", "-a", "--json").json()["jobs"]
    assert job["state"] == "FAILED"
    for command in (("status", job["job_id"], "--json"), ("status", job["job_id"])):
        shown = flinkish.ok(*command)
        assert "s3cret" not in shown.out + shown.err
    assert "s3cret" not in failed.err.splitlines()[-1]
