"""A driver that fails is started again by its supervisor. Here it is a script of the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.errors import DriverLost, LaunchFailed, ProgramFailed, RegistryError, WrongState
from flinkish.launch.supervisor import (
    _is_cancelled,
    _record_end,
    _record_requested_end,
    _start,
)
from flinkish.messages.launch import Launch, Secrets
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import CancelArguments, RequestResult, SavepointArguments
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, RequestKind, RequestState, arguments_for
from flinkish.registry.liveness import is_alive, process_ref
from tests.launch.conftest import Run, ended, wait

RETURNS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "2",
    "restart-strategy.fixed-delay.delay": "50 ms",
}
WAITS = {**RETURNS, "restart-strategy.fixed-delay.delay": "60 s"}


@pytest.fixture
def runs(tmp_path: Path, registry_url: str) -> str:
    """A shell command by which the driver records that its job runs, and counts its starts."""
    script = tmp_path / "runs.py"
    script.write_text(
        f"""
import os
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobState
from flinkish.registry.liveness import process_ref
job_id = os.environ["FLINKISH_JOB_ID"]
with Registry.open({registry_url!r}, create=False) as registry:
    registry.update_job(job_id, driver=process_ref(os.getppid()))
    registry.transition(job_id, JobState.CREATED)
    registry.transition(job_id, JobState.RUNNING)
