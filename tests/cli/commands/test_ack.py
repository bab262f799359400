"""Failed jobs are reported until somebody acknowledges them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from flinkish.client.context import Context
from flinkish.client.listing import acknowledge, unacknowledged
from flinkish.client.reporter import SilentReporter
from flinkish.config import Config
from flinkish.errors import AmbiguousJob
from flinkish.messages.launch import Launch
from flinkish.registry.jobs import JobRecord, JobState
from tests.cli.conftest import Command


def add(cli: Command, digit: str, name: str, *states: JobState) -> str:
    with cli.registry() as registry:
        first, *rest = states
        job = JobRecord(digit * 32, name, first, 1.0, Launch("/app.py"))
        registry.add_job(job)
        for state in rest:
            failure = {"id": "program-failed", "message": "it broke"}
            registry.transition(
                job.job_id, state, failure=failure if state is JobState.FAILED else None
            )
    return job.job_id


RAN = (JobState.INITIALIZING, JobState.CREATED, JobState.RUNNING)


@pytest.fixture
def failed(cli: Command) -> Sequence[str]:
    """Two jobs that ran and failed; one that failed before it ran, and one that was canceled."""
    found = [add(cli, digit, f"job-{digit}", *RAN, JobState.FAILED) for digit in "ab"]
    add(cli, "c", "never", JobState.INITIALIZING, JobState.FAILED)
    add(cli, "d", "canceled", *RAN, JobState.CANCELLING, JobState.CANCELED)
    return found


def ids(cli: Command) -> list[str]:
    return cli.ok("list", "--failed", "-q").out.split()


def test_a_bracket_in_a_name_is_no_wildcard(cli: Command) -> None:
    """For those that are reported as for those that are listed."""
    job = add(cli, "a", "job [eu]", *RAN, JobState.FAILED)
    add(cli, "b", "job e", *RAN, JobState.FAILED)
    with Context(Config.load(), SilentReporter()) as context:
        for pattern in ("job [eu]", "job [*"):
            assert [each.job_id for each in unacknowledged(context, pattern)] == [job]
            assert cli.ok("list", "--failed", "--name", pattern, "-q").out.split() == [job]


def test_those_that_ran_and_failed_are_listed(cli: Command, failed: Sequence[str]) -> None:
    assert ids(cli) == failed
    assert ids(cli) == failed  # seeing them acknowledges nothing
    assert cli.ok("list", "--failed", "--name", "job-b", "-q").out.split() == [failed[1]]
    listed = cli.ok("list", "--failed", "--json").json()["jobs"]
    assert [job["state"] for job in listed] == ["FAILED", "FAILED"]
    for kind in ("--failed", "--stuck"):
        assert cli.ok("list", kind, "--name", "x").err == "No such jobs named x.\n"
    assert "2 jobs failed: job-a" in cli.ok("list").err
    assert cli.ok("list", "-q").err == ""


def test_a_name_of_two_failed_jobs_means_neither(cli: Command, failed: Sequence[str]) -> None:
    """Also while a third one of that name runs."""
    add(cli, "e", "job-a", *RAN, JobState.FAILED)
    with Context(Config.load(), SilentReporter()) as context:
        context.writable_registry.add_job(
            JobRecord("f" * 32, "job-a", JobState.CREATED, 1.0, Launch("/app.py"))
        )
        with pytest.raises(AmbiguousJob, match="'job-a' means 2 jobs"):
            acknowledge(context, ["job-a"])
        (job,) = acknowledge(context, [failed[0], failed[0][:8]])
    assert job.job_id == failed[0]


def test_one_is_acknowledged(cli: Command, failed: Sequence[str]) -> None:
    assert cli.ok("ack", "job-a").out == f"Acknowledged: job-a ({failed[0]}).\n"
    assert ids(cli) == [failed[1]]
    again = cli.ok("ack", failed[0])
    assert again.out == ""
    assert again.err == "Nothing to do: already acknowledged.\n"
    assert cli.ok("ack", failed[1][:6], "-q").out == f"{failed[1]}\n"
    assert ids(cli) == []
    assert "failed" not in cli.ok("list", "-a").err


def test_all_are_acknowledged(cli: Command, failed: Sequence[str]) -> None:
    done = cli.ok("ack", "--all", "--json").json()["jobs"]
    assert [job["job_id"] for job in done] == failed
    assert ids(cli) == []


def test_a_name_is_the_failed_job_while_its_successor_runs(
    cli: Command, failed: Sequence[str]
) -> None:
    cli.start("serve", "--name", "job-a")
    assert cli.ok("ack", "job-a", "-q").out == f"{failed[0]}\n"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("job-a", "canceled"), 13, "has not failed: it is CANCELED"),
        (("job-a", "nobody"), 10, "nobody"),
        ((), 2, "name at least one job, or use --all"),
        (("job-a", "--all"), 2, "name at least one job, or use --all"),
    ],
)
def test_nothing_is_acknowledged_by_mistake(
    cli: Command, failed: Sequence[str], words: tuple[str, ...], code: int, text: str
) -> None:
    result = cli("ack", *words)
    assert result.code == code
    assert text in result.err
    assert ids(cli) == failed
