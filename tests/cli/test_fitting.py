"""On a terminal of 80 columns nothing wraps; in a pipe nothing is shortened."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from flinkish.messages.launch import Launch
from flinkish.messages.queries import BatchRun, OperatorStatus, QueryStatus
from flinkish.messages.requests import SavepointArguments, SavepointSummary
from flinkish.registry.jobs import JobRecord, JobState, Request, RequestKind, RequestState
from flinkish.registry.liveness import process_ref
from flinkish.units import width_of
from tests.cli.conftest import Command
from tests.cli.test_terminal_escapes import on_a_terminal
from tests.support.savepoint.small_savepoints import make_savepoint

JOB = "ab" * 16
REQUEST = "cd" * 16
QUERY = "11111111-2222-3333-4444-555555555555"
NAME = "delays-by-airport-and-carrier-of-the-whole-year"
SENTENCE = "it broke because of something that takes a long sentence to be explained at all"
DEEP = "/data/of/this/cluster/below/many/directories"


@pytest.fixture
def savepoints(cli: Command) -> str:
    """A job with long names and paths in everything, and a directory of savepoints."""
    now = time.time()
    launch = Launch(application=f"{DEEP}/programs/delays_by_airport.py")
    with cli.registry() as registry:
        for job_id, name in ((JOB, NAME), ("ef" * 16, "中文" * 20)):
            registry.add_job(
                JobRecord(
                    job_id, name, JobState.INITIALIZING, now, launch, supervisor=process_ref(),
                    log_path=f"{DEEP}/logs/{JOB}.log", checkpoint_dir=f"{DEEP}/checkpoints/{JOB}",
                )
            )  # fmt: skip
            registry.transition(job_id, JobState.CREATED, SENTENCE)
            registry.transition(job_id, JobState.RUNNING)
        registry.heartbeat(
            JOB,
            [
                QueryStatus(
                    NAME, QUERY, "r", "/cp", batch_id=123_456,
                    watermark="2026-11-23T10:00:00.000Z", input_rows_per_second=12345.6,
                    state_rows=123_456_789, notes=(SENTENCE,),
                    recent_batches=tuple(BatchRun(n, n / 3, 10**8 * n) for n in range(40)),
                    operators=(OperatorStatus(0, "flatMapGroupsWithState", "counts", "a", 5),),
                )
            ],
        )  # fmt: skip
        path = f"{DEEP}/savepoints/savepoint-ababab-0123456789ab"
        registry.add_savepoint(SavepointSummary(path, JOB, now, "native", 10**9, 12345, 1.0))
        registry.record_request(
            Request(
                REQUEST, JOB, RequestKind.SAVEPOINT, RequestState.FAILED, now,
                SavepointArguments("/sp"), finished=now, error={"id": "x", "message": SENTENCE},
            )
        )  # fmt: skip
    directory = cli.directory / "savepoints"
    make_savepoint(str(directory), now, name=NAME)
    return str(directory)


@pytest.mark.parametrize(
    ("words", "whole", "shown"),
    [
        (("list",), [JOB], ["RUNNING", "123456"]),
        (("list", "--state", "running"), [JOB], ["RUNNING", "123456"]),
        (("status", JOB), [JOB, REQUEST], ["NAME", "123456789", "delays_by_airport.py", "▇███"]),
        (("savepoint", "list", "DIR"), [], ["complete", "SIZE"]),
    ],
    ids=str,
)
def test_nothing_wraps(
    cli: Command,
    monkeypatch: pytest.MonkeyPatch,
    savepoints: str,
    words: Sequence[str],
    whole: Sequence[str],
    shown: Sequence[str],
) -> None:
    words = [savepoints if word == "DIR" else word for word in words]
    piped = cli.ok(*words).out
    assert NAME in piped
    assert "…" not in piped
    assert max(map(width_of, piped.splitlines())) > 80
    monkeypatch.setenv("COLUMNS", "80")
    assert cli.ok(*words).out == piped, "COLUMNS says nothing of a pipe"
    drawn = on_a_terminal(*words)
    assert "…" in drawn
    assert max(map(width_of, drawn.splitlines())) <= 80
    assert [word for word in [*whole, *shown] if word not in drawn] == []
    if words[0] == "status":
        assert SENTENCE in " ".join(drawn.split()), "sentences are folded, not cut"
    monkeypatch.setenv("COLUMNS", "400")
    assert on_a_terminal(*words) == piped


def test_status_is_redrawn_until_the_job_ends(
    cli: Command, monkeypatch: pytest.MonkeyPatch, savepoints: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with cli.registry() as registry:
        registry.transition(JOB, JobState.FAILED, "it broke", failure={"message": "it broke"})
    text = on_a_terminal("status", "--watch", JOB)
    assert text.startswith("\x1b[?25l")
    assert text.endswith("\n\x1b[?25h")
    # Drawn once, and once more by rich when it ends: the job has ended, there is no second look.
    assert text.count("(Ctrl-C to leave)") == 2
    last = text.removesuffix("\x1b[?25h").rpartition("\x1b[2K")[2]
    assert last.splitlines()[0].endswith("(Ctrl-C to leave)")
    assert SENTENCE in " ".join(last.split())
    assert cli.ok("status", "--watch", JOB).out == cli.ok("status", JOB).out
    assert cli.ok("status", "--watch", "-q", JOB).out == "FAILED\n"
    assert cli("status", "--watch", "--json", JOB).code == 2