"""
    )
    home = Path(__file__).parents[2]
    return f"echo start >> {tmp_path}/starts; PYTHONPATH={home} {sys.executable} {script}"


def starts(tmp_path: Path) -> int:
    path = tmp_path / "starts"
    return len(path.read_text().splitlines()) if path.exists() else 0


def states(registry: Registry, job: JobRecord) -> list[str]:
    return [change.state.value for change in registry.state_history(job.job_id)]


def test_it_is_started_as_often_as_the_strategy_allows(
    run: Run, registry: Registry, runs: str, tmp_path: Path
) -> None:
    job = run(f"{runs}; echo 'Error: why' >&2; kill -9 $$", options=RETURNS)
    final = wait(registry, job, ended)
    assert starts(tmp_path) == 3
    assert final.state is JobState.FAILED
    assert final.failure is not None
    assert "SIGKILL" in final.failure["message"]
    life = ["CREATED", "RUNNING", "FAILING", "RESTARTING"]
    assert states(registry, job) == [
        *("INITIALIZING", *life, *life),
        *("CREATED", "RUNNING", "FAILED"),
    ]
    reasons = [c.reason for c in registry.state_history(job.job_id)]
    assert reasons[4] is not None
    assert reasons[4].startswith("attempt 1, in 0.05 s, after: the driver was killed by SIGKILL")
    assert reasons[-1] is not None
    assert "no further attempt" in reasons[-1]


def test_a_job_that_never_ran_is_not_started_again(
    run: Run, registry: Registry, tmp_path: Path
) -> None:
    job = run(f"echo start >> {tmp_path}/starts; exit 3", options=RETURNS)
    assert wait(registry, job, ended).state is JobState.FAILED
    assert starts(tmp_path) == 1
    assert "RESTARTING" not in states(registry, job)


def test_without_a_strategy_it_is_not_either(
    run: Run, registry: Registry, runs: str, tmp_path: Path
) -> None:
    job = run(f"{runs}; kill -9 $$")
    assert wait(registry, job, ended).state is JobState.FAILED
    assert starts(tmp_path) == 1


def test_a_cancel_while_it_waits(run: Run, registry: Registry, runs: str, tmp_path: Path) -> None:
    job = run(f"{runs}; kill -9 $$", options=WAITS)
    wait(registry, job, lambda now: now.state is JobState.RESTARTING)
    request = registry.submit(job.job_id, RequestKind.CANCEL, CancelArguments())
    assert wait(registry, job, lambda now: now.state.is_final).state is JobState.CANCELED
    deadline = time.monotonic() + 60
    while registry.request(request.request_id).state is not RequestState.COMPLETED:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert starts(tmp_path) == 1


@pytest.mark.parametrize("leaves", ["", "(trap '' TERM; sleep 60) & "])
def test_a_supervisor_that_is_ended_while_it_waits_says_so(
    run: Run, registry: Registry, runs: str, leaves: str
) -> None:
    """Also while it still ends what the driver left running."""
    job = run(f"{runs}; {leaves}kill -9 $$", options=WAITS)
    waiting = wait(registry, job, lambda now: now.state is JobState.RESTARTING and now.supervisor)
    assert waiting.supervisor is not None
    os.kill(waiting.supervisor.pid, signal.SIGTERM)
    final = wait(registry, job, lambda now: now.state.is_final)
    assert final.failure is not None
    assert final.failure["id"] == "driver-lost"


def test_a_supervisor_that_is_ended_starts_no_other_driver(
    run: Run, registry: Registry, runs: str, tmp_path: Path
) -> None:
    """As at a shutdown: ``recover`` starts again what is lost, and nothing else does."""
    job = run(f"{runs}; trap 'exit 1' TERM; sleep 60 & wait", options=RETURNS)
    running = wait(registry, job, lambda now: now.state is JobState.RUNNING)
    assert running.supervisor is not None
    os.kill(running.supervisor.pid, signal.SIGTERM)
    final = wait(registry, job, ended)
    assert starts(tmp_path) == 1
    assert final.failure is not None
    assert final.failure["id"] == "driver-lost"
    assert "asked to end" in final.failure["message"]


def test_a_supervisor_leaves_a_job_alone_that_was_started_again(
    run: Run, registry: Registry, runs: str, tmp_path: Path
) -> None:
    """Its own driver may take a while to end after it has recorded the end of the job."""
    job = run(f"{runs}; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done", options=RETURNS)
    first = wait(registry, job, lambda now: now.state is JobState.RUNNING)
    assert first.supervisor is not None
    done = registry.transition(job.job_id, JobState.FINISHED, "as a driver records it")
    registry.restart(done, "by somebody else")
    (tmp_path / "go").touch()
    process = first.supervisor
    wait(registry, job, lambda _now: not is_alive(process))
    assert states(registry, job)[-2:] == ["FINISHED", "RESTARTING"]
    assert registry.job(job.job_id).exit_status is None
    assert starts(tmp_path) == 1


def test_a_supervisor_that_starts_late_starts_no_second_driver(
    registry: Registry, registry_url: str
) -> None:
    """Its launch was interrupted, the job counted as lost, and somebody has started it again."""
    job = JobRecord("a" * 32, "rides", JobState.INITIALIZING, registry.now(), Launch("/app.py"))
    registry.add_job(job)
    lost = registry.transition(job.job_id, JobState.FAILED, "it never got a supervisor process")
    registry.restart(lost, "by somebody")
    assert registry.supervise(job.job_id, process_ref(os.getppid())) is not None
    home = str(Path(__file__).parents[2])
    late = subprocess.run(
        [sys.executable, "-m", "flinkish.launch.supervisor", job.job_id],
        env={**os.environ, "FLINKISH_REGISTRY": registry_url, "PYTHONPATH": home},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "another process supervises job" in late.stderr
    assert registry.job(job.job_id).supervisor == process_ref(os.getppid())
    assert states(registry, job)[-1] == "RESTARTING"


def test_a_job_that_another_has_gone_on_from_stays_ended(
    run: Run, registry: Registry, runs: str, tmp_path: Path
) -> None:
    """A supervisor that wakes late finds the job FAILED by a reader, and its state continued."""
    script = f"{runs}; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; kill -9 $$"
    job = run(script, options=RETURNS)
    first = wait(registry, job, lambda now: now.state is JobState.RUNNING)
    query = QueryStatus("q", "shared", "r", str(tmp_path / "cp"), active=False)
    registry.heartbeat(job.job_id, [query])
    lost = DriverLost("the driver process is gone").to_record()
    registry.transition(job.job_id, JobState.FAILED, "seen by a reader", failure=lost)
    other = replace(job, job_id="f" * 32, name="other", start_time=registry.now())
    registry.add_job(other)
    registry.heartbeat(other.job_id, [replace(query, active=True)])
    (tmp_path / "go").touch()
    process = first.supervisor
    assert process is not None
    wait(registry, job, lambda _now: not is_alive(process))
    final = registry.job(job.job_id)
    assert final.state is JobState.FAILED
    assert starts(tmp_path) == 1
    assert final.failure is not None
    assert final.failure["id"] == "driver-lost"
    assert (
        f"job other ({other.job_id}), which is INITIALIZING, has resumed"
        in final.failure["message"]
    )


def supervised(registry: Registry, *later: JobState, options: Mapping[str, str]) -> JobRecord:
    """A running job whose supervisor is this process; then it goes through ``later`` states."""
    launch = Launch("/app.py", options=options)
    job = JobRecord("a" * 32, "rides", JobState.CREATED, registry.now(), launch)
    registry.add_job(job)
    for state in (JobState.RUNNING, *later):
        registry.transition(job.job_id, state)
    registry.update_job(job.job_id, supervisor=process_ref())
    return registry.job(job.job_id)


@pytest.mark.parametrize("options", [RETURNS, {}], ids=["strategy", "none"])
@pytest.mark.parametrize("asked", [False, True], ids=["killed", "shutdown"])
@pytest.mark.parametrize(
    ("kind", "end"),
    [(RequestKind.STOP, JobState.FINISHED), (RequestKind.CANCEL, JobState.CANCELED)],
)
def test_a_job_that_was_ended_by_a_request_has_not_failed(
    registry: Registry,
    registry_url: str,
    kind: RequestKind,
    end: JobState,
    asked: bool,
    options: Mapping[str, str],
) -> None:
    """Its driver was killed between the answer and the end of its program."""
    job = supervised(registry, options=options)
    request = registry.submit(job.job_id, kind, arguments_for(kind, "/sp"))
    later = registry.submit(job.job_id, RequestKind.SAVEPOINT, SavepointArguments("/sp"))
    registry.complete(request.request_id, RequestResult())
    assert _record_end(registry_url, job.job_id, -9, [1.0], end_requested=asked) is None
    final = registry.job(job.job_id)
    assert (final.state, final.failure, final.exit_status) == (end, None, -9)
    reason = registry.state_history(job.job_id)[-1].reason
    assert reason == f"its driver was killed by SIGKILL, after the {kind.value} was complete"
    assert registry.request(later.request_id).state is RequestState.FAILED


def test_a_job_that_a_reader_has_failed_after_its_stop_is_not_started_again(
    registry: Registry, registry_url: str
) -> None:
    job = supervised(registry, options=RETURNS)
    request = registry.submit(job.job_id, RequestKind.STOP, SavepointArguments("/sp"))
    registry.complete(request.request_id, RequestResult())
    lost = DriverLost("the driver process is gone").to_record()
    registry.transition(job.job_id, JobState.FAILED, "seen by a reader", failure=lost)
    assert _record_end(registry_url, job.job_id, -9, [1.0], end_requested=False) is None
    assert registry.job(job.job_id).state is JobState.FAILED


def test_a_stop_that_failed_or_is_of_an_earlier_run_keeps_no_job_from_its_restart(
    registry: Registry, registry_url: str
) -> None:
    job = supervised(registry, options=RETURNS)
    stop = registry.submit(job.job_id, RequestKind.STOP, SavepointArguments("/sp"))
    registry.complete(stop.request_id, RequestResult())
    registry.restart(registry.transition(job.job_id, JobState.FINISHED), "again", process_ref())
    registry.transition(job.job_id, JobState.RUNNING)
    failed = registry.submit(job.job_id, RequestKind.STOP, SavepointArguments("/sp"))
    registry.fail(failed.request_id, WrongState("it waits for input").to_record())
    assert _record_end(registry_url, job.job_id, -9, [1.0], end_requested=False) == 0.05
    assert registry.job(job.job_id).state is JobState.RESTARTING


def test_a_driver_that_a_shutdown_makes_fail_is_lost_whatever_it_has_recorded(
    registry: Registry, registry_url: str
) -> None:
    """``recover`` passes over a job whose program has failed."""
    job = supervised(registry, options=RETURNS)
    failed = ProgramFailed("the program exited with status 1").to_record()
    registry.transition(job.job_id, JobState.FAILING, "as a driver records it", failure=failed)
    assert _record_end(registry_url, job.job_id, 1, [1.0], end_requested=True) is None
    final = registry.job(job.job_id)
    assert final.state is JobState.FAILED
    assert final.failure is not None
    assert final.failure["id"] == "driver-lost"


@pytest.mark.parametrize("method", ["abandon", "transition", "restart"])
def test_a_supervisor_that_dies_while_it_decides_leaves_no_exit_status(
    registry: Registry, registry_url: str, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """``recover`` takes it for the sign that a supervisor has decided."""
    job = supervised(registry, options=RETURNS)
    failed = ProgramFailed("the program exited with status 1").to_record()
    registry.transition(job.job_id, JobState.FAILING, "as a driver records it", failure=failed)

    def die(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Registry, method, die)
        with pytest.raises(KeyboardInterrupt):
            _record_end(registry_url, job.job_id, 1, [1.0], end_requested=False)
    assert registry.job(job.job_id).exit_status is None


@pytest.mark.parametrize("attempts", [1, 3], ids=["goes on", "gives up"])
def test_a_job_that_a_reader_has_failed_is_decided_on_by_its_supervisor_once(
    registry: Registry, registry_url: str, attempts: int
) -> None:
    """The registry was away for so long that the reader came first."""
    job = supervised(registry, options=RETURNS)
    failed = ProgramFailed("the program exited with status 1").to_record()
    registry.transition(job.job_id, JobState.FAILING, "as a driver records it", failure=failed)
    lost = DriverLost("the driver process is gone").to_record()
    registry.transition(job.job_id, JobState.FAILED, "seen by a reader", failure=lost)
    end = partial(_record_end, registry_url, job.job_id, 1, end_requested=False)
    assert end([1.0] * attempts) == (0.05 if attempts == 1 else None)
    final = registry.job(job.job_id)
    if attempts == 1:
        assert (final.state, final.exit_status) == (JobState.RESTARTING, None)
        return
    assert (final.state, final.exit_status, final.failure) == (JobState.FAILED, 1, failed)
    assert end([1.0]) is None, "it has decided, although the answer may have been lost"
    assert registry.job(job.job_id) == final


@pytest.mark.parametrize("claimed", [False, True])
@pytest.mark.parametrize("later", [(), (JobState.FAILING,)], ids=["running", "failing"])
def test_a_cancel_that_a_dying_driver_has_not_carried_out_cancels_the_job(
    registry: Registry, registry_url: str, later: Sequence[JobState], claimed: bool
) -> None:
    job = supervised(registry, *later, options=RETURNS)
    cancel = registry.submit(job.job_id, RequestKind.CANCEL, CancelArguments())
    if claimed:
        registry.claim(job.job_id)
    other = registry.submit(job.job_id, RequestKind.SAVEPOINT, SavepointArguments("/sp"))
    assert _record_end(registry_url, job.job_id, -9, [1.0], end_requested=False) is None
    assert states(registry, job)[-2:] == ["CANCELLING", "CANCELED"]
    assert registry.request(cancel.request_id).state is RequestState.COMPLETED
    assert registry.request(other.request_id).state is RequestState.FAILED


@pytest.mark.parametrize("requested", [False, True], ids=["killed", "shutdown"])
def test_a_cancel_that_was_begun_is_completed(
    registry: Registry, registry_url: str, requested: bool
) -> None:
    """Its driver died before it had answered, or its supervisor is asked to end."""
    job = supervised(registry, options=RETURNS)
    cancel = registry.submit(job.job_id, RequestKind.CANCEL, CancelArguments())
    other = registry.submit(job.job_id, RequestKind.SAVEPOINT, SavepointArguments("/sp"))
    if requested:  # it waits to start the driver again
        failing = registry.transition(job.job_id, JobState.FAILING)
        registry.restart(failing, "attempt 1", process_ref())
        _record_requested_end(registry_url, job.job_id)
    else:
        registry.claim(job.job_id)
        registry.transition(job.job_id, JobState.CANCELLING)
        assert _record_end(registry_url, job.job_id, -9, [1.0], end_requested=False) is None
    assert registry.job(job.job_id).state is JobState.CANCELED
    assert registry.request(cancel.request_id).state is RequestState.COMPLETED
    assert registry.request(other.request_id).state is RequestState.FAILED


@pytest.mark.parametrize("step", range(4))
@pytest.mark.parametrize("waits", [False, True], ids=["ended", "waits"])
def test_a_cancel_during_which_the_registry_fails_is_carried_out_all_the_same(
    registry: Registry,
    registry_url: str,
    monkeypatch: pytest.MonkeyPatch,
    waits: bool,
    step: int,
) -> None:
    job = supervised(registry, options=RETURNS)
    cancel = registry.submit(job.job_id, RequestKind.CANCEL, CancelArguments())
    if waits:
        failing = registry.transition(job.job_id, JobState.FAILING)
        registry.restart(failing, "attempt 1", process_ref())
    calls = 0

    def failing_once(name: str) -> None:
        method = getattr(Registry, name)

        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            result = method(*arguments, **options)
            if calls == step + 1:
                raise RegistryError("the server went away during the commit")
            return result

        monkeypatch.setattr(Registry, name, call)

    for name in ("transition", "complete", "abandon"):
        failing_once(name)
    action: Callable[[], object] = partial(_is_cancelled, registry_url, job.job_id)
    if not waits:
        action = partial(_record_end, registry_url, job.job_id, -9, [1.0], end_requested=False)
    with pytest.raises(RegistryError):
        action()
    assert action() is (True if waits else None)
    assert registry.job(job.job_id).state is JobState.CANCELED
    assert registry.request(cancel.request_id).state is RequestState.COMPLETED


@pytest.mark.parametrize("method", ["supervise", "transition"])
def test_the_start_of_the_next_attempt_waits_for_the_registry(
    registry: Registry, registry_url: str, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """It reports that the driver cannot be started, but tries that only once."""
    job = supervised(registry, JobState.FAILING, options=RETURNS)
    registry.restart(job, "attempt 1", process_ref())
    write, calls = getattr(Registry, method), 0

    def away_once(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise RegistryError("the server is gone")
        return write(*arguments, **options)

    started: list[str] = []

    def start(job: JobRecord, *_: object) -> None:
        started.append(job.job_id)
        raise LaunchFailed("there is no spark-submit")

    monkeypatch.setattr(Registry, method, away_once)
    driver: Any = SimpleNamespace(start=start)
    assert not _start(driver, job.job_id, registry_url, Secrets(), is_restart=True)
    assert (started, calls) == ([job.job_id], 2)
    final = registry.job(job.job_id)
    assert final.state is JobState.FAILED
    assert final.failure is not None
    assert final.failure["id"] == "launch-failed"


def test_a_cancel_with_a_savepoint_that_was_not_taken_cancels_nothing(
    registry: Registry, registry_url: str
) -> None:
    job = supervised(registry, options=RETURNS)
    cancel = registry.submit(job.job_id, RequestKind.CANCEL, CancelArguments("/sp"))
    assert _record_end(registry_url, job.job_id, -9, [1.0], end_requested=False) == 0.05
    assert registry.request(cancel.request_id).state is RequestState.FAILED
    assert registry.job(job.job_id).state is JobState.RESTARTING
