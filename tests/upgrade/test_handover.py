"""Handovers carried out, failed, interrupted at each step. Drivers are without Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flinkish.client.context import Context
from flinkish.client.restart_plan import plan_restart
from flinkish.errors import WrongState
from flinkish.messages.upgrades import Upgrade, UpgradeKind, UpgradeState
from flinkish.registry.jobs import JobState
from flinkish.upgrade.takeover import InPlaceUpgrade, resume, rollback
from tests.cli.conftest import Command
from tests.upgrade.test_takeover import ID, Killed, Mortal, alive, begun, new, state
from tests.upgrade.test_takeover import context as context


def handover(cli: Command, context: Context, mode: str, timeout: float = 60.0) -> Upgrade:
    upgrade = new(cli, context, mode, timeout)
    return replace(upgrade, state=UpgradeState.PREPARING, kind=UpgradeKind.HANDOVER)


def test_the_old_job_runs_until_the_new_program_is_ready(cli: Command, context: Context) -> None:
    left = begun(context, handover(cli, context, "serve"), Mortal)
    assert isinstance(left, Mortal)
    left.save = 2  # the new program is at its first query
    with pytest.raises(Killed):
        left.run()
    old, ready = (context.registry.job(str(each)) for each in alive(context))
    assert (old.job_id, old.state) == (left.upgrade.job_id, JobState.RUNNING)
    assert (ready.name, ready.state) == ("rides", JobState.CREATED)
    assert "restored from" not in cli.ok("status", ready.job_id).out

    done = resume(context, ID).run()
    assert done.state is UpgradeState.UPGRADED
    assert state(context, done.job_id) is JobState.FINISHED
    assert alive(context) == [ready.job_id] == [done.new_job_id]
    found = context.registry.job(ready.job_id)
    assert found.launch.restore is not None
    assert found.launch.restore.path == done.savepoint
    with pytest.raises(WrongState, match="does not wait for the savepoint"):
        context.registry.name_savepoint(ready.job_id, "/another")


def test_a_program_that_does_not_come_to_a_query(cli: Command, context: Context) -> None:
    done = begun(context, handover(cli, context, "die"), InPlaceUpgrade).run()
    assert done.state is UpgradeState.ABANDONED
    assert "No module named 'nothing'" in (done.failure or {})["message"]
    assert alive(context) == [done.job_id], "the old job was not touched"
    assert context.registry.requests(done.job_id) == []
    assert state(context, done.new_job_id).is_final
    assert context.registry.unacknowledged() == []


def test_a_program_that_is_not_well_after_the_switch(cli: Command, context: Context) -> None:
    done = begun(context, handover(cli, context, "broken"), InPlaceUpgrade).run()
    assert done.state is UpgradeState.ROLLED_BACK
    assert "ValueError: broken" in (done.failure or {})["message"]
    assert alive(context) == [done.old_again_id]


def test_a_job_that_cannot_be_saved_goes_on(cli: Command, context: Context) -> None:
    upgrade = handover(cli, context, "serve")
    cli.ok("cancel", upgrade.job_id)
    job = context.registry.job(cli.start("refuse", "--name", "rides"))
    done = begun(context, replace(upgrade, job_id=job.job_id), InPlaceUpgrade).run()
    assert done.state is UpgradeState.ABANDONED
    assert "memory sink" in (done.failure or {})["message"]
    assert alive(context) == [job.job_id], "the new program was ended"
    ended = context.registry.job(str(done.new_job_id))
    with pytest.raises(WrongState, match="was meant to take over from another job"):
        plan_restart(context, ended)


def test_a_job_that_somebody_else_stops_meanwhile_stays_stopped(
    cli: Command, context: Context
) -> None:
    """That stop is not the upgrade's, so the new program does not continue from its savepoint."""
    left = begun(context, handover(cli, context, "serve"), Mortal)
    assert isinstance(left, Mortal)
    left.save = 2  # the new program is at its first query
    with pytest.raises(Killed):
        left.run()
    cli.ok("stop", left.upgrade.job_id, "-p", str(cli.directory / "elsewhere"))
    done = resume(context, ID).run()
    assert (done.state, done.savepoint) == (UpgradeState.ABANDONED, None)
    assert "has already reached the terminal state FINISHED" in (done.failure or {})["message"]
    assert alive(context) == []


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("before", [False, pytest.param(True, marks=pytest.mark.deep)])
@pytest.mark.parametrize("save", range(1, 6))
def test_interrupted_at_each_record(
    cli: Command, context: Context, save: int, before: bool, back: bool
) -> None:
    left = begun(context, handover(cli, context, "serve"), Mortal)
    assert isinstance(left, Mortal)
    left.save, left.before = save, before
    with pytest.raises(Killed):
        left.run()
    done = (rollback if back else resume)(context, ID[:31]).run()
    (running,) = alive(context)
    if not back:
        assert (done.state, running) == (UpgradeState.UPGRADED, done.new_job_id)
    elif done.state is UpgradeState.ABANDONED:
        assert running == done.job_id, "the old job was not asked to stop yet"
        assert done.savepoint is None
    else:
        assert (done.state, running) == (UpgradeState.ROLLED_BACK, done.old_again_id)
        assert context.registry.job(running).launch.arguments == ("saving",)
