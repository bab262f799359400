"""Where exactly a restored query stops being the one that was saved."""

from __future__ import annotations

import pytest

from flinkish.registry.jobs import JobState
from flinkish.restore.plan.query_id import OtherRun, decide_query_id


@pytest.mark.parametrize("state", [JobState.FINISHED, JobState.CANCELED, JobState.FAILED])
def test_one_batch_more_is_another_history(state: JobState) -> None:
    """A sink has that batch under the old id, and would skip the new job's batch of its number."""
    went_on = OtherRun("a" * 32, state, 8)
    assert decide_query_id(8, [went_on], fork=False).keep
    branched = decide_query_id(7, [went_on], fork=False)
    assert not branched.keep
    assert "went on to batch 8 after batch 7" in branched.reason


def test_any_of_several_runs_decides() -> None:
    runs = [OtherRun("a" * 32, JobState.FINISHED, 7), OtherRun("b" * 32, JobState.FINISHED, 8)]
    assert not decide_query_id(7, runs, fork=False).keep
    assert decide_query_id(8, runs, fork=False).keep
