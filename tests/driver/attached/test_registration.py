"""Which ended job a program goes on from that its launcher starts again, and how it is recorded."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.driver.attached import registration
from flinkish.driver.attached.patient_registry import PatientRegistry
from flinkish.driver.attached.registration import (
    check_recognizable,
    earlier_job,
    goes_on_from,
    registered,
)
from flinkish.driver.attached.request import Arguments, attach_request
from flinkish.driver.requests.agent import Agent
from flinkish.errors import Locked, RegistryError, UsageError
from flinkish.launch.restoring import RECOVERY_PATH
from flinkish.messages.launch import ExternalLauncher, Launch, RestoreSpec
from flinkish.messages.plan import QueryRow, RestorePlan
from flinkish.messages.queries import QueryStatus
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, ProcessRef
from flinkish.registry.sqlite import SqliteDatabase
from tests.support.savepoint.small_savepoints import make_savepoint

EXTERNAL = ExternalLauncher("python", "0.1.0")
PLAIN = Launch("/app.py", external=EXTERNAL, named=True)
RESTORED = replace(PLAIN, restore=RestoreSpec("/sp/1"))
OTHER = replace(PLAIN, restore=RestoreSpec("/sp/2"))
#: The link that the program named led to /sp/1, then to /sp/2, then nowhere.
LATEST = replace(RESTORED, options={RECOVERY_PATH: "latest"}, working_directory="/sp")
AGAIN = replace(LATEST, restore=RestoreSpec("/sp/2"), options={RECOVERY_PATH: "/sp/latest"})
GONE = replace(AGAIN, restore=RestoreSpec("/sp/latest"))
#: A notebook, restored, that has no name.
NOTEBOOK = replace(RESTORED, application=None, module="notebook", named=False)
OURS = Launch("/app.py", restore=RestoreSpec("/sp/1"), named=True)


def jobs(*launches: Launch) -> list[JobRecord]:
    return [
        JobRecord(f"{number:032x}", "job", JobState.FAILED, float(number), launch)
        for number, launch in enumerate(launches)
    ]


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ([], RESTORED, None),
        ([RESTORED], RESTORED, 0),  # the launcher's next try, with the same settings
        ([RESTORED], PLAIN, 0),  # the setting was removed: its state is where it was restored
        ([LATEST], AGAIN, 0),
        ([LATEST], GONE, 0),
        ([RESTORED], OTHER, None),  # another savepoint is another job
        ([PLAIN], PLAIN, None),  # goes on in the location that the program names
        ([PLAIN], RESTORED, None),
        ([RESTORED, PLAIN], PLAIN, None),
        ([RESTORED, OURS], RESTORED, 0),  # flinkish restarts its own jobs itself
        ([replace(RESTORED, named=False)], RESTORED, None),
        ([replace(RESTORED, named=False)], replace(RESTORED, named=False), 0),
        (
            [replace(RESTORED, named=False, application="/other.py")],
            replace(RESTORED, named=False),
            None,
        ),
        ([NOTEBOOK], replace(NOTEBOOK, restore=None), None),  # any other notebook
        ([NOTEBOOK], NOTEBOOK, None),
        ([replace(NOTEBOOK, named=True)], replace(NOTEBOOK, named=True, restore=None), 0),
    ],
)
def test_a_restored_job_goes_on(before: list[Launch], now: Launch, expected: int | None) -> None:
    known = jobs(*before)
    assert goes_on_from(known, now) == (None if expected is None else known[expected])


@pytest.mark.parametrize(
    ("path", "is_copy"),
    [
        ("/tmp/spark-5b0e1d3c-7a54-4f0e-9c3a-0123456789ab/app.py", True),
        ("/tmp/spark-5b0e1d3c-7a54-4f0e-9c3a-0123456789ab/job.py/app.py", True),
        ("/data/application_1_2/container_1_2_01_000001/app.py", True),
        ("/opt/job.py/app.py", False),
        ("/opt/spark-4.3.0/app.py", False),
        (None, False),
    ],
)
def test_a_restored_program_is_recognized_at_its_next_start(
    path: str | None, is_copy: bool
) -> None:
    launch = replace(RESTORED, application=path, named=False)
    for accepted in (replace(launch, named=True), replace(launch, restore=None)):
        check_recognizable(accepted)
    if not is_copy:
        check_recognizable(launch)
        return
    with pytest.raises(UsageError, match="without a name"):
        check_recognizable(launch)


@pytest.mark.parametrize(("interval", "limit"), [("2 s", 30.0), ("30 s", 90.0)])
def test_a_lost_driver_is_waited_for_until_it_counts_as_lost(
    monkeypatch: pytest.MonkeyPatch, interval: str, limit: float
) -> None:
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    clock = SimpleNamespace(monotonic=lambda: now, sleep=sleep)
    monkeypatch.setattr(registration, "time", clock)
    monkeypatch.setattr(registration, "reconcile", lambda _, jobs: jobs)
    (job,) = jobs(replace(RESTORED, options={"execution.heartbeat.interval": interval}))
    pod = ProcessRef("pod", 1, 1)
    job = replace(job, state=JobState.RUNNING, driver=pod, heartbeat=0.0)
    registry: Any = SimpleNamespace(jobs=lambda **_: [job])
    with pytest.raises(Locked):
        earlier_job(registry, "job", RESTORED)
    assert limit + 10 < now < limit + 20


@pytest.fixture
def attached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[PatientRegistry, JobRecord]]:
    """Registers a program that is restored from a savepoint, each time as a new driver would."""
    monkeypatch.setattr(registration, "open_origin", lambda *_, **__: None)
    monkeypatch.setattr(registration, "check_restorable", lambda *_: SimpleNamespace(text="ok"))

    def attach(
        savepoint: bool = True, name: str | None = "job", bundled: str = "", **environ: str
    ) -> tuple[PatientRegistry, JobRecord]:
        arguments = Arguments(
            name=name,
            savepoint=str(tmp_path / "savepoint") if savepoint else None,
            keys={"registry.url": f"sqlite:///{tmp_path}/registry.db"},
        )
        environ = {"HOME": str(tmp_path), **environ}
        return registered(attach_request(arguments, environ, {}, str(tmp_path)), "4.3.0", bundled)

    return attach


def ended(registry: PatientRegistry, job: JobRecord) -> None:
    """End a job after the first batch of its query."""
    registry.transition(job.job_id, JobState.CREATED)
    plan = RestorePlan(queries=(QueryRow("q", origin="q", from_batch=5, batch_id=5),))
    registry.heartbeat(job.job_id, [QueryStatus("q", "id", "run", "/checkpoint", plan=plan)])
    registry.transition(job.job_id, JobState.FAILED)
    registry.close()


def test_an_outage_of_the_registry_does_not_end_a_job_that_goes_on(
    attached: Callable[..., tuple[PatientRegistry, JobRecord]], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, job = attached()
    ended(first, job)
    registry, again = attached()
    assert again.job_id == job.job_id
    runtime: Any = SimpleNamespace(registry=registry, job_id=again.job_id)
    actions: Any = None
    agent = Agent(runtime, actions, heartbeat_interval=1.0, shutdown_grace=0.0, let_go=lambda: None)
    for state in (JobState.CREATED, JobState.RUNNING):
        registry.transition(job.job_id, state)
    assert not agent._is_replaced()

    def fail(*_: object) -> None:
        raise RegistryError("the server has gone")

    with monkeypatch.context() as outage:
        outage.setattr(registry._database, "read", fail)
        outage.setattr(registry._database, "write", fail)
        assert registry.heartbeat(job.job_id, []) is JobState.RUNNING
        assert not agent._is_replaced()
    registry.close()


def test_a_bundled_program_without_a_name_is_restored_once(
    attached: Callable[..., tuple[PatientRegistry, JobRecord]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is unpacked into another directory at each start."""
    monkeypatch.setattr(registration, "is_interactive", lambda: False)
    ids = set()
    for _ in range(2):
        registry, job = attached(name=None, bundled="/srv/job.py/app.py")
        assert (job.name, job.launch.application) == ("app", "/srv/job.py/app.py")
        ended(registry, job)
        ids.add(job.job_id)
    assert len(ids) == 1


