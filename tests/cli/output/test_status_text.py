"""One job in full, for people: the last batches of its queries."""

from __future__ import annotations

from dataclasses import replace

from flinkish.cli.output.status_text import render
from flinkish.client.listing import JobDescription
from flinkish.messages.launch import Launch
from flinkish.messages.queries import BatchRun, QueryStatus
from flinkish.registry.jobs import JobRecord, JobState

JOB = JobRecord("ab" * 16, "flights", JobState.RUNNING, 1e9, Launch(application="/a.py"))


def _lines(*queries: tuple[str, list[int]], width: int | None = None) -> list[str]:
    """The section of the batches, of queries whose batches have these numbers."""
    statuses = tuple(
        QueryStatus(
            name, "id", "run", "/cp",
            recent_batches=tuple(BatchRun(n, n / 10, 100 * n) for n in numbers),
        )
        for name, numbers in queries
    )  # fmt: skip
    lines = render(JobDescription(JOB, (), (), statuses, (), (), ()), width)
    if "LAST BATCHES" not in lines:
        return []
    after = lines[lines.index("LAST BATCHES") + 1 :]
    return [line.strip() for line in after[: after.index("") if "" in after else None]]


def test_batches_are_drawn_beside_their_numbers() -> None:
    head, first, second = _lines(("q", [0, 10, 20, 70]), ("r", [3, 4]))
    assert head.split() == [
        "NAME",
        "BATCHES",
        "SECONDS",
        *["LAST", "MOST", "ROWS"],
        *head.split()[6:],
    ]
    assert first.split("  ")[0] == "q"
    assert "4 of 0 to 70" in first, "heartbeats have not seen each"
    assert "▁▂▃█" in first
    assert first.split()[-3:] == ["▁▂▃█", "7000", "7000"]
    assert "3 to 4" in second
    assert "of 3" not in second


def test_one_batch_cannot_be_compared() -> None:
    assert _lines(("q", [3])) == []
    assert _lines(("q", [])) == []
    assert len(_lines(("q", [3]), ("r", [1, 2]))) == 2


def test_a_narrow_terminal_has_fewer_bars() -> None:
    numbers = list(range(1, 31))
    assert "1 to 30" in _lines(("q", numbers))[1]
    narrow = _lines(("q", numbers), width=80)[1]
    assert "19 to 30" in narrow
    assert len(narrow) <= 78


def test_no_query_of_a_job_that_has_ended_is_shown_as_running() -> None:
    query = QueryStatus(
        "q", "id", "run", "/cp",
        active=True, input_rows_per_second=5.0, processed_rows_per_second=7.0,
    )  # fmt: skip
    states = []
    for state in (JobState.RUNNING, JobState.FAILED):
        job = replace(JOB, state=state)
        lines = render(JobDescription(job, (), (), (query,), (), (), ()))
        states.append(lines[lines.index("QUERIES") + 2].split())
    assert states == [
        ["q", "running", "-", "-", "5.0", "7.0", "-", "id"],
        ["q", "lost", "-", "-", "-", "-", "-", "id"],
    ]
