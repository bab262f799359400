"""The registry's contract, on SQLite and on a real PostgreSQL server."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from flinkish.errors import (
    AmbiguousJob,
    DriverLost,
    JobNotFound,
    Locked,
    NameTaken,
    ProgramFailed,
    RegistryError,
    RequestNotFound,
    Superseded,
    UsageError,
    WrongState,
)
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.queries import OperatorStatus, QueryStatus
from flinkish.messages.requests import (
    CancelArguments,
    LeftOut,
    RequestResult,
    SavedQuery,
    SavepointArguments,
    SavepointSummary,
)
from flinkish.messages.restore_options import RestoreOptions
from flinkish.messages.upgrades import Upgrade, UpgradeState
from flinkish.registry.database import Transaction
from flinkish.registry.in_use import savepoints_in_use
from flinkish.registry.job_registry import Registry, new_job_id
from flinkish.registry.jobs import (
    FINAL_STATES,
    TRANSITIONS,
    JobRecord,
    JobState,
    ProcessRef,
    RequestKind,
    RequestState,
    arguments_for,
)

MakeJob = Callable[..., JobRecord]

FULL_LAUNCH = Launch(
    application="/srv/app.py",
    arguments=("--x", "ü", ""),
    master="local[2]",
    py_files=("a.zip", "b.py"),
    conf={"spark.sql.shuffle.partitions": "4"},
    options={"client.timeout": "60 s"},
    restore=RestoreSpec("/sp", RestoreOptions(allow_non_restored=True, claim_mode="claim")),
)


def query(name: str = "q", query_id: str = "id-1", **fields: object) -> QueryStatus:
    return QueryStatus(name, query_id, "run", "/cp/" + name, **fields)  # type: ignore[arg-type]


def savepoint(path: str, job_id: str, created: float, **fields: object) -> SavepointSummary:
    return SavepointSummary(path, job_id, created, "native", 10, 2, 0.5, **fields)  # type: ignore[arg-type]


# jobs


def test_one_of_many_gets_a_name(registry_url: str, make_job: MakeJob) -> None:
    jobs = [make_job("rides", JobState.INITIALIZING) for _ in range(6)]
    start = threading.Barrier(len(jobs))

    def add(job: JobRecord) -> bool:
        with Registry.open(registry_url) as own:
            start.wait(60)
            try:
                own.add_job(job, unique_name=True)
            except NameTaken:
                return False
            return True

    Registry.open(registry_url).close()
    with ThreadPoolExecutor(len(jobs)) as threads:
        assert sum(threads.map(add, jobs)) == 1
    with Registry.open(registry_url) as registry:
        assert len(registry.jobs()) == 1
        registry.add_job(make_job("rides"))  # who does not ask for it may share it
        registry.add_job(make_job("other"), unique_name=True)


def test_a_name_is_free_when_its_job_has_ended(registry: Registry, make_job: MakeJob) -> None:
    old, new, third = make_job("rides"), make_job("rides"), make_job("rides")
    registry.add_job(old)
    with pytest.raises(NameTaken, match=f"{old.job_id}, which is RUNNING") as taken:
        registry.add_job(new, unique_name=True)
    assert taken.value.data == {"job_id": old.job_id, "state": "RUNNING"}
    ended = registry.transition(old.job_id, JobState.FINISHED)
    registry.add_job(new, unique_name=True)
    with pytest.raises(NameTaken, match=new.job_id):
        registry.restart(ended, "again")
    registry.transition(new.job_id, JobState.FINISHED)
    assert registry.restart(ended, "again").state is JobState.RESTARTING
    with pytest.raises(NameTaken, match=f"{old.job_id}, which is RESTARTING"):
        registry.add_job(third, unique_name=True)


@pytest.mark.parametrize(
    ("restore", "state", "has_run", "gone_on"),
    [
        (RestoreSpec("/cp/a", job="ORIGIN"), JobState.INITIALIZING, False, True),  # about to
        (RestoreSpec("/sp/1"), JobState.RUNNING, True, True),  # under a new query id
        (RestoreSpec("/sp/1"), JobState.FAILED, True, True),
        (RestoreSpec("/sp/1"), JobState.FAILED, False, False),  # it was refused
        (RestoreSpec("/sp/1", RestoreOptions(fork=True)), JobState.RUNNING, True, False),
        (RestoreSpec("/sp/2"), JobState.RUNNING, True, False),
        (None, JobState.RUNNING, True, False),
    ],
)
def test_a_job_that_another_was_started_from_is_not_started_again(
    registry: Registry,
    make_job: MakeJob,
    restore: RestoreSpec | None,
    state: JobState,
    has_run: bool,
    gone_on: bool,
) -> None:
    old = make_job()
    registry.add_job(old)
    registry.heartbeat(old.job_id, [query()])
    registry.add_savepoint(savepoint("/sp/1", old.job_id, 1.0))
    ended = registry.transition(old.job_id, JobState.FAILED)
    if restore is not None and restore.job is not None:
        restore = replace(restore, job=old.job_id)
    assert ended.end_time is not None
    new = make_job("other", state, launch=Launch("/a.py", restore=restore))
    new = replace(new, start_time=ended.end_time + 1)
    registry.add_job(new)
    if has_run:
        registry.heartbeat(new.job_id, [query(query_id="another")])
    if gone_on:
        assert registry.successor(ended) == registry.job(new.job_id)
        with pytest.raises(Superseded, match=new.job_id):
            registry.restart(ended, "again")
    else:
        assert registry.restart(ended, "again").state is JobState.RESTARTING


def test_a_copy_that_was_started_beside_a_job_does_not_end_it(
    registry: Registry, make_job: MakeJob
) -> None:
    """From a savepoint of a job that ran: it has query ids of its own."""
    old, new = make_job(), make_job(launch=Launch("/a.py", restore=RestoreSpec("/sp/1")))
    for job, query_id in ((old, "id-1"), (new, "id-2")):
        registry.add_job(job)
        registry.heartbeat(job.job_id, [query(query_id=query_id)])
    registry.add_savepoint(savepoint("/sp/1", old.job_id, 1.0))
    failing = registry.transition(old.job_id, JobState.FAILING)
    assert registry.restart(failing, "again").state is JobState.RESTARTING


def test_a_job_comes_back_as_it_was_given(registry: Registry, make_job: MakeJob) -> None:
    plain = make_job()
    full = make_job(
        "résumé 'quoted' %s :name",
        JobState.FAILED,
        launch=FULL_LAUNCH,
        log_path="/var/log/x.log",
        checkpoint_dir="/cp",
        end_time=1_700_000_100.25,
        supervisor=ProcessRef("host", 10, 123456789012),
        driver=ProcessRef("host", 11),
        heartbeat=1_700_000_099.5,
        spark_version="4.3.0",
        application_id="local-1",
        exit_status=-9,
        failure=DriverLost("gone", tail=["a", "b"]).to_record(),
    )
    for job in (plain, full):
        registry.add_job(job)
        assert registry.job(job.job_id) == job
        assert registry.job(job.job_id.upper()) == job
        assert [c.state for c in registry.state_history(job.job_id)] == [job.state]
    assert registry.jobs() == [plain, full]


def test_an_unknown_job_is_not_found_by_any_method(registry: Registry) -> None:
    missing = new_job_id()
    for action in (
        lambda: registry.job(missing),
        lambda: registry.find_job(missing),
        lambda: registry.transition(missing, JobState.RUNNING),
        lambda: registry.update_job(missing, heartbeat=1.0),
        lambda: registry.heartbeat(missing, []),
        lambda: registry.submit(missing, RequestKind.STOP, SavepointArguments("/sp")),
        lambda: registry.abandon(missing, {}),
    ):
        with pytest.raises(JobNotFound, match=missing):
            action()
    assert registry.state_history(missing) == []
    assert registry.claim(missing) is None


def test_a_job_id_is_taken_once(registry: Registry, make_job: MakeJob) -> None:
    job = make_job()
    registry.add_job(job)
    with pytest.raises(RegistryError, match="already"):
        registry.add_job(replace(job, name="other"))
    assert registry.job(job.job_id).name == "flights"


def test_jobs_are_filtered_by_state_and_name(registry: Registry, make_job: MakeJob) -> None:
    states = (JobState.RUNNING, JobState.FINISHED, JobState.CREATED, JobState.RUNNING)
    jobs = [make_job(f"n{i % 2}", state) for i, state in enumerate(states)]
    for job in reversed(jobs):
        registry.add_job(job)
    assert registry.jobs() == jobs
    assert registry.jobs(states={JobState.RUNNING, JobState.CREATED}) == [jobs[0], *jobs[2:]]
    assert registry.jobs(states=[JobState.RUNNING], name="n1") == [jobs[3]]
    assert registry.jobs(name="n0") == [jobs[0], jobs[2]]
    assert registry.jobs(states=[]) == []


def test_every_transition_is_as_the_table_says(registry: Registry, make_job: MakeJob) -> None:
    for old, new in product(JobState, JobState):
        job = make_job(state=old)
        registry.add_job(job)
        if new is old:
            assert registry.transition(job.job_id, new, "again") == job
            lines = 1
        elif new in TRANSITIONS[old]:
            moved = registry.transition(job.job_id, new, "why")
            assert moved.state is new
            assert (moved.end_time is not None) == (new in FINAL_STATES)
            assert registry.state_history(job.job_id)[-1].reason == "why"
            lines = 2
        else:
            with pytest.raises(WrongState, match=f"{old.value} and cannot become {new.value}"):
                registry.transition(job.job_id, new)
            assert registry.job(job.job_id) == job
            lines = 1
        assert len(registry.state_history(job.job_id)) == lines


def test_a_better_failure_replaces_only_a_guess(registry: Registry, make_job: MakeJob) -> None:
    guess = DriverLost("gone").to_record()
    real = ProgramFailed("ValueError: x", tail=["..."]).to_record()
    job = make_job()
    registry.add_job(job)
    assert registry.transition(job.job_id, JobState.FAILED, "lost", failure=guess).failure == guess
    better = registry.transition(job.job_id, JobState.FAILED, failure=real, exit_status=1)
    assert (better.failure, better.exit_status) == (real, 1)
    worse = registry.transition(job.job_id, JobState.FAILED, failure=guess, exit_status=-9)
    assert (worse.failure, worse.exit_status) == (real, 1)
    registry.update_job(job.job_id, failure=None, exit_status=7)
    assert registry.job(job.job_id).failure is None
    assert registry.job(job.job_id).exit_status == 7
    assert len(registry.state_history(job.job_id)) == 2


def test_fields_are_updated_one_by_one(registry: Registry, make_job: MakeJob) -> None:
    job = make_job(state=JobState.CREATED)
    registry.add_job(job)
    driver = ProcessRef("h", 12, 99)
    registry.update_job(job.job_id, driver=driver, spark_version="4.3.0")
    registry.update_job(job.job_id, checkpoint_dir="/cp")
    registry.update_job(job.job_id)
    assert registry.job(job.job_id) == replace(
        job, driver=driver, spark_version="4.3.0", checkpoint_dir="/cp"
    )
    for field in ("state", "name", "launch", "job_id", "nonsense"):
        with pytest.raises(TypeError, match=field):
            registry.update_job(job.job_id, **{field: "x"})


def test_text_no_database_takes_is_made_storable(registry: Registry, make_job: MakeJob) -> None:
    job = make_job("a\x00b\udcff", log_path="/ü/\udce4.log")
    registry.add_job(job)
    registry.transition(job.job_id, JobState.FAILED, "nul \x00", failure={"message": "\x00\udc80"})
    back = registry.job(job.job_id)
    assert back.name == "a\\x00b\\udcff"
    assert back.log_path == "/ü/\\udce4.log"
    assert back.failure == {"message": "\x00\udc80"}
    assert registry.state_history(job.job_id)[1].reason == "nul \\x00"


# finding


def test_a_reference_is_an_id_a_prefix_or_a_name(registry: Registry, make_job: MakeJob) -> None:
    one = make_job("flights", job_id="abcd" + "0" * 28)
    two = make_job("abcde", job_id="abce" + "1" * 28)
    done = make_job("old", JobState.FINISHED, job_id="0123" + "2" * 28)
    for job in (one, two, done):
        registry.add_job(job)
    for reference, job in {
        one.job_id: one,
        one.job_id.upper(): one,
        f" {one.job_id} ": one,
        "abcd0": one,
        "ABCE": two,
        "abcde": two,
        "flights": one,
        done.job_id: done,
        "0123": done,
    }.items():
        assert registry.find_job(reference) == job, reference
    assert registry.find_job("old", include_final=True) == done


@pytest.mark.parametrize(
    ("reference", "error", "words"),
    [
        ("old", JobNotFound, "is FINISHED"),
        ("nobody", JobNotFound, "no running job is named 'nobody'"),
        ("abc", JobNotFound, "too short"),
        ("ffff", JobNotFound, "begins with 'ffff'"),
        ("f" * 32, JobNotFound, "could not find job f"),
        ("x" * 32, UsageError, 'cannot parse JobID from "x'),
        ("a" * 33, JobNotFound, "not a job id"),
        ("", UsageError, "missing"),
        ("abcd", AmbiguousJob, "means 2 jobs"),
        ("twin", AmbiguousJob, "means 2 jobs"),
        ("%", JobNotFound, "'%'"),
    ],
)
def test_what_a_reference_does_not_mean(
    registry: Registry, make_job: MakeJob, reference: str, error: type[Exception], words: str
) -> None:
    registry.add_job(make_job("old", JobState.FINISHED))
    for digit, name in (("0", "twin"), ("1", "twin")):
        registry.add_job(make_job(name, job_id="abcd" + digit * 28))
    with pytest.raises(error, match=words) as caught:
        registry.find_job(reference)
    assert caught.type is error


def test_an_ambiguous_reference_lists_its_candidates(registry: Registry, make_job: MakeJob) -> None:
    jobs = [make_job(f"n{i}", job_id=f"abcd{i}" + "0" * 27) for i in range(7)]
    for job in jobs:
        registry.add_job(job)
    with pytest.raises(AmbiguousJob) as caught:
        registry.find_job("abcd")
    candidates = caught.value.data["candidates"]
    assert [c["job_id"] for c in candidates] == [job.job_id for job in jobs]
    assert candidates[0] == {"job_id": jobs[0].job_id, "name": "n0", "state": "RUNNING"}
    assert "and 2 more" in caught.value.message
    assert jobs[0].job_id in caught.value.message


def test_a_name_means_the_running_job_first(registry: Registry, make_job: MakeJob) -> None:
    first, second = make_job("n", JobState.FINISHED), make_job("n", JobState.FAILED)
    registry.add_job(first)
    registry.add_job(second)
    with pytest.raises(AmbiguousJob):
        registry.find_job("n", include_final=True)
    running = make_job("n")
    registry.add_job(running)
    assert registry.find_job("n") == running
    assert registry.find_job("n", include_final=True) == running


# queries


def test_a_heartbeat_keeps_the_newest_of_each_query(registry: Registry, make_job: MakeJob) -> None:
    job = make_job()
    registry.add_job(job)
    assert registry.queries(job.job_id) == []
    operators = (OperatorStatus(0, "stateStoreSave", "agg", "f" * 32, 12),)
    assert registry.heartbeat(job.job_id, [query("b"), query("a", "id-2")]) is JobState.RUNNING
    last = query("b", batch_id=3, watermark="2024-01-01T00:00:00.000Z", operators=operators)
    registry.heartbeat(job.job_id, [last])
    assert registry.queries(job.job_id) == [query("a", "id-2"), last]
    again = query("b", "id-3", active=False, error="boom")
    registry.heartbeat(job.job_id, [again])
    assert registry.queries(job.job_id) == [query("a", "id-2"), again]
    beat = registry.job(job.job_id).heartbeat
    assert beat is not None
    assert abs(beat - registry.now()) < 10


def test_a_query_is_found_in_every_job_that_ran_it(registry: Registry, make_job: MakeJob) -> None:
    jobs = [make_job(f"n{i}") for i in range(3)]
    for job in jobs:
        registry.add_job(job)
        registry.heartbeat(job.job_id, [query("q", "shared" if job is not jobs[1] else "other")])
    registry.heartbeat(jobs[2].job_id, [query("q", "new")])
    found = registry.find_query("shared")
    assert [(job.name, status.query_id) for job, status in found] == [
        ("n0", "shared"),
        ("n2", "shared"),
    ]
    assert registry.find_query("nothing") == []
    assert registry.find_query("other")[0][0].job_id == jobs[1].job_id


def test_queries_of_very_many_jobs(registry: Registry, make_job: MakeJob) -> None:
    job = make_job()
    registry.add_job(job)
    registry.heartbeat(job.job_id, [query()])
    registry.add_savepoint(savepoint("/sp", job.job_id, 1.0))
    ids = [new_job_id() for _ in range(1200)] + [job.job_id]
    assert registry.queries_of(ids) == {job.job_id: [query()]}
    assert list(registry.last_savepoints(ids)) == [job.job_id]
    assert registry.queries_of([]) == {}


# requests


def test_a_request_goes_through_its_life(registry: Registry, make_job: MakeJob) -> None:
    job = make_job()
    registry.add_job(job)
    arguments = SavepointArguments("file:///sp", timeout=60, full=True)
    sent = registry.submit(job.job_id, RequestKind.SAVEPOINT, arguments, "me@here")
    assert (sent.state, sent.arguments, sent.requester) == (
        RequestState.PENDING,
        arguments,
        "me@here",
    )
    assert registry.request(sent.request_id) == sent
    assert registry.progress(sent.request_id, {"phase": "early"}) is False
    claimed = registry.claim(job.job_id)
    assert claimed is not None
    assert claimed.started is not None
    assert claimed == replace(sent, state=RequestState.IN_PROGRESS, started=claimed.started)
    assert registry.claim(job.job_id) is None
    assert registry.progress(sent.request_id, {"phase": "copying", "files": 3})
    assert registry.request(sent.request_id).progress == {"phase": "copying", "files": 3}
    taken = SavepointSummary(
        path="/x",
        job_id="j",
        created=1.5,
        format="native",
        bytes=1,
        files=2,
        duration=0.5,
        queries=(SavedQuery("q", 3, "i"),),
    )
    result = RequestResult(taken, "quiesce", (LeftOut("c", "it had nothing"),))
    assert registry.complete(sent.request_id, result)
    done = registry.request(sent.request_id[:8].upper())
    assert done.state is RequestState.COMPLETED
    assert done.result == result
    assert done.finished is not None
    assert registry.fail(sent.request_id, {"id": "failed"}) is False
    assert registry.complete(sent.request_id, RequestResult()) is False
    assert registry.progress(sent.request_id, {}) is False
    assert registry.abandon(job.job_id, {}) == 0
    assert registry.request(sent.request_id) == done


def test_requests_are_claimed_in_order(registry: Registry, make_job: MakeJob) -> None:
    job, other = make_job(), make_job()
    registry.add_job(job)
    registry.add_job(other)
    sent = [
        registry.submit(job.job_id, RequestKind.SAVEPOINT, SavepointArguments(str(n)))
        for n in range(5)
    ]
    registry.submit(other.job_id, RequestKind.SAVEPOINT, SavepointArguments("/sp"))
    assert [r.request_id for r in registry.requests(job.job_id)] == [r.request_id for r in sent]
    claimed = [registry.claim(job.job_id) for _ in range(6)]
    assert [c.arguments.target for c in claimed if c] == list("01234")
    assert claimed[5] is None


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_request_is_served_although_the_answer_to_its_claim_was_lost(
    registry: Registry,
    make_job: MakeJob,
    monkeypatch: pytest.MonkeyPatch,
    is_committed: bool,
) -> None:
    """A request that nobody serves would also keep every later stop from being asked for."""
    job = make_job()
    registry.add_job(job)
    sent = [
        registry.submit(job.job_id, kind, SavepointArguments("/sp"))
        for kind in (RequestKind.SAVEPOINT, RequestKind.STOP)
    ]
    write = registry._database.write

    def lost(work: Callable[[Transaction], Any]) -> Any:
        def broken(tx: Transaction) -> Any:
            work(tx)
            if not is_committed:
                raise RegistryError("the connection was lost")

        write(broken)
        raise RegistryError("the connection was lost during a commit")

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(registry._database, "write", lost)
            with pytest.raises(RegistryError, match="was lost"):
                registry.claim(job.job_id)
        state = registry.request(sent[0].request_id).state
        assert (state is RequestState.IN_PROGRESS) is is_committed
    claimed = [registry.claim(job.job_id) for _ in range(3)]
    assert [c.request_id if c else None for c in claimed] == [
        sent[0].request_id,
        sent[1].request_id,
        None,
    ]


def test_a_job_is_ended_once(registry: Registry, make_job: MakeJob) -> None:
    job = make_job()
    registry.add_job(job)
    stop = registry.submit(job.job_id, RequestKind.STOP, SavepointArguments("/sp"))
    for kind in (RequestKind.STOP, RequestKind.CANCEL):
        with pytest.raises(Locked, match=stop.request_id) as caught:
            registry.submit(job.job_id, kind, arguments_for(kind, "/sp"))
        assert caught.value.data["request_id"] == stop.request_id
    registry.submit(job.job_id, RequestKind.SAVEPOINT, SavepointArguments("/sp"))
    registry.claim(job.job_id)
    with pytest.raises(Locked):
        registry.submit(job.job_id, RequestKind.STOP, SavepointArguments("/sp"))
    registry.fail(stop.request_id, {"id": "failed"})
    with_savepoint = registry.submit(job.job_id, RequestKind.CANCEL, CancelArguments("/sp"))
    assert with_savepoint.kind is RequestKind.CANCEL


@pytest.mark.parametrize("damage", [None, '{"later": 1}', '{"version": 99}'])
def test_a_plain_cancel_overrides_what_still_saves(
    registry: Registry, make_job: MakeJob, damage: str | None
) -> None:
    """Also requests that cannot be read."""
    job = make_job()
    registry.add_job(job)
    registry.submit(job.job_id, RequestKind.STOP, SavepointArguments("/sp"))
    registry.claim(job.job_id)
    if damage is not None:
        registry.submit(job.job_id, RequestKind.SAVEPOINT, SavepointArguments("/sp"))
        registry._database.write(
            lambda tx: tx.execute(
                "UPDATE flinkish_requests SET kind = 'stop', arguments = :damage "
                "WHERE state = 'PENDING'",
                damage=damage,
            )
        )
    cancel = registry.submit(job.job_id, RequestKind.CANCEL, CancelArguments())
    assert registry.plain_cancel(job.job_id) == cancel.request_id
    assert registry.is_serving(job.job_id)
    with pytest.raises(Locked, match=cancel.request_id):
        registry.submit(job.job_id, RequestKind.CANCEL, CancelArguments())


@pytest.mark.parametrize("state", sorted(FINAL_STATES))
@pytest.mark.parametrize("kind", list(RequestKind))
def test_nothing_is_asked_of_an_ended_job(
    registry: Registry, make_job: MakeJob, state: JobState, kind: RequestKind
) -> None:
    job = make_job(state=state)
    registry.add_job(job)
    what = {"savepoint": "take a savepoint of"}.get(kind.value, kind.value)
    with pytest.raises(WrongState, match=f"cannot {what} job .* terminal state {state.value}"):
        registry.submit(job.job_id, kind, arguments_for(kind, "/sp"))
    assert registry.requests(job.job_id) == []


@pytest.mark.parametrize("state", sorted(FINAL_STATES))
def test_a_job_ends_with_its_requests(
    registry: Registry, make_job: MakeJob, state: JobState
) -> None:
    """Else the driver of its next run would serve them."""
    job = make_job()
    registry.add_job(job)
    done, running, waiting = (
        registry.submit(job.job_id, RequestKind.SAVEPOINT, SavepointArguments("/sp")) for _ in "123"
    )
    registry.claim(job.job_id)
    registry.complete(done.request_id, RequestResult())
    registry.claim(job.job_id)
    failure = DriverLost("gone").to_record() if state is JobState.FAILED else None
    registry.transition(job.job_id, state, failure=failure)
    for request in (running, waiting):
        ended = registry.request(request.request_id)
        assert ended.state is RequestState.FAILED
        assert ended.error is not None
        assert ended.error["id"] == ("wrong-state" if failure is None else "driver-lost")
    assert registry.request(done.request_id).state is RequestState.COMPLETED


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.FAILING])
def test_requests_that_an_ended_job_has_left_are_not_for_its_next_run(
    registry: Registry, make_job: MakeJob, state: JobState
) -> None:
    """Only those of a job that is FAILING wait for the next driver."""
    job = make_job()
    registry.add_job(job)
    request = registry.submit(job.job_id, RequestKind.STOP, SavepointArguments("/sp"))
    # As an earlier version has left it.
    registry._database.write(
        lambda tx: tx.execute("UPDATE flinkish_jobs SET state = :state", state=state.value)
    )
    registry.restart(registry.job(job.job_id), "again")
    claimed = registry.claim(job.job_id)
    is_left = state is JobState.FAILING
    assert (claimed and claimed.request_id) == (request.request_id if is_left else None)


def test_abandoned_requests_fail(registry: Registry, make_job: MakeJob) -> None:
    job = make_job()
    registry.add_job(job)
    done, running, waiting = (
        registry.submit(job.job_id, RequestKind.SAVEPOINT, SavepointArguments("/sp")) for _ in "123"
    )
    registry.claim(job.job_id)
    registry.complete(done.request_id, RequestResult())
    registry.claim(job.job_id)
    error = DriverLost("gone").to_record()
    assert registry.abandon(job.job_id, error) == 2
    for request in (running, waiting):
        ended = registry.request(request.request_id)
        assert (ended.state, ended.error) == (RequestState.FAILED, error)
        assert ended.finished is not None
    assert registry.request(done.request_id).error is None


def test_unknown_and_ambiguous_requests(registry: Registry, make_job: MakeJob) -> None:
    job = make_job()
    registry.add_job(job)
    for reference in ("0" * 32, "0000", "abc", "", "zzzz", "not an id"):
        with pytest.raises(RequestNotFound):
            registry.request(reference)
    unknown = "0" * 32
    actions: tuple[Callable[[], object], ...] = (
        lambda: registry.progress(unknown, {}),
        lambda: registry.complete(unknown, RequestResult()),
        lambda: registry.fail(unknown, {}),
    )
    for action in actions:
        with pytest.raises(RequestNotFound):
            action()
    # Of 65,536 prefixes, two of 2000 random ids agree but for one case in 10^13.
    seen: set[str] = set()
    for _ in range(2000):
        prefix = registry.submit(
            job.job_id, RequestKind.SAVEPOINT, SavepointArguments("/sp")
        ).request_id[:4]
        if prefix in seen:
            break
        seen.add(prefix)
    with pytest.raises(UsageError, match="2 requests begin"):
        registry.request(prefix)


# savepoints


def test_savepoints_are_kept_and_disposed(registry: Registry, make_job: MakeJob) -> None:
    a, b = new_job_id(), new_job_id()  # of no job here: savepoints may be imported
    old = savepoint(
        "/sp/old",
        a,
        1.0,
        queries=(SavedQuery("q", 3, "i"),),
        trigger="stop",
        request_id="r" * 32,
    )
    new, other = savepoint("/sp/new", a, 2.0), savepoint("s3://b/o", b, 1.5)
    for record in (new, old, other):
        registry.add_savepoint(record)
    assert registry.savepoints() == [old, other, new]
    assert registry.savepoints(a) == [old, new]
    assert registry.last_savepoints([a, b]) == {a: new, b: other}
    assert registry.mark_disposed("/sp/new", 9.0) is True
    assert registry.mark_disposed("/sp/new", 10.0) is False
    assert registry.mark_disposed("/nowhere") is False
    assert registry.last_savepoints([a, b]) == {a: old, b: other}
    assert registry.savepoints(a, include_disposed=True) == [old, replace(new, disposed=9.0)]
    registry.add_savepoint(savepoint("/sp/z", a, 1.0))  # a copy of the old one
    assert registry.last_savepoints([a]) == {a: old}
    assert registry.savepoints(a)[-1] == old
    registry.add_savepoint(replace(new, bytes=2**40))  # found again: it is back
    assert registry.last_savepoints([a]) == {a: replace(new, bytes=2**40)}


# concurrency


def test_threads_share_one_registry(registry: Registry, make_job: MakeJob) -> None:
    job = make_job()
    registry.add_job(job)
    for n in range(24):
        registry.submit(job.job_id, RequestKind.SAVEPOINT, SavepointArguments(str(n)))
    claimed: list[str | None] = []
    errors: list[Exception] = []

    def agent() -> None:
        try:
            while request := registry.claim(job.job_id):
                claimed.append(request.arguments.target)
                registry.heartbeat(job.job_id, [query(f"q{request.arguments.target}")])
                registry.complete(request.request_id, RequestResult())
        except Exception as error:  # noqa: BLE001 (shown by the assertion below)
            errors.append(error)

    threads = [threading.Thread(target=agent) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(map(str, claimed)) == sorted(map(str, range(24)))
    assert len(registry.queries(job.job_id)) == 24


AGENT = """
import sys
from flinkish.errors import Locked
from flinkish.messages.queries import QueryStatus
from flinkish.registry.jobs import RequestKind
from flinkish.registry.job_registry import Registry
from flinkish.messages.requests import RequestResult, SavepointArguments
url, job_id, me = sys.argv[1:]
claimed, stops = [], 0
with Registry.open(url) as registry:
    for n in range(20):
        registry.submit(job_id, RequestKind.SAVEPOINT, SavepointArguments(f"{me}.{n}"))
        try:
            registry.submit(job_id, RequestKind.STOP, SavepointArguments("stop"))
            stops += 1
        except Locked:
            pass
        registry.heartbeat(job_id, [QueryStatus(f"{me}.{n}", me, "run", "/cp")])
        while request := registry.claim(job_id):
            claimed.append(request.arguments.target)
            if request.arguments.target != "stop":
                registry.complete(request.request_id, RequestResult(stop_method=me))
