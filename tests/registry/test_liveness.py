"""Who is alive, with real processes; what follows from it, as a table."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.errors import WrongState
from flinkish.launch.termination import wait_until_gone
from flinkish.messages.launch import Launch
from flinkish.messages.requests import CancelArguments, RequestResult, SavepointArguments
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, ProcessRef, RequestKind, RequestState
from flinkish.registry.liveness import (
    is_alive,
    is_stopped,
    log_tail,
    loss_reason,
    process_ref,
    reconcile,
)

MakeJob = Callable[..., JobRecord]
HERE = os.uname().nodename
DRIVER = ProcessRef(HERE, 77, 1)
SUPERVISOR = ProcessRef(HERE, 66, 1)
FAR = ProcessRef("far", 77, 1)


@pytest.fixture
def sleeper() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Real child processes that do nothing for a while."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(["sleep", "300"]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_this_process_is_alive() -> None:
    ref = process_ref()
    assert (ref.host, ref.pid) == (HERE, os.getpid())
    assert is_alive(ref) is True
    assert is_alive(ProcessRef(HERE, os.getpid())) is True


def test_a_killed_process_is_gone(sleeper: Callable[[], subprocess.Popen[bytes]]) -> None:
    process = sleeper()
    ref = process_ref(process.pid)
    assert is_alive(ref) is True
    process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while is_alive(ref) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert is_alive(ref) is False  # although it is a zombie still: nobody has waited for it
    process.wait()
    assert is_alive(ref) is False


def test_a_reused_pid_is_another_process(sleeper: Callable[[], subprocess.Popen[bytes]]) -> None:
    ref = process_ref(sleeper().pid)
    assert ref.start_ticks is not None
    assert is_alive(replace(ref, start_ticks=ref.start_ticks - 1)) is False


def test_a_command_with_odd_characters_is_read(tmp_path: Path) -> None:
    program = tmp_path / "a) R 1 (b"
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([str(program), "300"])
    try:
        ref = process_ref(process.pid)
        assert is_alive(ref) is True
        assert ref.start_ticks is not None
    finally:
        _kill(process)


def test_another_host_cannot_be_judged() -> None:
    assert is_alive(ProcessRef("some-other-host", os.getpid())) is None


# (job fields, supervisor alive, driver alive, heartbeat age) -> words of the reason, None: lives
LIVES = None
VERDICTS = [
    ({"driver": DRIVER, "supervisor": SUPERVISOR}, True, True, 1.0, LIVES),
    ({"driver": DRIVER, "supervisor": SUPERVISOR}, False, True, 999.0, LIVES),
    ({"driver": DRIVER, "supervisor": SUPERVISOR}, True, False, 1.0, LIVES),
    ({"driver": DRIVER, "supervisor": SUPERVISOR}, True, False, 4.4, LIVES),
    ({"driver": DRIVER, "supervisor": SUPERVISOR}, True, False, 4.6, "driver process 77"),
    ({"driver": DRIVER, "supervisor": SUPERVISOR}, False, False, 0.1, "driver process 77"),
    ({"driver": DRIVER}, None, False, 0.1, "driver process 77"),
    ({"driver": DRIVER, "supervisor": FAR}, None, False, 0.1, "driver process 77"),
    ({"supervisor": SUPERVISOR}, True, None, 9999.0, LIVES),
    ({"supervisor": SUPERVISOR}, False, None, 0.1, "supervisor process 66"),
    ({}, None, None, 59.0, LIVES),
    ({}, None, None, 61.0, "launch was interrupted"),
    ({"driver": FAR, "supervisor": FAR, "heartbeat": 1.0}, None, None, 29.0, LIVES),
    ({"driver": FAR, "supervisor": FAR, "heartbeat": 1.0}, None, None, 31.0, "from far for 31 s"),
    ({"driver": FAR, "supervisor": SUPERVISOR, "heartbeat": 1.0}, True, None, 999.0, LIVES),
    ({"driver": FAR, "supervisor": SUPERVISOR, "heartbeat": 1.0}, False, None, 31.0, "from far"),
    ({"driver": FAR, "supervisor": SUPERVISOR, "heartbeat": 1.0}, False, None, 3.0, LIVES),
    ({"driver": FAR, "supervisor": FAR}, None, None, 31.0, LIVES),
    ({"supervisor": FAR, "heartbeat": 1.0}, None, None, 31.0, LIVES),  # it is being restarted
    ({"supervisor": FAR}, None, None, 599.0, LIVES),
    ({"supervisor": FAR}, None, None, 601.0, "no heartbeat from far for 601 s"),
]


@pytest.mark.parametrize(("fields", "supervisor", "driver", "age", "words"), VERDICTS)
def test_what_makes_a_job_lost(
    make_job: MakeJob,
    fields: dict[str, object],
    supervisor: bool | None,
    driver: bool | None,
    age: float,
    words: str | None,
) -> None:
    reason = loss_reason(make_job(**fields), supervisor, driver, age)
    if words is None:
        assert reason is None
    else:
        assert reason is not None
        assert words in reason
    for state in (JobState.FINISHED, JobState.FAILED, JobState.CANCELED):
        assert loss_reason(make_job(state=state, **fields), supervisor, driver, age) is None


def test_a_slow_heartbeat_gives_the_supervisor_more_time(make_job: MakeJob) -> None:
    launch = Launch("/a.py", options={"execution.heartbeat.interval": "20 s"})
    job = make_job(driver=DRIVER, supervisor=SUPERVISOR, launch=launch)
    assert loss_reason(job, True, False, 22.0) is None
    assert loss_reason(job, True, False, 23.0) is not None
    assert loss_reason(job, False, False, 0.0) is not None


def test_a_driver_out_of_sight_may_be_silent_for_three_of_its_heartbeats(make_job: MakeJob) -> None:
    launch = Launch("/a.py", options={"execution.heartbeat.interval": "60 s"})
    job = make_job(driver=FAR, supervisor=FAR, launch=launch, heartbeat=1.0)
    assert loss_reason(job, None, None, 179.0) is None
    assert loss_reason(job, None, None, 181.0) is not None


def test_while_the_registrys_server_is_down_nobody_is_silent(
    sqlite_registry: Registry, make_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job(driver=FAR, supervisor=FAR, heartbeat=1000.0)
    sqlite_registry.add_job(job)
    monkeypatch.setattr(sqlite_registry._database, "up_since", 1040.0)
    assert reconcile(sqlite_registry, [job], 1069.0) == [job]
    (lost,) = reconcile(sqlite_registry, [job], 1071.0)
    assert lost.state is JobState.FAILED


def test_a_job_that_its_supervisor_starts_again_is_failing(
    sqlite_registry: Registry,
    make_job: MakeJob,
    sleeper: Callable[[], subprocess.Popen[bytes]],
) -> None:
    """Not FAILED, which is final; unless the supervisor is stopped by a signal."""
    driver, supervisor = sleeper(), sleeper()
    ref = process_ref(supervisor.pid)
    job = make_job(
        driver=process_ref(driver.pid),
        supervisor=ref,
        launch=Launch("/a.py", options={"restart-strategy.type": "fixed-delay"}),
        heartbeat=sqlite_registry.now() - 30,
    )
    sqlite_registry.add_job(job)
    _kill(driver)
    assert reconcile(sqlite_registry, [job])[0].state is JobState.FAILING
    assert sqlite_registry.job(job.job_id).state is JobState.RUNNING, "that is the supervisor's"
    with pytest.raises(WrongState, match="still runs: it decides"):
        wait_until_gone(sqlite_registry, job, patience=0.0)
    supervisor.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + 60
    while not is_stopped(ref) and time.monotonic() < deadline:
        time.sleep(0.01)
    (lost,) = reconcile(sqlite_registry, [job])
    assert lost.state is JobState.FAILED
    with pytest.raises(WrongState, match="is stopped by a signal") as held:
        wait_until_gone(sqlite_registry, lost, patience=0.0)
    assert f"kill -CONT {supervisor.pid}" in held.value.hint
    sqlite_registry.restart(lost, "by its supervisor", ref)
    with pytest.raises(WrongState, match="is RESTARTING by now: it was started again"):
        wait_until_gone(sqlite_registry, lost)


def test_a_killed_driver_is_failed_with_its_reason(
    registry: Registry,
    make_job: MakeJob,
    sleeper: Callable[[], subprocess.Popen[bytes]],
    tmp_path: Path,
) -> None:
    log = tmp_path / "driver.log"
    log.write_text("starting\n" * 5000 + "\nValueError: bad row\n\n")
    process, other = sleeper(), sleeper()
    job = make_job(driver=process_ref(process.pid), log_path=str(log), start_time=registry.now())
    sound = make_job("sound", driver=process_ref(other.pid), start_time=registry.now())
    ended = make_job("ended", JobState.FINISHED)
    for each in (job, sound, ended):
        registry.add_job(each)
    request = registry.submit(job.job_id, RequestKind.STOP, SavepointArguments("/sp"))
    jobs = registry.jobs()
    assert reconcile(registry, jobs) == jobs

    _kill(process)
    seen = {each.name: each for each in reconcile(registry, jobs)}
    assert (seen["sound"], seen["ended"]) == (sound, ended)
    lost = seen["flights"]
    assert lost == registry.job(job.job_id)
    assert lost.state is JobState.FAILED
    assert lost.end_time is not None
    assert lost.failure is not None
    assert lost.failure["id"] == "driver-lost"
    assert lost.failure["tail"][-1] == "ValueError: bad row"
    assert len(lost.failure["tail"]) == 20
    reason = registry.state_history(job.job_id)[-1].reason
    assert reason is not None
    assert f"driver process {process.pid}" in reason
    assert "ends with: ValueError: bad row" in reason
    abandoned = registry.request(request.request_id)
    assert abandoned.state is RequestState.FAILED
    assert abandoned.error == lost.failure

    better = {"id": "program-failed", "message": "ValueError: bad row"}
    registry.update_job(job.job_id, failure=better, exit_status=-9)
    assert registry.job(job.job_id).failure == better
    assert reconcile(registry, [registry.job(job.job_id)])[0].failure == better


@pytest.mark.parametrize("restarted", [False, True])
def test_a_job_that_was_stopped_before_its_driver_died_is_finished(
    registry: Registry, make_job: MakeJob, restarted: bool
) -> None:
    """Else ``recover`` would start it again behind the savepoint that it was stopped with."""
    job = make_job(driver=ProcessRef(HERE, 2**22 + 1, 5))
    registry.add_job(job)
    request = registry.submit(job.job_id, RequestKind.STOP, SavepointArguments("/sp"))
    registry.complete(request.request_id, RequestResult())
    if restarted:
        ended = registry.transition(job.job_id, JobState.FINISHED)
        registry.restart(ended, "again")
        registry.update_job(job.job_id, driver=job.driver)
        registry.transition(job.job_id, JobState.RUNNING)
    (seen,) = reconcile(registry, [registry.job(job.job_id)])
    assert seen == registry.job(job.job_id)
    assert seen.state is (JobState.FAILED if restarted else JobState.FINISHED)
    assert (seen.failure is not None) is restarted


@pytest.mark.parametrize("begun", [False, True], ids=["pending", "cancelling"])
def test_a_job_that_was_being_canceled_when_its_driver_died_is_canceled(
    registry: Registry, make_job: MakeJob, begun: bool
) -> None:
    """Else ``recover`` would start it again."""
    job = make_job(driver=ProcessRef(HERE, 2**22 + 1, 5))
    registry.add_job(job)
    cancel = registry.submit(job.job_id, RequestKind.CANCEL, CancelArguments())
    other = registry.submit(job.job_id, RequestKind.SAVEPOINT, SavepointArguments("/sp"))
    if begun:
        registry.claim(job.job_id)
        registry.transition(job.job_id, JobState.CANCELLING)
    (seen,) = reconcile(registry, [registry.job(job.job_id)])
    assert seen == registry.job(job.job_id)
    assert (seen.state, seen.failure) == (JobState.CANCELED, None)
    assert [change.state.value for change in registry.state_history(job.job_id)][1:] == [
        "CANCELLING",
        "CANCELED",
    ]
    assert registry.request(cancel.request_id).state is RequestState.COMPLETED
    assert registry.request(other.request_id).state is RequestState.FAILED


def test_a_request_that_cannot_be_read_is_no_cancel(
    sqlite_registry: Registry, make_job: MakeJob
) -> None:
    job = make_job(driver=ProcessRef(HERE, 2**22 + 1, 5))
    sqlite_registry.add_job(job)
    sqlite_registry.submit(job.job_id, RequestKind.CANCEL, CancelArguments())
    sqlite_registry._database.write(
        lambda tx: tx.execute("UPDATE flinkish_requests SET arguments = '{}'")
    )
    (seen,) = reconcile(sqlite_registry, [job])
    assert seen.state is JobState.FAILED


def test_a_job_that_ended_between_two_looks_keeps_its_end(
    sqlite_registry: Registry, make_job: MakeJob, sleeper: Callable[[], subprocess.Popen[bytes]]
) -> None:
    process = sleeper()
    job = make_job(driver=process_ref(process.pid))
    sqlite_registry.add_job(job)
    sqlite_registry.transition(job.job_id, JobState.FINISHED)
    _kill(process)
    assert reconcile(sqlite_registry, [job])[0].state is JobState.FINISHED
    assert sqlite_registry.job(job.job_id).failure is None


def test_a_job_that_was_restarted_between_two_looks_stays_so(
    sqlite_registry: Registry, make_job: MakeJob
) -> None:
    seen = make_job(driver=ProcessRef(HERE, 2**22 + 1, 5))
    sqlite_registry.add_job(seen)
    (lost,) = reconcile(sqlite_registry, [seen])
    again = sqlite_registry.restart(lost, "after a reboot", process_ref())
    request = sqlite_registry.submit(seen.job_id, RequestKind.STOP, SavepointArguments("/sp"))
    assert reconcile(sqlite_registry, [seen]) == [again]
    assert sqlite_registry.job(seen.job_id) == again
    assert again.state is JobState.RESTARTING
    assert sqlite_registry.request(request.request_id).state is RequestState.PENDING


def _look(path: Path) -> object:
    with Registry.open(str(path)) as registry:
        (shown,) = reconcile(registry, registry.jobs())
        assert shown.failure is not None
        return shown.state.value, shown.failure["id"], registry.jobs()[0].state.value


def test_a_read_only_registry_shows_what_it_cannot_write(
    shared_directory: Path,
    make_job: MakeJob,
    sleeper: Callable[[], subprocess.Popen[bytes]],
    unprivileged: Callable[..., str],
) -> None:
    path, process = shared_directory / "r.db", sleeper()
    job = make_job(driver=process_ref(process.pid))
    with Registry.open(str(path)) as registry:
        registry.add_job(job)
    _kill(process)
    path.chmod(0o444)
    assert unprivileged(_look, path) == "('FAILED', 'driver-lost', 'RUNNING')"


def test_only_one_of_many_readers_writes_the_end(
    registry: Registry, registry_url: str, make_job: MakeJob
) -> None:
    job = make_job(driver=ProcessRef(HERE, 2**22 + 1, 5))
    registry.add_job(job)
    with Registry.open(registry_url) as other:
        first = reconcile(registry, [job])[0]
        second = reconcile(other, [job])[0]
    assert first == second
    assert [line.state for line in registry.state_history(job.job_id)] == [
        JobState.RUNNING,
        JobState.FAILED,
    ]


def test_the_end_of_a_log(tmp_path: Path) -> None:
    assert log_tail(None) == []
    assert log_tail(str(tmp_path / "missing")) == []
    assert log_tail(str(tmp_path)) == []
    log = tmp_path / "log"
    log.write_bytes(b"one \n\n\xff\xfe two\r\n" + b"x" * 20000 + b"\nlast")
    assert log_tail(str(log))[-1] == "last"
    assert log_tail(str(log), lines=1) == ["last"]
    log.write_bytes(b"one \n\n\xff two\r\n")
    assert log_tail(str(log)) == ["one", "\ufffd two"]
