"""The table of job states, written down a second time: Flink's ``JobStatus``, and its diagram."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from flinkish.errors import WrongState
from flinkish.messages.launch import Launch
from flinkish.registry.job_registry import Registry, new_job_id
from flinkish.registry.jobs import ACTIVE_STATES, FINAL_STATES, JobRecord, JobState, may_follow

#: JobStatus.isGloballyTerminalState of Flink.
FINAL = {JobState.FAILED, JobState.CANCELED, JobState.FINISHED}
#: From each state that is not final: where it cannot go.
NEVER = {
    JobState.INITIALIZING: "RUNNING FINISHED RESTARTING SUSPENDED",
    JobState.CREATED: "INITIALIZING RESTARTING SUSPENDED",
    JobState.RUNNING: "INITIALIZING CREATED",
    JobState.FAILING: "INITIALIZING CREATED RUNNING FINISHED SUSPENDED",
    JobState.CANCELLING: "INITIALIZING CREATED RUNNING FAILING RESTARTING SUSPENDED",
    JobState.RESTARTING: "INITIALIZING FINISHED",
    JobState.SUSPENDED: "INITIALIZING CREATED FAILING FINISHED",
}


def test_a_final_state_is_never_left() -> None:
    assert FINAL_STATES == FINAL
    assert not any(may_follow(old, new) for old, new in product(FINAL, JobState))
    assert {state for state in JobState if state.is_final} == FINAL
    assert set(JobState) - FINAL == ACTIVE_STATES == set(NEVER)


@pytest.mark.parametrize("old", NEVER)
def test_what_follows_a_state(old: JobState) -> None:
    never = {JobState(name) for name in NEVER[old].split()}
    assert {new for new in JobState if not may_follow(old, new)} - {old} == never


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_registry_keeps_a_final_state(tmp_path: Path, state: JobState) -> None:
    job = JobRecord(new_job_id(), "job", JobState.RUNNING, 1.0, Launch("app.py"))
    with Registry.open(str(tmp_path / "registry.db")) as registry:
        registry.add_job(job)
        registry.transition(job.job_id, state)
        for new in set(JobState) - {state}:
            with pytest.raises(WrongState):
                registry.transition(job.job_id, new)
        assert registry.job(job.job_id).state is state