print(stops, *claimed)
"""


def test_processes_share_one_registry(
    registry: Registry,
    registry_url: str,
    make_job: MakeJob,
    run_python: Callable[..., subprocess.Popen[str]],
) -> None:
    job = make_job()
    registry.add_job(job)
    agents = [run_python(AGENT, registry_url, job.job_id, f"p{n}") for n in range(8)]
    stops, claimed = 0, []
    for agent in agents:
        output, errors = agent.communicate(timeout=120)
        assert (agent.returncode, errors) == (0, "")
        words = output.split()
        stops += int(words[0])
        claimed += words[1:]
    expected = [f"p{p}.{n}" for p in range(8) for n in range(20)]
    assert sorted(claimed) == sorted([*expected, "stop"])
    assert stops == 1
    assert len(registry.queries(job.job_id)) == 160
    unfinished = [r for r in registry.requests(job.job_id) if not r.state.is_final]
    assert [r.kind for r in unfinished] == [RequestKind.STOP]


CREATOR = """
import sys
from flinkish.messages.launch import Launch
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.registry.job_registry import Registry, new_job_id
print("ready", flush=True)
sys.stdin.readline()
with Registry.open(sys.argv[1]) as registry:
    registry.add_job(JobRecord(new_job_id(), "n", JobState.RUNNING, 1.0, Launch("/a.py")))
    assert registry.jobs()
