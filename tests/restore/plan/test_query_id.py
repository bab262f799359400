"""Where exactly a restored query stops being the one that was saved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.messages.queries import QueryStatus
from flinkish.registry.jobs import JobState
from flinkish.restore.plan.query_id import OtherRun, decide_query_id, newest_batch, newest_begun
from tests.support.checkpoints.handwritten import QUERY_ID, CheckpointLikeness


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


def test_the_log_of_another_query_in_the_same_directory_does_not_count(tmp_path: Path) -> None:
    checkpoint = CheckpointLikeness(tmp_path / "c").run_to(5)
    checkpoint.plan(6)
    status = replace(QueryStatus("q", QUERY_ID, "run", str(checkpoint.root)), batch_id=3)
    assert (newest_batch(status, QUERY_ID), newest_begun(status, QUERY_ID)) == (5, 6)
    earlier = "0" * 8 + QUERY_ID[8:]  # its directory was deleted, and another query began there
    assert (newest_batch(status, earlier), newest_begun(status, earlier)) == (3, None)
    gone = replace(status, checkpoint_dir=str(tmp_path / "gone"))
    assert (newest_batch(gone, QUERY_ID), newest_begun(gone, QUERY_ID)) == (3, None)