@pytest.mark.parametrize("savepoint", [True, False])
def test_a_job_that_goes_on_has_the_settings_of_its_new_start(
    attached: Callable[..., tuple[PatientRegistry, JobRecord]], savepoint: bool
) -> None:
    """Else a start that was refused for want of a consent would be refused with it too."""
    first, job = attached()
    ended(first, job)
    consent = {"FLINKISH_RESTORE_ALLOW_NON_RESTORED": "true"} if savepoint else {}
    registry, again = attached(savepoint, FLINKISH_EXECUTION_HEARTBEAT_INTERVAL="7 s", **consent)
    assert again.job_id == job.job_id
    assert again.launch == registry.job(job.job_id).launch
    assert again.launch.options["execution.heartbeat.interval"] == "7 s"
    restore, before = again.launch.restore, job.launch.restore
    assert restore is not None
    assert before is not None
    assert restore.path == before.path
    assert restore.options.allow_non_restored is savepoint
    registry.close()


def test_a_job_that_goes_on_began_with_what_a_link_named_then(
    attached: Callable[..., tuple[PatientRegistry, JobRecord]], tmp_path: Path
) -> None:
    link = tmp_path / "savepoint"
    for number in ("1", "2"):
        (tmp_path / number).mkdir()
        (tmp_path / number / "_metadata").touch()
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / number)
        registry, job = attached()
        assert job.launch.restore is not None
        assert job.launch.restore.path == str(tmp_path / "1")
        ended(registry, job)