"""


def test_processes_create_one_registry_together(
    registry_url: str, run_python: Callable[..., subprocess.Popen[str]]
) -> None:
    creators = [run_python(CREATOR, registry_url) for _ in range(8)]
    for creator in creators:
        assert creator.stdout is not None
        assert creator.stdout.readline() == "ready\n"
    for creator in creators:
        assert creator.stdin is not None
        creator.stdin.write("\n")
        creator.stdin.flush()
    for creator in creators:
        assert creator.communicate(timeout=120)[1] == ""
        assert creator.returncode == 0
    with Registry.open(registry_url, create=False) as registry:
        assert len(registry.jobs()) == 8


def test_changes_by_others_are_noticed(registry: Registry, registry_url: str) -> None:
    before = registry.changes_marker()
    with Registry.open(registry_url) as other:
        other.add_savepoint(savepoint("/sp", new_job_id(), 1.0))
    assert registry.changes_marker() != before


def test_a_registry_that_must_exist(registry_url: str) -> None:
    with pytest.raises(RegistryError, match="there is no registry"):
        Registry.open(registry_url, create=False)


def test_only_one_of_many_starts_a_job_again(
    registry: Registry, registry_url: str, make_job: MakeJob
) -> None:
    job = make_job()
    registry.add_job(job)
    seen = registry.transition(job.job_id, JobState.FAILED, failure={"id": "failed"})

    def restart(_: int) -> bool:
        with Registry.open(registry_url) as mine:
            try:
                mine.restart(seen, "by one of many")
            except WrongState:
                return False
            return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(restart, range(8))) == 1
    states = [change.state for change in registry.state_history(job.job_id)]
    assert states.count(JobState.RESTARTING) == 1


@pytest.mark.parametrize("state", UpgradeState)
def test_an_unfinished_upgrade_needs_its_savepoints(
    registry: Registry, state: UpgradeState
) -> None:
    """Although its new job is dead: what it goes back to is one of them."""
    upgrade = Upgrade(
        upgrade_id=new_job_id(),
        job_id=new_job_id(),
        name="rides",
        state=state,
        created=1.0,
        launch=Launch("/app.py"),
        restore=RestoreSpec("/sp/restored"),
        target="/sp",
        timeout=60.0,
        savepoint="/sp/taken",
        old_savepoint="/sp/promoted",
    )
    registry.add_upgrade(upgrade, ProcessRef("host", 1, 1))
    registry.add_upgrade(
        replace(
            upgrade,
            upgrade_id=new_job_id(),
            job_id=new_job_id(),
            state=UpgradeState.STOPPING,
            restore=RestoreSpec(""),
            savepoint=None,
            old_savepoint=None,
        ),
        ProcessRef("host", 1, 1),
    )
    needed = {"/sp/restored", "/sp/taken", "/sp/promoted"}
    protected = savepoints_in_use(registry).protected
    assert set(protected) == (set() if state.is_final else needed)
    assert all(upgrade.upgrade_id[:6] in reason for reason in protected.values())
