"""How a job has started; waiting itself is proven in tests/cli/test_lifecycle.py."""

from __future__ import annotations

import pytest

from flinkish.client.waiting import Start
from flinkish.messages.plan import QueryRow, RestorePlan


@pytest.mark.parametrize(
    ("plan", "notes", "further"),
    [
        (None, ["a"], ["a"]),
        (RestorePlan(), ["a"], ["a"]),
        (RestorePlan(queries=(QueryRow("q", notes=("a",)),)), ["a", "b"], ["b"]),
        # The job has another query, which was not restored: its notes name the query.
        (RestorePlan(queries=(QueryRow("q", notes=("a",)),)), ["query 'q': a", "b"], ["b"]),
    ],
)
def test_notes_of_the_plan_are_not_repeated(
    plan: RestorePlan | None, notes: list[str], further: list[str]
) -> None:
    assert Start(plan, notes).further_notes == further