def test_the_savepoint_that_a_job_starts_from_is_recorded(
    attached: Callable[..., tuple[PatientRegistry, JobRecord]], tmp_path: Path
) -> None:
    saver = "b" * 32
    os.rename(make_savepoint(str(tmp_path), 1.0, job_id=saver), tmp_path / "savepoint")
    registry, _ = attached()
    assert [each.path for each in registry.savepoints(saver)] == [str(tmp_path / "savepoint")]
    registry.close()


@pytest.mark.parametrize("lost", ["add_job", "jobs"])
def test_a_job_is_registered_although_an_answer_is_lost_meanwhile(
    attached: Callable[..., tuple[PatientRegistry, JobRecord]],
    monkeypatch: pytest.MonkeyPatch,
    lost: str,
) -> None:
    """Else the queries of a program would run, but nobody could control them."""
    original = getattr(Registry, lost)
    answers = iter([RegistryError("the connection was lost during a commit")])

    def call(registry: Registry, *args: Any, **more: Any) -> Any:
        result = original(registry, *args, **more)
        if isinstance(registry, PatientRegistry):
            for error in answers:
                raise error
        return result

    monkeypatch.setattr(Registry, lost, call)
    registry, job = attached(savepoint=False)
    assert next(answers, None) is None
    assert registry.settle(60)
    registry.transition(job.job_id, JobState.CREATED)
    assert Registry.job(registry, job.job_id).state is JobState.CREATED
    registry.close()


@pytest.mark.parametrize("is_late", [False, True])
def test_a_start_is_recorded_by_the_clock_of_the_registry(
    attached: Callable[..., tuple[PatientRegistry, JobRecord]],
    monkeypatch: pytest.MonkeyPatch,
    is_late: bool,
) -> None:
    """Else a job would seem to have started before the end of the job that it continues."""
    original = Registry.open
    failures = iter([RegistryError("nobody answers")] if is_late else [])

    def open_registry(url: str) -> Registry:
        for error in failures:
            raise error
        return original(url)

    monkeypatch.setattr(Registry, "open", open_registry)
    monkeypatch.setattr(SqliteDatabase, "now", lambda _: time.time() + 1000.0)
    begun = time.time()
    registry, job = attached(savepoint=False)
    assert registry.settle(60)
    assert Registry.job(registry, job.job_id).start_time >= begun + 1000.0
    registry.close()
