"""What a task looks for, and what a retry finds; without Airflow, on drivers without Spark."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from flinkish.airflow import access
from flinkish.airflow.access import Access, Answer, JobLook, Looking, begin_stop, upgraded
from flinkish.client import Job, PendingSavepoint, Program
from flinkish.client.context import Context
from flinkish.client.program import pinned
from flinkish.client.wait_goals import Goal, Watch
from flinkish.errors import (
    AmbiguousJob,
    DriverLost,
    JobNotFound,
    RegistryError,
    RolledBack,
    WrongState,
)
from flinkish.launch.secret_settings import without_secrets
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.plan import Check, RestoreOutcome, RestorePlan
from flinkish.messages.requests import RequestResult
from flinkish.messages.upgrades import Health, Upgrade, UpgradeKind, UpgradeState
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, ProcessRef
from flinkish.registry.liveness import process_ref
from flinkish.upgrade import workflows
from flinkish.upgrade.target import Changes, NewVersion, target_launch
from tests.cli.commands.test_wait import JOB, QUERY, beats
from tests.cli.commands.test_wait import registry as registry
from tests.cli.conftest import PATIENCE, Command, wait_until
from tests.cli.conftest import cli as cli
from tests.cli.conftest import private as private
from tests.support.launcher_fakes import kill_processes

LOG = logging.getLogger(__name__)
HERE = Access()


@pytest.fixture
def context(cli: Command) -> Iterator[Context]:
    with HERE.context(LOG) as opened:
        yield opened


def until_answered(look: Callable[[], Answer | None]) -> Answer:
    """Look again and again, as a trigger does."""
    deadline = time.monotonic() + PATIENCE
    while (answer := look()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return answer


def test_no_secret_is_shown() -> None:
    hidden = Access("postgresql://me:hush@db/x", {"registry.password": "hush"})
    assert "hush" not in repr(hidden)


def test_another_process_uses_the_registry_of_this_one(private: Path) -> None:
    url = f"sqlite:///{private}/state/flinkish/registry.db"
    assert HERE.resolved() == Access(url)
    assert Access("jobs.db").resolved().registry == f"sqlite:///{private}/jobs.db"


def test_a_registry_is_waited_for_but_not_for_ever() -> None:
    now = 0.0
    errors: list[Exception | None] = []

    def look() -> Answer | None:
        error = errors.pop(0)
        if error is not None:
            raise error
        return None

    looking = Looking(look, lambda: now)
    away = RegistryError("it is away")
    for moment, error in ((0.0, away), (access.AWAY - 1, away), (access.AWAY, None), (1e4, away)):
        now = moment
        errors.append(error)
        assert looking.once() is None
    now += access.AWAY
    errors.append(away)
    assert looking.once() == {"error": away.to_record()}
    lost = JobNotFound("no job", hint="")
    errors.append(lost)
    assert looking.once() == {"error": lost.to_record()}, "it is no use to wait"


def test_idle_is_seen_across_looks_that_take_no_time(registry: Registry) -> None:
    look = JobLook(HERE, "rides", "idle")
    with beats(registry):
        assert look.once() is None
        assert until_answered(look.once) == {"job_id": JOB, "name": "rides", "state": "RUNNING"}
        assert JobLook(HERE, "rides", "idle").at_length() is not None


def test_a_look_lasts_longer_than_the_longest_trigger(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds: list[float | None] = []

    def wait_for(
        _context: Context, job: JobRecord, _goal: Goal, timeout: float, _watch: Watch
    ) -> JobRecord:
        seconds.append(timeout)
        return job

    monkeypatch.setattr(access, "wait_for", wait_for)
    registry.heartbeat(JOB, [QUERY, replace(QUERY, name="slow", trigger_interval=60.0)])
    look = JobLook(HERE, "rides", "idle")
    look.at_length()
    look.once()
    JobLook(HERE, "rides", "batch=9").at_length()
    assert seconds == [60.0 + 3 * 2.0, 0.0, 0.0]


def test_a_program_that_has_finished_by_then_has_run(cli: Command) -> None:
    job = cli.start("batch")
    assert JobLook(HERE, job, "running", launched=True).once() is not None
    with pytest.raises(WrongState):
        JobLook(HERE, job, "running").once()
    gone = "f" * 32
    with pytest.raises(JobNotFound):
        JobLook(HERE, gone, "ended", launched=True).once()
    assert JobLook(HERE, gone, "ended").once() is None, "a sensor waits for a job to come"


def test_a_savepoint_is_named_and_not_read(cli: Command, context: Context) -> None:
    job = Job.of(context, context.find_job(cli.start("serve")))
    pending = job.begin_savepoint("sp")
    wait_until(lambda: pending.is_done, "the savepoint")
    (saved,) = job.savepoints()
    shutil.rmtree(saved.path)
    assert HERE.look_at_savepoint(pending.request_id) == {"savepoint": saved.path}


def test_a_savepoint_of_a_lost_driver_fails(cli: Command, context: Context) -> None:
    job = Job.of(context, context.find_job(cli.start("deaf")))
    pending = job.begin_savepoint("sp")
    assert HERE.look_at_savepoint(pending.request_id) is None
    kill_processes(context.registry.job(job.job_id))
    with pytest.raises(DriverLost):
        until_answered(lambda: HERE.look_at_savepoint(pending.request_id))


def test_a_retry_of_a_stop(cli: Command, context: Context) -> None:
    job = cli.start("slow")

    def again(*, is_retry: bool) -> PendingSavepoint:
        return begin_stop(context, job, "sp", format="native", drain=False, is_retry=is_retry)

    first = again(is_retry=False)
    second = again(is_retry=True)
    assert second == first, "it waits for the first"
    wait_until(lambda: first.is_done, "the stop")
    (saved,) = context.registry.savepoints(job)
    assert HERE.look_at_savepoint(again(is_retry=True).request_id) == {"savepoint": saved.path}
    with pytest.raises(WrongState):
        again(is_retry=False)
    context.registry.restart(context.registry.job(job), "by an operator")
    context.registry.transition(job, JobState.RUNNING, "restarted")
    context.registry.transition(job, JobState.FAILED, "the driver was killed")
    with pytest.raises(WrongState):
        again(is_retry=True)  # the job ran on after the savepoint


@pytest.mark.parametrize("other", [None, "before", "since"])
def test_a_retry_of_a_stop_that_was_sent_before_the_job_ran(
    cli: Command, context: Context, other: str | None
) -> None:
    """Also if another run of that name fails at its start, before the stop or since."""
    cli.ok("list")
    failed = JobRecord("f" * 32, "n", JobState.INITIALIZING, 0.5, Launch("/b.py"))

    def fail(registry: Registry, moment: str) -> None:
        if other == moment:
            registry.add_job(failed)
            registry.transition(failed.job_id, JobState.FAILED, "a typo")

    with cli.registry() as registry:
        fail(registry, "before")
        job = JobRecord(JOB, "n", JobState.CREATED, 1.0, Launch("/a.py"), driver=process_ref())
        registry.add_job(job)
        begin = partial(begin_stop, context, "n", "sp", format="native", drain=False)
        first = begin(is_retry=False)
        registry.transition(job.job_id, JobState.RUNNING, "its queries started")
        assert begin(is_retry=True) == first
        registry.complete(first.request_id, RequestResult())
        registry.transition(job.job_id, JobState.FINISHED, "stopped")
        fail(registry, "since")
        if other == "since":
            with pytest.raises(AmbiguousJob):
                begin(is_retry=True)
            return
        assert begin(is_retry=True) == first


@pytest.fixture
def version(cli: Command) -> NewVersion:
    program = Program(arguments=("serve",), conf={"spark.my.password": "hush"})
    return NewVersion(changes=Changes(program), target=str(cli.directory / "sp"))


@pytest.fixture
def upgrade(cli: Command, context: Context, version: NewVersion) -> Upgrade:
    """The upgrade of an earlier try on another host, as its record."""
    job = context.find_job(cli.start("saving", "--name", "rides"))
    launch, _ = pinned(target_launch(job.launch, version.changes))
    begun = Upgrade(
        upgrade_id="0" * 32,
        job_id=job.job_id,
        name=job.name,
        state=UpgradeState.STOPPING,
        created=context.registry.now(),
        launch=without_secrets(launch),
        restore=RestoreSpec(""),
        target=str(cli.directory / "sp"),
        timeout=PATIENCE,
        health=Health(3, PATIENCE),
    )
    return context.registry.add_upgrade(begun, ProcessRef("another-host", 7, 7))


def retried(
    context: Context, version: NewVersion, since: float
) -> tuple[str | None, Exception | None]:
    result = upgraded(context, "rides", version, UpgradeKind.IN_PLACE, since=since)
    return result.job_id, result.failure


def test_a_retry_finishes_an_upgrade_once(
    cli: Command, context: Context, version: NewVersion, upgrade: Upgrade
) -> None:
    new, failure = retried(context, version, upgrade.created - 1)
    assert failure is None
    running = context.registry.job(str(new))
    assert (running.state, running.launch.arguments) == (JobState.RUNNING, ("serve",))
    assert retried(context, version, upgrade.created - 1) == (new, None)
    assert [each.new_job_id for each in context.registry.upgrades_of(running.job_id)] == [new]


def test_a_retry_fails_as_the_upgrade_did(
    context: Context, version: NewVersion, upgrade: Upgrade
) -> None:
    failure = WrongState("it broke").to_record()
    ended = replace(upgrade, state=UpgradeState.ROLLED_BACK, failure=failure)
    context.registry.save_upgrade(ended, ProcessRef("another-host", 7, 7))
    job, raised = retried(context, version, upgrade.created - 1)
    assert job == upgrade.job_id
    assert isinstance(raised, RolledBack)


@pytest.mark.parametrize("is_declared", [True, False])
def test_a_retry_tells_what_has_become_of_the_old_program(
    context: Context, version: NewVersion, upgrade: Upgrade, is_declared: bool
) -> None:
    """It runs again after the earlier try and fails; or its driver dies, and nobody has seen it."""
    old = context.registry.job(upgrade.job_id)
    dead = ProcessRef(process_ref().host, 4_194_304, 1)
    again = replace(old, job_id="1" * 32, supervisor=None, driver=dead, heartbeat=1.0)
    context.registry.add_job(again)
    lost = Check("rows-expired", RestoreOutcome.WARNING, "5 rows are gone", query="q")
    query = replace(QUERY, plan=RestorePlan(checks=(lost,)))
    context.registry.heartbeat(again.job_id, [query])
    if is_declared:
        context.registry.transition(again.job_id, JobState.FAILED, "it broke")
    failure = WrongState("it broke").to_record()
    state = UpgradeState.ROLLED_BACK
    ended = replace(upgrade, state=state, failure=failure, old_again_id=again.job_id)
    context.registry.save_upgrade(ended, ProcessRef("another-host", 7, 7))
    result = upgraded(
        context, upgrade.job_id, version, UpgradeKind.IN_PLACE, since=upgrade.created - 1
    )
    assert (result.job_id, type(result.failure)) == (None, WrongState)
    assert result.warnings == ["query 'q' of the old program: 5 rows are gone"]


def test_other_upgrades_are_not_those_of_an_earlier_try(
    context: Context, version: NewVersion, upgrade: Upgrade
) -> None:
    other = replace(version, changes=Changes(Program(arguments=("other",))))
    find = workflows.earlier_upgrade
    assert find(context, "rides", version, upgrade.created) == upgrade
    # The start of a DAG run whose task was cleared is later.
    assert find(context, upgrade.job_id, version, upgrade.created + 1) == upgrade
    assert find(context, "rides", other, upgrade.created) is None
    finished = context.registry.save_upgrade(
        replace(upgrade, state=UpgradeState.UPGRADED), ProcessRef("another-host", 7, 7)
    )
    assert find(context, "rides", version, upgrade.created) == finished
    assert find(context, "rides", version, upgrade.created + 1) is None
