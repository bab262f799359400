"""``purge``: jobs that ended long ago, with real files."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish import Client
from flinkish.launch.offline import kept_from_purge
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.queries import QueryStatus
from flinkish.messages.requests import SavedQuery
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.savepoint.directory.leases import Kind, Lease
from tests.cli.conftest import Command
from tests.support.savepoint.small_savepoints import make_savepoint

DAY = 86400.0
BROKEN = {"id": "program-failed", "code": 1, "message": "it broke"}
OLD = ("--ended-before", "30d")


def add(
    cli: Command,
    digit: str,
    end: JobState | None = JobState.FINISHED,
    *,
    days: float = 40.0,
    batch: int | None = 5,
    checkpoint: Path | None = None,
    launch: Launch | None = None,
) -> str:
    """Add a job that ended so many days ago, with a checkpoint and a log; None: it runs."""
    job_id = digit * 32
    own = cli.directory / "checkpoints" / job_id
    place = checkpoint or own / "q"
    (place / "commits").mkdir(parents=True)
    (place / "commits" / "5").write_text("v1\n{}")
    (place / ".hidden").write_text("x")
    for file in (place / "commits" / "5", place / ".hidden"):
        os.utime(file, (time.time() - days * DAY,) * 2)
    log = cli.directory / "logs" / f"{job_id}.log"
    log.parent.mkdir(exist_ok=True)
    log.write_text("said\n")
    with cli.registry() as registry:
        now = registry.now()
        registry.add_job(
            JobRecord(
                job_id,
                f"job-{digit}",
                JobState.RUNNING,
                now - 50 * DAY,
                launch or Launch("/app.py"),
                log_path=str(log),
                checkpoint_dir=str(own),
                heartbeat=now,
            )
        )
        registry.update_job(job_id, heartbeat=now)
        query = QueryStatus("q", f"id-{digit}", "r", str(place), batch_id=batch)
        registry.heartbeat(job_id, [query])
        if end is JobState.CANCELED:
            registry.transition(job_id, JobState.CANCELLING)
        if end is not None:
            registry.transition(job_id, end, failure=BROKEN if end is JobState.FAILED else None)
            registry.update_job(job_id, end_time=now - days * DAY)
            if end is JobState.FAILED:
                registry.acknowledge([job_id])
    return job_id


def checkpoint_of(cli: Command, job: str) -> Path:
    return cli.directory / "checkpoints" / job


def log_of(cli: Command, job: str) -> Path:
    return cli.directory / "logs" / f"{job}.log"


def known(cli: Command) -> list[str]:
    with cli.registry() as registry:
        return sorted(job.job_id for job in registry.jobs())


def reason(cli: Command, job: str, *options: str) -> str:
    """Why a job stays as a whole."""
    found = cli.ok("purge", *OLD, "--dry-run", "--json", *options).json()["jobs"]
    (text,) = next(each["reasons"] for each in found if each["job_id"] == job)
    return str(text)


def test_what_ended_long_ago_goes_with_its_files(cli: Command) -> None:
    ends = zip("abc", (JobState.FINISHED, JobState.CANCELED, JobState.FAILED), strict=True)
    old = [add(cli, digit, end) for digit, end in ends]
    young, runs = add(cli, "d", days=20), add(cli, "e", None)
    assert cli.ok("purge", *OLD, "--dry-run", "-q").out.split() == old
    assert known(cli) == [*old, young, runs]
    done = cli.ok("purge", *OLD, "--yes", "--json").json()
    assert done["dry_run"] is False
    assert [job["job_id"] for job in done["jobs"] if job["removed"]] == old
    assert known(cli) == [young, runs]
    for job in old:
        assert not checkpoint_of(cli, job).exists()
        assert not log_of(cli, job).exists()
    for job in (young, runs):
        assert (checkpoint_of(cli, job) / "q/commits/5").exists()
        assert log_of(cli, job).exists()
    assert reason(cli, young) == "it ended too recently"
    assert cli.ok("purge", *OLD, "--yes", "-q").out == ""


def test_a_dry_run_says_why(cli: Command) -> None:
    add(cli, "a")
    add(cli, "b", days=1)
    lines = cli.ok("purge", *OLD, "--dry-run").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["remove", "remove", "remove", "keep"]
    assert f"checkpoint {checkpoint_of(cli, 'a' * 32)}" in lines[1]
    assert lines[1].endswith("nothing needs it")
    assert lines[-1].endswith("kept: it ended too recently")
    parts = cli.ok("purge", *OLD, "--dry-run", "--json").json()["jobs"][0]["parts"]
    assert [part["what"] for part in parts] == ["checkpoint", "log", "record"]


def test_nothing_goes_without_agreement(cli: Command) -> None:
    job = add(cli, "a")
    refused = cli("purge", *OLD)
    assert refused.code == 5
    assert "1 job" in refused.err
    assert known(cli) == [job]
    assert checkpoint_of(cli, job).exists()


def test_mistakes(cli: Command) -> None:
    assert cli("purge").code == 2
    assert "--ended-before: 'soon' is not a duration" in cli("purge", "--ended-before", "soon").err
    assert "no job has ended" in cli.ok("purge", *OLD).err


def test_failures_that_nobody_knows_of_stay(cli: Command) -> None:
    job = add(cli, "a", JobState.FAILED)
    with cli.registry() as registry:
        registry._database.write(
            lambda tx: tx.execute("UPDATE flinkish_jobs SET acknowledged = NULL")
        )
        registry._database.write(
            lambda tx: tx.execute(
                "UPDATE flinkish_states SET state = 'RUNNING' WHERE number = 1 AND job_id = :id",
                id=job,
            )
        )
    assert "flinkish ack, or --failed" in reason(cli, job)
    assert cli.ok("purge", *OLD, "--failed", "--yes", "-q").out.split() == [job]


def test_the_programs_own_checkpoint_stays(cli: Command) -> None:
    own = cli.directory / "mine"
    job = add(cli, "a", checkpoint=own)
    shown = cli.ok("purge", *OLD, "--yes").out
    assert f"checkpoint {own}" in shown
    assert "kept: the program chose that place" in shown
    assert (own / "commits/5").exists()
    assert known(cli) == []
    assert not log_of(cli, job).exists()


def test_a_job_that_runs_needs_what_it_was_restored_from(cli: Command) -> None:
    old = add(cli, "a")
    restored = Launch("/app.py", restore=RestoreSpec(str(checkpoint_of(cli, old) / "q")))
    add(cli, "b", None, launch=restored)
    assert "was restored from its checkpoints" in reason(cli, old)
    assert cli.ok("purge", *OLD, "--yes", "-q").out == ""
    assert checkpoint_of(cli, old).exists()


def test_a_savepoint_in_the_checkpoints_stays(cli: Command) -> None:
    job = add(cli, "a")
    path = make_savepoint(str(checkpoint_of(cli, job)), time.time(), job_id=job, name="app")
    assert "it contains a savepoint" in reason(cli, job), "though the registry does not know it"
    cli.ok("savepoint", "import", path)
    assert cli.ok("purge", *OLD, "--yes", "-q").out == ""
    assert (Path(path) / "_metadata").exists()


def test_a_link_is_not_followed(cli: Command) -> None:
    job = add(cli, "a")
    elsewhere = cli.directory / "elsewhere"
    checkpoint_of(cli, job).rename(elsewhere)
    checkpoint_of(cli, job).symlink_to(elsewhere)
    assert "it is a link" in reason(cli, job)
    assert cli.ok("purge", *OLD, "--yes", "-q").out == ""
    assert (elsewhere / "q/commits/5").exists()


def test_a_link_inside_goes_and_what_it_leads_to_stays(cli: Command) -> None:
    job = add(cli, "a")
    elsewhere = cli.directory / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("x")
    link = checkpoint_of(cli, job) / "q" / "link"
    link.symlink_to(elsewhere)
    os.utime(link, (1.0, 1.0), follow_symlinks=False)
    assert cli.ok("purge", *OLD, "--yes", "-q").out.split() == [job]
    assert (elsewhere / "precious").exists()


def test_a_directory_of_another_name_is_not_a_checkpoint_of_flinkish(cli: Command) -> None:
    job = add(cli, "a")
    odd = cli.directory / "checkpoints"
    with cli.registry() as registry:
        registry.update_job(job, checkpoint_dir=str(odd))
    assert "its name is not that of a checkpoint" in reason(cli, job)
    assert cli.ok("purge", *OLD, "--yes", "-q").out == ""
    assert (odd / job / "q").exists()


def test_a_checkpoint_in_which_another_program_goes_on_stays(cli: Command) -> None:
    """One without flinkish, or a job of another registry."""
    job = add(cli, "a")
    (checkpoint_of(cli, job) / "q/commits/6").write_text("v1\n{}")
    assert reason(cli, job) == "its checkpoints were written to after it had ended"
    assert cli.ok("purge", *OLD, "--yes", "-q").out == ""
    assert (checkpoint_of(cli, job) / "q/commits/6").exists()


def test_while_a_savepoint_of_it_is_written_a_job_stays(cli: Command) -> None:
    job, target = add(cli, "a"), cli.directory / "sp"
    target.mkdir()
    options = ("-D", f"execution.checkpointing.savepoint-dir={target}")
    with Lease.take(str(target), Kind.WRITE, owner="eva@host", job_id=job):
        assert "a savepoint is being written by eva@host" in reason(cli, job, *options)
        assert cli.ok("purge", *OLD, "--yes", "-q", *options).out == ""
    assert cli.ok("purge", *OLD, "--yes", "-q", *options).out.split() == [job]


def test_while_its_checkpoints_are_read_for_an_unknown_place_a_job_stays(cli: Command) -> None:
    """By an export, or by a savepoint into a directory that the registry has not seen."""
    job = add(cli, "a")
    with cli.registry() as registry:
        record = registry.job(job)
    with kept_from_purge(record, "eva@host"):
        assert "state is being copied or rewritten by eva@host" in reason(cli, job)
        assert cli.ok("purge", *OLD, "--yes", "-q").out == ""
    assert cli.ok("purge", *OLD, "--yes", "-q").out.split() == [job]
    with kept_from_purge(record, "eva@host"):
        assert os.listdir(cli.directory / "checkpoints") == ["_locks"]
    assert os.listdir(cli.directory / "checkpoints") == []


def test_where_leases_cannot_be_read_every_job_stays(cli: Command) -> None:
    """A first savepoint may be going there: no record names the directory yet."""
    job, target = add(cli, "a"), cli.directory / "sp"
    target.symlink_to(target)  # cannot be listed, also by root
    options = ("-D", f"execution.checkpointing.savepoint-dir={target}")
    assert f"in {target}, which cannot be checked" in reason(cli, job, *options)
    assert cli.ok("purge", *OLD, "--yes", "-q", *options).out == ""


def test_the_record_stays_while_an_earlier_savepoint_is_there(cli: Command) -> None:
    job = add(cli, "a", batch=3)  # the last heartbeat; the checkpoint is at batch 5
    path = make_savepoint(str(cli.directory / "sp"), time.time(), job_id=job, name="job-a")
    with cli.registry() as registry:
        cli.ok("savepoint", "import", path)
        (record,) = registry.savepoints()
        saved = replace(record, queries=(SavedQuery("q", 4, "id-a"),))
        registry.add_savepoint(saved)
    shown = cli.ok("purge", *OLD, "--yes").out
    assert "is of batch 4 of query 'q', which this job continued to batch 5" in shown
    assert not checkpoint_of(cli, job).exists()
    assert cli.status(job)["queries"][0]["batch_id"] == 5, "restores have to know of it"
    for words in (("restart", job), ("savepoint", job, "sp2")):
        refused = cli(*words)
        assert refused.code == 13
        assert "flinkish purge has removed what flinkish kept" in refused.err
    assert cli.ok("purge", *OLD, "--yes", "-q").out == ""
    with cli.registry() as registry:
        registry.mark_disposed(path)
    assert cli.ok("purge", *OLD, "--yes", "-q").out.split() == [job]
    assert known(cli) == []


def test_an_interrupted_purge_is_run_again(cli: Command) -> None:
    job = add(cli, "a")
    with cli.registry() as registry:
        registry.begin_purge(registry.job(job), {})
    (checkpoint_of(cli, job) / "q/commits/5").unlink()
    assert cli("restart", job).code == 13
    assert cli.ok("purge", *OLD, "--yes", "-q").out.split() == [job]
    assert not checkpoint_of(cli, job).exists()


def test_from_python(cli: Command) -> None:
    job = add(cli, "a")
    with Client() as client:
        planned = client.purge(30 * DAY, dry_run=True)
        assert [each.job.job_id for each in planned.going] == [job]
        assert checkpoint_of(cli, job).exists()
        done = client.purge(30 * DAY)
        assert [each.removed for each in done.jobs] == [True]
        assert done.errors == ()
    assert known(cli) == []


@pytest.mark.parametrize("what", ["checkpoint", "log"])
def test_what_cannot_be_removed_is_an_error_and_the_record_stays(cli: Command, what: str) -> None:
    job, other = add(cli, "a"), add(cli, "b")
    if what == "log":  # a directory of that name is no log
        log_of(cli, job).unlink()
        log_of(cli, job).mkdir()
    else:  # deeper than what flinkish removes
        deep = checkpoint_of(cli, job)
        for _ in range(205):
            deep = deep / "d"
        deep.mkdir(parents=True)
    result = cli("purge", *OLD, "--yes")
    assert result.code == 3
    assert "1 of 2 jobs could not be removed" in result.err
    assert known(cli) == [job]
    assert not log_of(cli, other).exists()


def leftover(cli: Command, *, days: float, lease: bool = True, digit: str = "f") -> Path:
    """What a rehearsal has left whose command and driver were killed so many days ago."""
    path = cli.directory / "checkpoints" / f".rehearsal-{digit * 32}"
    (path / "q" / "commits").mkdir(parents=True)
    (path / "q" / "commits" / "5").write_text("v1\n{}")
    if lease:
        gone = Lease.take(str(path), Kind.REWRITE, owner="flinkish rehearse")
        record = replace(gone.record, pid=4_194_304)
        gone.release()
        (path / "_locks").mkdir()
        (path / "_locks" / record.lease_id).write_bytes(record.to_bytes())
    then = time.time() - days * DAY
    for each in (path, *path.rglob("*")):
        os.utime(each, (then, then))
    return path


def leftovers(cli: Command, *options: str) -> dict[str, str | None]:
    """The reasons why directories of rehearsals stay, by name."""
    found = cli.ok("purge", *OLD, "--dry-run", "--json", *options).json()["leftovers"]
    return {Path(each["path"]).name: each["reason"] for each in found}


@pytest.mark.parametrize("lease", [True, False])
def test_what_a_killed_rehearsal_has_left_goes(cli: Command, lease: bool) -> None:
    old = leftover(cli, days=40, lease=lease)
    young = leftover(cli, days=20, lease=lease, digit="e")
    job = add(cli, "a", days=1)
    other = old.parent / ".rehearsal"
    other.mkdir()
    refused = cli("purge", *OLD)
    assert refused.code == 5
    assert "removing 1 leftover rehearsal (" in refused.err
    shown = cli.ok("purge", *OLD, "--dry-run").out
    (line,) = (line for line in shown.splitlines() if str(old) in line)
    assert line.startswith("remove ")
    assert line.endswith("nothing needs it")
    assert leftovers(cli) == {old.name: None, young.name: "it was changed too recently"}
    (done, kept) = sorted(
        cli.ok("purge", *OLD, "--yes", "--json").json()["leftovers"], key=lambda e: e["keep"]
    )
    assert (done["path"], done["removed"], done["error"]) == (str(old), True, None)
    assert (kept["path"], kept["removed"]) == (str(young), False)
    assert not old.exists()
    assert young.exists()
    assert other.exists(), "not a name that flinkish gives"
    assert known(cli) == [job]
    assert cli("purge", *OLD).code == 0, "nothing is left to agree to"


def test_a_rehearsal_that_goes_on_stays(cli: Command) -> None:
    add(cli, "a", days=1)
    path = leftover(cli, days=40)
    with Lease.take(str(path), Kind.REWRITE, owner="flinkish rehearse"):
        why = f"its rehearsal is still running (pid {os.getpid()} on {os.uname().nodename})"
        assert leftovers(cli) == {path.name: why}
        assert cli.ok("purge", "--ended-before", "0s", "--yes", "-q").out.split() == ["a" * 32]
        assert (path / "q/commits/5").exists()
    here = ("-D", f"execution.checkpointing.dir={path.parent}")
    assert leftovers(cli, *here)[path.name] == "it was changed too recently", "but just now"
    assert "may still be running" in str(leftovers(cli, *here, "--ended-before", "0s")[path.name])


def test_a_leftover_that_is_a_link_is_not_followed(cli: Command) -> None:
    add(cli, "a", days=1)
    path = leftover(cli, days=40)
    elsewhere = path.rename(cli.directory / "elsewhere")
    path.symlink_to(elsewhere)
    assert "it is a link" in str(leftovers(cli)[path.name])
    assert cli.ok("purge", *OLD, "--yes", "-q").out == ""
    assert (elsewhere / "q/commits/5").exists()


def test_a_leftover_where_no_job_is_known(cli: Command) -> None:
    path = leftover(cli, days=40)
    assert leftovers(cli) == {}
    options = ("-D", f"execution.checkpointing.dir={path.parent}")
    assert leftovers(cli, *options) == {path.name: None}
    cli.ok("purge", *OLD, "--yes", *options)
    assert not path.exists()


def test_a_leftover_that_cannot_be_removed(cli: Command) -> None:
    add(cli, "a", days=1)
    path = leftover(cli, days=40)
    deep = path
    for _ in range(205):
        deep = deep / "d"
    deep.mkdir(parents=True)
    os.utime(path, (1e9, 1e9))
    failed = cli("purge", *OLD, "--yes")
    assert failed.code == 3
    assert "1 of 1 leftover of rehearsals could not be removed" in failed.err
    assert path.exists()
