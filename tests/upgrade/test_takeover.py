"""Upgrades in place carried out, failed, interrupted at each step. Drivers are without Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinkish.client.context import Context
from flinkish.client.waiting import look
from flinkish.config import MASK, Config
from flinkish.errors import (
    ConsentNeeded,
    DriverLost,
    FlinkishError,
    Locked,
    NoCommittedBatch,
    UsageError,
    WrongState,
)
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import (
    LeftOut,
    RequestResult,
    SavedQuery,
    SavepointArguments,
    SavepointSummary,
)
from flinkish.messages.restore_options import RestoreOptions
from flinkish.messages.upgrades import Health, Upgrade, UpgradeKind, UpgradeState
from flinkish.registry.jobs import JobRecord, JobState, ProcessRef, RequestKind
from flinkish.registry.liveness import LAUNCH_GRACE, process_ref
from flinkish.upgrade.execution import Execution
from flinkish.upgrade.preparation import Secrets, prepare
from flinkish.upgrade.shadow import ShadowUpgrade
from flinkish.upgrade.takeover import InPlaceUpgrade, resume, rollback
from flinkish.upgrade.target import Changes, NewVersion
from flinkish.upgrade.workflows import _finished
from tests.cli.conftest import Command, wait_until
from tests.client.conftest import Told
from tests.support.launcher_fakes import kill_processes
from tests.upgrade.test_steps import UPGRADE

ID = "0" * 31 + "1"
#: A process of this host that is gone.
GONE = ProcessRef(os.uname().nodename, 4_194_304, 1)


class Killed(BaseException):
    """Stands for the death of the process."""


class Dying(Execution):
    """Dies at its ``save``-th record: before it is written, or right after."""

    save, before = 0, False

    def _save(self, **changes: Any) -> None:
        self.save -= 1
        if self.save == 0 and self.before:
            raise Killed
        super()._save(**changes)
        if self.save == 0:
            raise Killed


class Mortal(Dying, InPlaceUpgrade):
    """An upgrade in place of which the process dies."""


@pytest.fixture
def context(cli: Command, told: Told) -> Iterator[Context]:
    with Context(Config.load(), told) as opened:
        yield opened


def new(cli: Command, context: Context, mode: str, timeout: float = 60.0) -> Upgrade:
    """An upgrade of a job that runs to a program that behaves as ``mode`` says."""
    job = context.writable_registry.job(cli.start("saving", "--name", "rides"))
    return Upgrade(
        upgrade_id=ID,
        job_id=job.job_id,
        name=job.name,
        state=UpgradeState.STOPPING,
        created=context.registry.now(),
        launch=replace(job.launch, arguments=(mode,)),
        restore=RestoreSpec(""),
        target=str(cli.directory / "savepoints"),
        timeout=60.0,
        health=Health(3, timeout),
    )


def begun(context: Context, upgrade: Upgrade, cls: type[Execution]) -> Execution:
    added = context.registry.add_upgrade(upgrade, GONE)
    return cls(context, added, GONE, Secrets())


def state(context: Context, job_id: str | None) -> JobState:
    assert job_id is not None
    return context.registry.job(job_id).state


def alive(context: Context) -> list[str]:
    """The jobs that have not ended."""
    return [job.job_id for job in context.registry.jobs() if not job.state.is_final]


def test_a_program_that_is_well(cli: Command, context: Context) -> None:
    done = begun(context, new(cli, context, "serve"), InPlaceUpgrade).run()
    assert done.state is UpgradeState.UPGRADED
    assert done.ended is not None
    assert state(context, done.job_id) is JobState.FINISHED
    assert alive(context) == [done.new_job_id]
    found = context.registry.job(str(done.new_job_id))
    assert found.name == "rides"
    assert found.launch.restore is not None
    assert found.launch.restore.path == done.savepoint
    assert [each.upgrade_id for each in context.registry.upgrades_of(found.job_id)] == [ID]
    with pytest.raises(WrongState, match="is finished"):
        rollback(context, ID)


def test_a_program_that_ends_with_its_input_is_well(cli: Command, context: Context) -> None:
    """Also if that took fewer batches than were asked for."""
    done = begun(context, new(cli, context, "brief"), InPlaceUpgrade).run()
    assert done.state is UpgradeState.UPGRADED
    assert state(context, done.new_job_id) is JobState.FINISHED
    assert alive(context) == []


@pytest.mark.parametrize(
    ("mode", "timeout", "why"),
    [
        ("die", 60.0, "No module named 'nothing'"),
        ("broken", 60.0, "ValueError: broken"),
        ("stuck", 4.0, "has committed 0 of 3 batches"),
        (
            "hasty",
            60.0,
            "the new program ended while its queries ran, and query 'counts' has committed",
        ),
        pytest.param(
            *("silent", 0.5, "has not started its queries within 0.5 s"), marks=pytest.mark.deep
        ),
    ],
)
def test_a_program_that_is_not(
    cli: Command, context: Context, mode: str, timeout: float, why: str
) -> None:
    done = begun(context, new(cli, context, mode, timeout), InPlaceUpgrade).run()
    assert done.state is UpgradeState.ROLLED_BACK
    assert why in (done.failure or {})["message"]
    assert state(context, done.new_job_id).is_final
    assert alive(context) == [done.old_again_id]
    again = context.registry.job(str(done.old_again_id))
    assert again.name == "rides"
    assert again.launch.arguments == ("saving",)
    assert again.launch.restore == RestoreSpec(
        str(done.savepoint), RestoreOptions(sink_ahead="rebase", accept_lost_rows=True)
    )
    assert context.registry.unacknowledged() == [], "this command has told it"


def test_what_a_program_had_committed_is_known_although_its_checkpoint_is_gone(
    cli: Command, context: Context
) -> None:
    job = JobRecord("b" * 32, "rides", JobState.RUNNING, 1.0, Launch("/a.py"))
    registry = context.writable_registry
    registry.add_job(job)
    registry.heartbeat(job.job_id, [QueryStatus("q", "i", "r", "/gone", batch_id=4)])
    registry.transition(job.job_id, JobState.FAILED)
    upgrade = replace(UPGRADE, upgrade_id=ID, state=UpgradeState.ENDING, new_job_id=job.job_id)
    execution = begun(context, upgrade, InPlaceUpgrade)
    execution._end()
    assert execution.upgrade.committed == {"q": (0, 4)}


@pytest.mark.parametrize(
    ("supervisor", "later", "exit_status", "is_cut_off"),
    [
        (None, (), None, True),  # it has not got one, and may still get one
        (GONE, (), None, True),
        (GONE, (JobState.FAILED,), None, True),
        (GONE, (JobState.FAILED,), -9, False),  # its driver was killed
        (GONE, (JobState.CREATED, JobState.RUNNING, JobState.FAILED), None, False),
        (process_ref(), (), None, False),
    ],
)
def test_a_launch_that_was_cut_off_is_no_failure_of_the_program(
    cli: Command,
    context: Context,
    monkeypatch: pytest.MonkeyPatch,
    supervisor: ProcessRef | None,
    later: tuple[JobState, ...],
    exit_status: int | None,
    is_cut_off: bool,
) -> None:
    registry = context.writable_registry
    started = registry.now() - (LAUNCH_GRACE - 0.3 if supervisor is None else 0.0)
    job = JobRecord("b" * 32, "rides", JobState.INITIALIZING, started, Launch("/a.py"))
    registry.add_job(job)
    registry.update_job(job.job_id, supervisor=supervisor)
    for state in later:
        lost = DriverLost("gone").to_record() if state is JobState.FAILED else None
        registry.transition(job.job_id, state, failure=lost, exit_status=exit_status)
    upgrade = replace(UPGRADE, upgrade_id=ID, state=UpgradeState.STARTING, new_job_id=job.job_id)
    execution = begun(context, upgrade, InPlaceUpgrade)
    launched: list[str] = []

    def launch(job_id: str, *_: object) -> JobRecord:
        launched.append(job_id)
        return replace(job, job_id=job_id)

    monkeypatch.setattr(execution, "_launched", launch)
    execution._new_job(RestoreSpec("/sp"))
    assert launched == [registry.upgrade(ID)[0].new_job_id]
    assert (launched != [job.job_id]) is is_cut_off


def test_a_job_that_cannot_be_saved_goes_on(cli: Command, context: Context) -> None:
    upgrade = new(cli, context, "serve")
    cli.ok("cancel", upgrade.job_id)
    job = context.registry.job(cli.start("refuse", "--name", "rides"))
    done = begun(context, replace(upgrade, job_id=job.job_id), InPlaceUpgrade).run()
    assert done.state is UpgradeState.ABANDONED
    assert "memory sink" in (done.failure or {})["message"]
    assert alive(context) == [job.job_id]


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize(
    ("save", "before"),
    [
        *((save, False) for save in range(1, 5)),
        (2, True),  # the stop is not recorded yet
        *(pytest.param(save, True, marks=pytest.mark.deep) for save in (1, 3, 4)),
    ],
)
def test_interrupted_at_each_record(
    cli: Command, context: Context, save: int, before: bool, back: bool
) -> None:
    left = begun(context, new(cli, context, "serve"), Mortal)
    assert isinstance(left, Mortal)
    left.save, left.before = save, before
    with pytest.raises(Killed):
        left.run()
    with pytest.raises(Locked, match="is not finished"):
        context.registry.add_upgrade(replace(left.upgrade, upgrade_id="f" * 32), GONE)
    if save in (2, 3) and not before:  # no job of the name runs
        assert alive(context) == []
        old = left.upgrade.job_id
        for words in (
            cli.run_words("serve", "-d", "--name", "rides"),
            cli.run_words("serve", "-d", "--name", "rides", "--resume"),
            ["restart", old],
            ["restart", old, "--from", str(left.upgrade.savepoint)],
        ):
            refused = cli(*words)
            assert refused.code == Locked.code, words
            assert f"flinkish upgrade resume {ID}" in refused.err
        assert alive(context) == []
    done = (rollback if back else resume)(context, ID[:31]).run()
    (running,) = alive(context)
    if not back:
        assert (done.state, running) == (UpgradeState.UPGRADED, done.new_job_id)
        return
    if save == 1:  # the old job was not asked to stop yet
        assert (done.state, running) == (UpgradeState.ABANDONED, done.job_id)
        return
    assert done.state is UpgradeState.ROLLED_BACK
    assert running == done.old_again_id
    assert context.registry.job(running).launch.arguments == ("saving",)


@pytest.mark.parametrize("before", [False, pytest.param(True, marks=pytest.mark.deep)])
@pytest.mark.parametrize("save", [4, 5, 6])
def test_interrupted_on_the_way_back(
    cli: Command, context: Context, save: int, before: bool
) -> None:
    left = begun(context, new(cli, context, "die"), Mortal)
    assert isinstance(left, Mortal)
    left.save, left.before = save, before
    with pytest.raises(Killed):
        left.run()
    done = resume(context, ID).run()
    assert done.state is UpgradeState.ROLLED_BACK
    assert alive(context) == [done.old_again_id]


@pytest.mark.parametrize("is_canceled", [False, True])
def test_an_old_program_that_has_run_again_is_not_started_twice(
    cli: Command, context: Context, told: Told, is_canceled: bool
) -> None:
    left = begun(context, new(cli, context, "die"), Mortal)
    assert isinstance(left, Mortal)
    left.save, left.before = 7, True  # the old program runs, which is not recorded
    with pytest.raises(Killed):
        left.run()
    again = str(left.upgrade.old_again_id)
    if is_canceled:
        cli.ok("cancel", again)
    else:
        kill_processes(context.registry.job(again))
        wait_until(
            lambda: look(context, context.registry.job(again)).state.is_final, "its processes' end"
        )
    result = _finished(context, (resume if is_canceled else rollback)(context, ID))
    assert (result.upgrade.state, result.job_id) == (UpgradeState.ROLLED_BACK, None)
    assert result.failure is not None
    assert f"flinkish restart {again}" in result.failure.hint
    assert alive(context) == []
    assert f"flinkish restart {again}" in told.warnings[-1]


@pytest.mark.parametrize("ended", [JobState.FAILED, JobState.CANCELED])
def test_an_old_program_that_has_not_run_again_is_started(
    cli: Command, context: Context, ended: JobState
) -> None:
    left = begun(context, new(cli, context, "die"), Mortal)
    assert isinstance(left, Mortal)
    left.save = 6  # its next job is recorded, and has not been started
    with pytest.raises(Killed):
        left.run()
    never = replace(
        context.registry.job(left.upgrade.job_id),
        job_id=str(left.upgrade.old_again_id),
        state=JobState.CREATED,
        supervisor=None,
        driver=None,
        launch=replace(left.upgrade.launch, restore=RestoreSpec(str(left.upgrade.savepoint))),
        end_time=None,
    )
    context.writable_registry.add_job(never)
    context.registry.transition(never.job_id, ended, "before it ran")
    done = rollback(context, ID).run()
    assert done.state is UpgradeState.ROLLED_BACK
    assert never.job_id != done.old_again_id
    assert alive(context) == [done.old_again_id]


class Launching(InPlaceUpgrade):
    """An upgrade of which the process dies when it starts the old program again."""

    def _launched(self, job_id: str, launch: Launch, spec: RestoreSpec) -> JobRecord:
        self.spec = spec
        raise Killed


def test_queries_that_the_savepoint_leaves_out_do_not_stop_a_rollback(
    cli: Command, context: Context
) -> None:
    """They had not begun, so the old program has no state of them to lose."""
    cli.ok("list")
    registry = context.writable_registry
    job = JobRecord(UPGRADE.job_id, "rides", JobState.CREATED, 1.0, Launch("/app.py"))
    registry.add_job(job)
    stop = registry.submit(job.job_id, RequestKind.STOP, SavepointArguments("/sp"))
    never = LeftOut("b", "its turn in the pipeline has not come", pending=True)
    registry.complete(stop.request_id, RequestResult(left_out=(never,)))
    registry.transition(job.job_id, JobState.FINISHED, "stopped")
    stopped = replace(
        UPGRADE, state=UpgradeState.RETURNING, savepoint="/sp/s", request_id=stop.request_id
    )
    left = begun(context, stopped, Launching)
    assert isinstance(left, Launching)
    with pytest.raises(Killed):
        left.run()
    assert left.spec.options.allow_non_restored


def test_state_that_the_job_has_not_taken_stops_an_upgrade(cli: Command, context: Context) -> None:
    """Neither its savepoint nor a rollback would have it."""
    cli.ok("list")
    registry = context.writable_registry
    launch = Launch("/app.py", restore=RestoreSpec("/sp/s"))
    job = JobRecord(ID, "rides", JobState.CREATED, 1.0, launch)
    registry.add_job(job)
    saved = tuple(SavedQuery(name, 7, name) for name in "ab")
    registry.add_savepoint(SavepointSummary("/sp/s", "f" * 32, 1.0, "native", 1, 1, 0.1, saved))
    registry.heartbeat(ID, [QueryStatus("a", "a", "r", "/gone", batch_id=8)])
    registry.transition(ID, JobState.RUNNING, "query 'a' started")
    job = registry.job(ID)
    version = NewVersion(changes=Changes(), target="/sp")
    with pytest.raises(ConsentNeeded, match=r"would lack query 'b'.* its state is in /sp/s"):
        prepare(context, job, version, UpgradeKind.IN_PLACE)
    for kind, options in (
        (UpgradeKind.IN_PLACE, RestoreOptions(allow_non_restored=True)),
        (UpgradeKind.SHADOW, RestoreOptions()),
    ):
        with pytest.raises(NoCommittedBatch):  # what is checked next
            prepare(context, job, replace(version, restore=options), kind)
    registry.heartbeat(ID, [QueryStatus("b", "b", "r", "/gone", batch_id=8)])
    with pytest.raises(NoCommittedBatch):
        prepare(context, job, version, UpgradeKind.IN_PLACE)


def test_a_job_that_was_not_asked_to_stop_is_left_alone(cli: Command, context: Context) -> None:
    upgrade = new(cli, context, "serve")
    context.registry.add_upgrade(upgrade, GONE)
    done = rollback(context, ID).run()
    assert done.state is UpgradeState.ABANDONED
    assert alive(context) == [upgrade.job_id]


def test_a_program_that_could_not_be_started_has_no_job(context: Context) -> None:
    """Its id was recorded before."""
    never = replace(UPGRADE, state=UpgradeState.ENDING, kind=UpgradeKind.SHADOW, new_job_id=ID)
    done = begun(context, never, ShadowUpgrade).run()
    assert (done.state, done.new_job_id) == (UpgradeState.ABANDONED, None)


def test_a_process_that_is_at_work_is_not_disturbed(cli: Command, context: Context) -> None:
    upgrade = new(cli, context, "serve")
    mine = process_ref()
    recorded = context.registry.add_upgrade(upgrade, mine)
    with pytest.raises(Locked, match=f"by process {mine.pid}"):
        resume(context, ID)
    elsewhere = context.registry.save_upgrade(recorded, ProcessRef("another-host", 1, 1))
    with pytest.raises(Locked) as refused:
        resume(context, ID)
    assert "--force" in refused.value.hint
    first = resume(context, ID, force=True)
    with pytest.raises(Locked, match="another process has taken over"):
        context.registry.save_upgrade(elsewhere, GONE)
    context.registry.save_upgrade(first.upgrade, GONE)
    with pytest.raises(Locked, match="another process has taken over"):
        first.run()


def test_secrets_have_to_be_given_again(cli: Command, context: Context) -> None:
    upgrade = new(cli, context, "serve")
    masked = replace(upgrade.launch, conf={"spark.my.password": "******"})
    context.registry.add_upgrade(replace(upgrade, launch=masked), GONE)
    with pytest.raises(UsageError, match="the job's secrets"):
        resume(context, ID)
    left = resume(context, ID, Secrets({"spark.my.password": "open sesame"}))
    done = left.run()
    assert done.state is UpgradeState.UPGRADED
    for path in Path(cli.directory, "state").rglob("registry.db*"):
        assert b"open sesame" not in path.read_bytes()


def test_secrets_are_only_given_where_one_is_missing() -> None:
    """The settings of the new program are not those of the old one, which may come back."""
    given = Secrets({"spark.x": "new", "spark.my.password": "open"}, ["--token=abc"])
    old = Launch("/app.py", conf={"spark.x": "old", "spark.my.password": MASK})
    assert given.given_to(old).conf == {"spark.x": "old", "spark.my.password": "open"}
    assert given.given_to(old).secret_arguments == ()
    masked = replace(old, secret_arguments=(MASK,))
    assert given.given_to(masked).secret_arguments == ("--token=abc",)
    with pytest.raises(UsageError, match="was started with 2 secret arguments, not 1"):
        given.given_to(replace(old, secret_arguments=(MASK, MASK)))


def test_the_old_program_does_not_come_back(cli: Command, context: Context) -> None:
    upgrade = new(cli, context, "die")
    left = begun(context, upgrade, Mortal)
    assert isinstance(left, Mortal)
    left.save = 5
    with pytest.raises(Killed):
        left.run()
    saved = Path(str(left.upgrade.savepoint))
    away = saved.rename(saved.with_name("away"))
    with pytest.raises(FlinkishError, match="no savepoint at"):
        rollback(context, ID).run()
    away.rename(saved)
    recorded, _ = context.registry.upgrade(ID)
    assert recorded.state is UpgradeState.RETURNING
    context.registry.save_upgrade(recorded, GONE)
    # Another way than the one that failed, and that may be interrupted too.
    again = rollback(context, ID, sink_ahead="accept")
    context.registry.save_upgrade(again.upgrade, GONE)
    done = resume(context, ID).run()
    assert done.state is UpgradeState.ROLLED_BACK
    assert done.old_again_id is not None
    restored = context.registry.job(done.old_again_id).launch.restore
    assert restored is not None
    assert restored.options.sink_ahead == "accept"
