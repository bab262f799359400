"""``flinkish savepoint --all``, as a crontab calls it, and the retention options."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinkish.client.all_jobs import AllSaved, JobOutcome
from flinkish.client.listing import Troubles
from flinkish.client.requests import Removal
from flinkish.errors import DriverLost
from flinkish.messages.launch import Launch
from flinkish.messages.requests import SavepointArguments, SavepointSummary
from flinkish.registry.jobs import JobRecord, JobState, RequestKind, RequestState
from flinkish.registry.liveness import process_ref
from flinkish.savepoint.format.contents import QuerySource, SavepointJob
from flinkish.savepoint.format.metadata import Metadata, MetadataWriter
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.writer import write_savepoint
from tests.cli.conftest import Command
from tests.support.checkpoints.handwritten import CheckpointLikeness

Saving = Callable[[str, str], SavepointSummary]


@pytest.fixture
def save(tmp_path: Path) -> Saving:
    """Write a real savepoint of a job into ``sp`` (the stand-in of a driver writes empty ones)."""
    checkpoints: dict[str, CheckpointLikeness] = {}

    def saving(job_id: str, name: str) -> SavepointSummary:
        checkpoint = checkpoints.get(name)
        if checkpoint is None:
            likeness = CheckpointLikeness(tmp_path / f"checkpoint of {name}", backend="rocksdb")
            checkpoint = checkpoints[name] = likeness.run_to(4)
        return write_savepoint(
            str(tmp_path / "sp"),
            SavepointJob(job_id, name, spark_version="4.3.0"),
            [QuerySource("counts", str(checkpoint.root))],
            trigger="savepoint",
            reporter=SilentSavepointReporter(),
        )

    return saving


def test_every_running_job_gets_one(cli: Command, tmp_path: Path) -> None:
    one, two = cli.start("serve", "--name", "one"), cli.start("slow", "--name", "two")
    cli.ok("cancel", cli.start("serve", "--name", "three"))
    result = cli.ok("savepoint", "--all", "sp")
    lines = result.out.splitlines()
    assert [line.partition(" (")[0] for line in lines] == ["one", "two"]
    for line, job in zip(lines, (one, two), strict=True):
        path = line.partition("Savepoint completed. Path: file:")[2]
        assert Path(path).parent == tmp_path / "sp"
        assert job in line
        assert [s["path"] for s in cli.status(job)["savepoints"]] == [path]
    document = cli.ok("savepoint", "--all", "sp", "--json", "--name", "t*").json()
    (entry,) = document["savepoints"]
    assert (entry["job_id"], entry["name"], entry["queries"][0]["batch_id"]) == (two, "two", 7)
    assert (document["failed"], document["skipped"]) == ([], [])
    assert entry["request_id"] == cli.status(two)["requests"][-1]["request_id"]


def test_quiet_is_silent_on_success(cli: Command) -> None:
    cli.start()
    for words in (["--all", "sp", "-q"], ["--all", "sp", "-q", "--timeout", "10m"]):
        result = cli.ok("savepoint", *words)
        assert (result.out, result.err) == ("", "")


def test_nothing_runs(cli: Command) -> None:
    cli.ok("cancel", cli.start())
    result = cli.ok("savepoint", "--all", "sp")
    assert result.out == ""
    assert "no job is running" in result.err
    cli.start("serve", "--name", "one [eu]")
    for pattern in ("x*", "one [e]*", "one ?e?"):  # [ is no wildcard: the name is as written
        refused = cli.ok("savepoint", "--all", "--name", pattern, "sp").err
        assert f"no running job matches '{pattern}'" in refused
    empty: dict[str, list[Any]] = {
        "savepoints": [],
        "failed": [],
        "skipped": [],
        "unacknowledged": [],
        "missing": [],
    }
    assert cli.ok("savepoint", "--all", "--name", "x", "sp", "--json").json() == {
        "schema_version": 1,
        **empty,
    }


def test_one_line_for_each_failure(cli: Command) -> None:
    cli.start("serve", "--name", "good")
    bad = cli.start("refuse", "--name", "bad")
    result = cli("savepoint", "--all", "sp", "-q")
    assert (result.code, result.out) == (3, "")
    why = "query 'counts' has a memory sink; it has no good savepoint"
    assert result.err == f"error: job bad ({bad}): {why}\n"
    result = cli("savepoint", "--all", "sp", "--json")
    assert (result.code, result.err) == (3, "")
    document = result.json()
    assert [s["name"] for s in document["savepoints"]] == ["good"]
    assert document["failed"][0]["job_id"] == bad
    assert document["failed"][0]["error"]["id"] == "not-savepointable"
    assert cli("savepoint", "--all", "sp", "-q", "--name", "bad").code == 1


def test_the_timeout_is_for_all_together(cli: Command) -> None:
    deaf = [cli.start("deaf", "--name", f"deaf{number}") for number in range(2)]
    cli.start("serve", "--name", "well")
    result = cli("savepoint", "--all", "sp", "--timeout", "1s", "--json")
    assert result.code == 3
    document = result.json()
    assert [s["name"] for s in document["savepoints"]] == ["well"]
    assert {f["job_id"]: f["error"]["id"] for f in document["failed"]} == dict.fromkeys(
        deaf, "timeout"
    )
    # The work goes on: the next call leaves those jobs alone.
    again = cli("savepoint", "--all", "sp", "-q")
    assert again.code == 0
    assert len(again.err.splitlines()) == 2
    for line, job in zip(again.err.splitlines(), deaf, strict=True):
        assert line.startswith(f"skipped: job deaf{deaf.index(job)} ({job}): its savepoint ")
        assert "still waiting for the driver, since" in line
    with cli.registry() as registry:
        assert [len(registry.requests(job)) for job in deaf] == [1, 1]


def test_a_job_that_is_being_ended_is_skipped(cli: Command) -> None:
    job = cli.start("deaf")
    with cli.registry() as registry:
        stop = registry.submit(job, RequestKind.STOP, SavepointArguments("/sp"))
    (skipped,) = cli.ok("savepoint", "--all", "sp", "--json").json()["skipped"]
    assert f"being ended by the stop {stop.request_id}" in skipped["reason"]


def dead_job(cli: Command, name: str = "dead", digit: str = "d") -> JobRecord:
    """A job that runs according to the registry, and whose driver is gone."""
    gone = subprocess.Popen(["true"])
    driver = process_ref(gone.pid)
    gone.wait()
    job = JobRecord(
        digit * 32, name, JobState.RUNNING, time.time(), Launch("/app.py"), driver=driver
    )
    with cli.registry() as registry:
        registry.add_job(job)
    return job


def test_a_job_found_dead_is_a_failure_until_it_is_acknowledged(cli: Command) -> None:
    cli.start()
    job = dead_job(cli)
    assert job.driver is not None
    reason = f"the driver process {job.driver.pid} on {job.driver.host} is gone"
    result = cli("savepoint", "--all", "sp", "-q")
    assert result.code == 3
    assert result.err == f"error: job dead ({job.job_id}): {reason}; it has no good savepoint\n"
    for _ in range(2):
        again = cli("savepoint", "--all", "sp", "-q")
        assert again.code == 3
        assert again.err == (
            f"error: job dead ({job.job_id}) is no longer running: {reason}; "
            f"it has no good savepoint; acknowledge it with: flinkish ack {job.job_id}\n"
        )
    document = json.loads(cli("savepoint", "--all", "sp", "--json").out)
    ((failed),) = document["unacknowledged"]
    assert (failed["job_id"], failed["error"]["id"]) == (job.job_id, "driver-lost")
    assert cli("savepoint", "--all", "sp", "--name", "x*").code == 0
    cli.ok("ack", "dead")
    assert cli.ok("savepoint", "--all", "sp", "-q").err == ""


def test_the_age_of_the_newest_good_savepoint_is_told(cli: Command, save: Saving) -> None:
    job, dead = cli.start("refuse"), dead_job(cli)
    now = time.time()
    with cli.registry() as registry:
        for job_id, ages in ((job, (7_200, 3_600, 60)), (dead.job_id, (180_000,))):
            for age in ages:
                saved = save(job_id, "app")
                path = rewritten(Path(saved.path), now - age)
                registry.add_savepoint(replace(saved, path=str(path), created=now - age))
        newest = Path(registry.savepoints(job)[-1].path)
    (newest / "_metadata").write_bytes(b"torn")
    document = cli("savepoint", "--all", "sp", "--json").json()
    told = {each["job_id"]: each["newest_savepoint"]["age"] for each in document["failed"]}
    assert told == {job: pytest.approx(3_600, abs=60), dead.job_id: pytest.approx(180_000, abs=60)}
    shown = cli("savepoint", "--all", "sp", "-q").err
    assert "memory sink; its newest good savepoint is 60 min old\n" in shown
    assert "is gone; its newest good savepoint is 2 d old; acknowledge it" in shown
    known = cli("savepoint", "--all", "sp", "--json").json()["unacknowledged"]
    assert [each["newest_savepoint"]["age"] > 179_000 for each in known] == [True]


def rewritten(savepoint: Path, created: float) -> Path:
    """The savepoint as if it had been taken at another time."""
    old = Metadata(str(savepoint / "_metadata"))
    header = replace(old.header, created=created)
    with MetadataWriter(
        str(savepoint), header, old.queries, features=sorted(old.features)
    ) as writer:
        for file in old.iter_files():
            writer.add(file)
        writer.commit()
    return savepoint


def test_only_dead_jobs_are_told_in_the_same_way(cli: Command) -> None:
    dead_job(cli)
    for _ in range(2):  # found dead now, and known to be
        assert cli("savepoint", "--all", "sp", "-q").code == 3


@pytest.mark.parametrize(("request_id", "code"), [("r", 1), (None, 3)])
def test_a_driver_that_dies_while_it_saves_is_a_failed_attempt(
    request_id: str | None, code: int
) -> None:
    job = JobRecord("d" * 32, "dead", JobState.FAILED, 1.0, Launch("/app.py"))
    outcome = JobOutcome(job, request_id, error=DriverLost("its process is gone"))
    assert AllSaved([outcome], Troubles(), Removal()).exit_code == code


def test_a_death_that_list_has_seen_is_not_lost(cli: Command) -> None:
    job = dead_job(cli)
    said = f"1 job failed: dead ({job.job_id}); see: flinkish list --failed, "
    said += f"flinkish ack {job.job_id}"
    assert said in cli.ok("list").err
    assert said in cli.ok("list", "-a").err
    assert cli("savepoint", "--all", "sp", "-q").code == 3
    assert said in cli.ok("list").err


def test_an_expected_job_must_run(cli: Command) -> None:
    cli.start("serve", "--name", "one")
    cli.ok("savepoint", "--all", "sp", "--expect", "one")
    result = cli("savepoint", "--all", "sp", "-q", "--expect", "one", "--expect", "two")
    assert result.code == 3
    assert result.err == "error: no job named two is running\n"
    assert cli("savepoint", "one", "sp", "--expect", "one").code == 2


def test_a_locked_target_is_skipped_by_all_and_exit_12_for_one(cli: Command) -> None:
    job = cli.start("locked")
    result = cli.ok("savepoint", "--all", "sp", "-q")
    assert result.err.startswith(f"skipped: job app ({job}): ")
    assert "by eva on host2" in result.err
    assert cli("savepoint", job, "sp").code == 12


def test_dry_run_asks_for_nothing(cli: Command, tmp_path: Path) -> None:
    job = cli.start()
    assert job in cli.ok("savepoint", "--all", "sp", "--dry-run").out
    document = cli.ok("savepoint", "--all", "sp", "--dry-run", "--json").json()
    assert document["jobs"] == [{"job_id": job, "name": "app"}]
    assert cli.status(job)["requests"] == []
    assert not (tmp_path / "sp").exists()


def test_a_job_is_no_target_of_all(cli: Command) -> None:
    """Its name would become a directory, with savepoints of every job."""
    with cli.registry() as registry:
        for digit in "ab":
            registry.add_job(
                JobRecord(digit * 32, "orders", JobState.INITIALIZING, 1.0, Launch("/app.py"))
            )
            registry.transition(digit * 32, JobState.CANCELED)
    for way in (["--all"], ["--from-checkpoint", "cp"]):
        for word in ("orders", "a" * 32):
            refused = cli("savepoint", word, *way, "--dry-run")
            assert refused.code == 2
            assert f"take no JOB, but '{word}' is the name or id of one" in refused.err
    assert cli.ok("savepoint", "--all", "./orders", "--dry-run").out == ""


def test_a_dry_run_expects_too(cli: Command) -> None:
    cli.registry().close()  # an empty one is there
    words = ("savepoint", "--all", "sp", "--dry-run", "--expect", "two")
    result = cli(*words, "-q")
    assert (result.code, result.out) == (3, "")
    assert result.err == "error: no job named two is running\n"
    document = cli(*words, "--json")
    assert (document.code, document.err) == (3, "")
    assert document.json()["warnings"] == ["no job named two is running"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--all", "job", "sp"], "--all takes only a target and no JOB"),
        (["--all", "sp", "-detached"], "cannot be -detached"),
        (["--all", "--from-checkpoint", "x", "sp"], "mutually exclusive"),
        (["job", "sp", "--name", "x"], "--name requires --all"),
        (["job", "sp", "-detached", "--keep-last", "3"], "-detached does not wait"),
        (["job", "sp", "--keep-last", "0"], "--keep-last"),
        (["job", "sp", "--keep-within", "soon"], "--keep-within: 'soon' is not a duration"),
        (["job", "sp", "--max-age", "7x"], "--keep-within"),
        (["-d", "x", "--keep-last", "1"], "-d/--dispose"),
        (["--all"], "no target directory"),
    ],
)
def test_words_that_do_not_go_together(cli: Command, words: list[str], says: str) -> None:
    result = cli("savepoint", *words)
    assert result.code == 2
    assert says in result.err
    assert result.out == ""


def test_old_savepoints_of_the_jobs_go_and_others_stay(
    cli: Command, tmp_path: Path, save: Saving
) -> None:
    job = cli.start("serve", "--name", "one")
    cli.start("refuse", "--name", "two")
    with cli.registry() as registry:
        two = registry.jobs(name="two")[0].job_id
    mine = [save(job, "one").path for _ in range(3)]
    others = [save(two, "two").path, save("a" * 32, "dead").path, save("a" * 32, "dead").path]
    result = cli("savepoint", "--all", "sp", "--json", "--retain", "1")
    assert result.code == 3  # of job two there is none, so nothing of it goes
    document = result.json()
    assert sorted(document["pruned"]) == sorted(mine[:2])
    assert document["prune_error"] is None
    left = {str(path.parent) for path in (tmp_path / "sp").glob("*/_metadata")}
    assert left == {mine[2], *others}


def test_old_savepoints_go_after_one_of_one_job(cli: Command, save: Saving, tmp_path: Path) -> None:
    job = cli.start()
    mine = [save(job, "app").path for _ in range(2)]
    result = cli.ok("savepoint", job, "sp", "--keep-last", "1")
    assert "Removed 1 older savepoint of the job" in result.err
    assert not (Path(mine[0]) / "_metadata").exists()
    assert (Path(mine[1]) / "_metadata").exists()
    # Within a day nothing is old.
    save(job, "app")
    document = cli.ok("savepoint", job, "sp", "--max-age", "1d", "--json").json()
    assert document["pruned"] == []
    assert document["savepoint"]["path"]


def test_a_prune_that_fails_is_exit_3(cli: Command, save: Saving, tmp_path: Path) -> None:
    job = cli.start()
    save(job, "app")
    locks = tmp_path / "sp" / "_locks"
    locks.mkdir(exist_ok=True)
    from flinkish.savepoint.directory.leases import Kind, Lease

    with Lease.take(str(tmp_path / "sp"), Kind.WRITE, owner="eva@host2", job_id="b" * 32):
        failed = cli("savepoint", job, "sp", "--keep-last", "1")
        assert failed.code == 3
        assert failed.out.startswith("Savepoint completed. Path: ")
        assert "eva@host2" in failed.err
        # To a crontab that is nothing to act on: the next call removes them.
        result = cli("savepoint", "--all", "sp", "--keep-last", "1", "-q")
        assert result.code == 0
        assert result.err.startswith("skipped: removing old savepoints: ")
    with cli.registry() as registry:
        states = {request.state for request in registry.requests(job)}
    assert states == {RequestState.COMPLETED}


def test_the_documents_are_json(cli: Command) -> None:
    cli.start()
    text = cli.ok("savepoint", "--all", "sp", "--json", "--keep-last", "2").out
    document = json.loads(text)
    assert (document["pruned"], document["prune_error"]) == ([], None)
