"""``restart`` and ``recover``: ended jobs again. The drivers are processes without Spark."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.errors import NonRestoredState
from flinkish.messages.launch import ExternalLauncher, Launch, RestoreSpec
from flinkish.messages.queries import QueryStatus
from flinkish.registry.jobs import JobRecord, JobState, ProcessRef
from flinkish.registry.liveness import is_alive, process_ref
from tests.cli.conftest import Command, wait_until
from tests.support.savepoint.small_savepoints import make_savepoint

RAN = (JobState.INITIALIZING, JobState.CREATED, JobState.RUNNING)
LOST = {"id": "driver-lost", "code": 1, "message": "the driver process is gone"}
BROKEN = {"id": "program-failed", "code": 1, "message": "it broke"}
RETURNS = {"restart-strategy.type": "fixed-delay"}


def add(
    cli: Command,
    digit: str,
    name: str,
    end: JobState = JobState.FAILED,
    *,
    failure: dict[str, object] | None = None,
    launch: Launch | None = None,
    host: str | None = None,
    query: QueryStatus | None = None,
) -> str:
    """Add a job that ran on ``host`` (default: this one) and has ended."""
    ran_on = ProcessRef(host or os.uname().nodename, 4_194_304, 1)
    given = launch or Launch(str(cli.program), spark_home=str(cli.spark_home))
    given = replace(given, arguments=given.arguments or ("serve",))
    job = JobRecord(
        digit * 32,
        name,
        JobState.INITIALIZING,
        1.0,
        given,
        log_path=str(cli.directory / f"{digit}.log"),
        checkpoint_dir=str(cli.directory / "checkpoints" / (digit * 32)),
    )
    with cli.registry() as registry:
        registry.add_job(job)
        registry.update_job(job.job_id, supervisor=ran_on, driver=ran_on)
        for state in RAN[1:]:
            registry.transition(job.job_id, state)
        if query is not None:
            registry.heartbeat(job.job_id, [query])
        if end is JobState.CANCELED:
            registry.transition(job.job_id, JobState.CANCELLING)
        registry.transition(
            job.job_id, end, failure=failure or (BROKEN if end is JobState.FAILED else None)
        )
    return job.job_id


def query(cli: Command, batch: int | None) -> QueryStatus:
    return QueryStatus("q", "query-id", "run-id", str(cli.directory / "cp"), batch_id=batch)


@pytest.mark.parametrize("end", [JobState.FAILED, JobState.CANCELED, JobState.FINISHED])
def test_an_ended_job_is_started_again(cli: Command, end: JobState) -> None:
    job = add(cli, "a", "rides", end)
    assert cli.ok("restart", "rides", "-q").out.strip() == job
    record = cli.status(job)
    assert record["state"] == "RUNNING"
    assert (record["failure"], record["exit_status"], record["end_time"]) == (None, None, None)
    history = [change["state"] for change in record["state_history"]]
    assert history[-4:] == [end.value, "RESTARTING", "CREATED", "RUNNING"]
    assert [each["reason"] for each in record["restarts"]] == ["restart requested"]
    assert "failed" not in cli.ok("list").err


def test_a_running_job_is_not(cli: Command) -> None:
    job = cli.start()
    refused = cli("restart", job, "--json")
    assert refused.code == 13
    assert "RUNNING" in refused.error()["message"]
    assert f"flinkish stop {job}" in refused.error()["hint"]


@pytest.mark.parametrize("options", [(), ("--from", "sp")])
def test_a_job_of_another_launcher_is_its_business(cli: Command, options: tuple[str, ...]) -> None:
    launch = Launch(str(cli.program), external=ExternalLauncher("spark-submit", "0.1.0"))
    job = add(cli, "a", "rides", launch=launch)
    refused = cli("restart", job, *options, "--json")
    assert (refused.code, refused.error()["id"]) == (13, "external-job")
    assert "its launcher (spark-submit)" in refused.error()["message"]
    assert "FLINKISH_FROM_SAVEPOINT=PATH" in refused.error()["hint"]
    upgraded = cli("upgrade", "in-place", job, "--to", str(cli.program), "--json")
    assert upgraded.error()["id"] == "external-job"
    log = cli("logs", job, "--json")
    assert "kept by its launcher (spark-submit)" in log.error()["message"]
    assert "external (spark-submit)" in cli.ok("status", job).out


def test_recover_says_so_too(cli: Command) -> None:
    """A restart strategy comes with the configuration, which is that of every job."""
    external = ExternalLauncher("python", "0.1.0")
    launch = Launch(str(cli.program), options=RETURNS, external=external)
    add(cli, "a", "rides", failure=LOST, launch=launch)
    refused = cli("recover")
    assert refused.code == 1
    assert "its launcher (python)" in refused.out + refused.err


def test_sink_ahead_is_for_a_savepoint(cli: Command) -> None:
    job = add(cli, "a", "rides")
    refused = cli("restart", job, "--sink-ahead", "rebase")
    assert refused.code == 2
    assert "--from" in refused.err


def test_dry_run_starts_nothing(cli: Command) -> None:
    job = add(cli, "a", "rides", query=query(cli, None))
    shown = cli.ok("restart", job, "--dry-run").out
    assert shown == f"Would restart job rides ({job}): query 'q' from the beginning.\n"
    assert cli.status(job)["state"] == "FAILED"


def test_a_checkpoint_that_is_gone_is_named(cli: Command) -> None:
    job = add(cli, "a", "rides", query=query(cli, 7))
    refused = cli("restart", job)
    assert refused.code == 13
    assert "had committed batch 7" in refused.err
    assert str(cli.directory / "cp") in refused.err


def test_state_that_a_refused_start_left_behind_is_not_dropped(cli: Command) -> None:
    left = NonRestoredState("no operator takes: uid 'y'").to_record()
    refused = cli("restart", add(cli, "a", "rides", failure=left, query=query(cli, None)))
    assert refused.code == 13
    assert "uid 'y'" in refused.err
    assert "-n" in refused.err


def test_a_program_that_is_gone_is_named(cli: Command) -> None:
    job = add(cli, "a", "rides", launch=Launch("/nope/app.py"))
    refused = cli("restart", job)
    assert refused.code == 13
    assert "/nope/app.py" in refused.err


def test_two_jobs_with_the_name_of_their_program_both_come_back(cli: Command) -> None:
    program = Launch(str(cli.program), spark_home=str(cli.spark_home), options=RETURNS)
    shared = program.default_name
    lost = [add(cli, digit, shared, failure=LOST, launch=program) for digit in "ab"]
    assert cli.ok("recover", "-q").out.split() == lost


def test_not_beside_another_job_of_the_name(cli: Command) -> None:
    job = add(cli, "a", "rides")
    other = cli.start("serve", "--name", "rides")
    refused = cli("restart", job)
    assert refused.code == 13
    assert other in refused.err


def test_not_when_another_job_has_gone_on_from_its_state(cli: Command) -> None:
    job = add(cli, "a", "rides", query=query(cli, None))
    later = add(cli, "b", "rides-2", JobState.CANCELED, query=query(cli, None))
    with cli.registry() as registry:
        ended = registry.job(job).end_time
        assert ended is not None
        registry._database.write(
            lambda tx: tx.execute(
                "UPDATE flinkish_jobs SET start_time = :t WHERE job_id = :id",
                t=ended + 1,
                id=later,
            )
        )
    refused = cli("restart", job)
    assert refused.code == 13
    assert f"rides-2 ({later})" in refused.err
    assert "has resumed from its state" in refused.err
    assert cli("restart", later, "--dry-run").code == 0, "the one that has gone on can"


def test_one_that_died_before_it_had_a_query_has_not_gone_on(cli: Command) -> None:
    job = add(cli, "a", "rides", query=query(cli, None))
    with cli.registry() as registry:
        gone = ProcessRef(os.uname().nodename, 4_194_304, 1)
        launch = Launch("/a.py", restore=RestoreSpec("/cp/a", job=job))
        later = JobRecord("b" * 32, "later", JobState.INITIALIZING, registry.now(), launch)
        registry.add_job(replace(later, supervisor=gone, driver=gone))
    assert cli("restart", job, "--dry-run").code == 0


def test_secrets_have_to_be_given_again(cli: Command) -> None:
    program = Launch(
        str(cli.program),
        spark_home=str(cli.spark_home),
        conf={"spark.my.password": "******", "spark.x": "1"},
        secret_arguments=("******",),
    )
    job = add(cli, "a", "rides", launch=program)
    refused = cli("restart", job)
    assert refused.code == 2
    assert "--conf spark.my.password" in refused.err
    assert "--secret-args FILE" in refused.err
    path = cli.directory / "secret"
    path.write_text("--token=abc\n")
    path.chmod(0o600)
    given = ("--conf", "spark.my.password=open sesame", "--secret-args", str(path))
    changed = cli("restart", job, *given, "--conf", "spark.x=2")
    assert changed.code == 2
    assert "spark.x would change" in changed.err, "in place nothing else is handed over"
    assert cli.ok("restart", job, "-q", *given).out.strip() == job
    shown = cli.ok("status", job, "--json").out
    assert "open sesame" not in shown
    assert "abc" not in shown


@pytest.mark.parametrize(("recorded", "given"), [(0, 1), (2, 1), (1, 2)])
def test_in_place_a_program_gets_no_more_and_no_fewer_arguments(
    cli: Command, recorded: int, given: int
) -> None:
    program = Launch(str(cli.program), secret_arguments=("******",) * recorded)
    job = add(cli, "a", "rides", launch=program)
    path = cli.directory / "secret"
    path.write_text("--token=abc\n" * given)
    path.chmod(0o600)
    refused = cli("restart", job, "--secret-args", str(path), "--dry-run")
    assert refused.code == 2
    assert f"it was started with {recorded} secret argument" in refused.err
    assert f"not {given}" in refused.err


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_from_a_savepoint_that_is_not_there(cli: Command, dry_run: tuple[str, ...]) -> None:
    job = add(cli, "a", "rides")
    assert cli("restart", job, "--from", str(cli.directory / "nope"), *dry_run).code == 11
    assert cli.status(job)["state"] == "FAILED"


def test_a_dry_run_from_a_savepoint_finds_what_the_start_would(cli: Command) -> None:
    running = JobRecord("b" * 32, "rides", JobState.RUNNING, 1.0, Launch("/a.py"))
    program = Launch(str(cli.program), spark_home=str(cli.spark_home))
    job = add(cli, "a", "rides", launch=program)
    path = make_savepoint(str(cli.directory), time.time(), job_id=job, name="job")
    words = ("restart", job, "--from", path, "--dry-run")
    assert f"from {path}, as a new job" in cli.ok(*words).out
    with cli.registry() as registry:
        registry.add_job(running)
        registry.update_job(running.job_id, supervisor=process_ref(), driver=process_ref())
    assert cli("restart", running.job_id, "--from", path, "--dry-run").code == 13
    assert f"that of job {running.job_id}" in cli(*words).err
    with cli.registry() as registry:
        gone = ProcessRef(os.uname().nodename, 4_194_304, 1)
        registry.update_job(running.job_id, supervisor=gone, driver=gone)
    cli.ok(*words)  # the other job is dead


def test_a_refusal_says_which_command_takes_its_options(cli: Command) -> None:
    program = Launch(str(cli.program), ("refused",), spark_home=str(cli.spark_home))
    job = add(cli, "a", "rides", launch=program)
    path = make_savepoint(str(cli.directory), time.time(), job_id=job, name="job")
    refused = cli("restart", job, "--from", path)
    assert refused.code == 5
    assert f"--accept-repeated-rows (give these options to flinkish run -s {path}" in refused.err


def test_a_consent_needs_a_savepoint_and_is_passed_on(cli: Command) -> None:
    program = Launch(str(cli.program), spark_home=str(cli.spark_home))
    job = add(cli, "a", program.default_name, launch=program)
    assert "--accept-lost-rows requires --from" in cli("restart", job, "--accept-lost-rows").err
    path = make_savepoint(str(cli.directory), time.time(), job_id=job, name="job")
    more = ("--accept-lost-rows", "--conf", "spark.sql.shuffle.partitions=8")
    new = cli.ok("restart", job, "--from", path, "-q", *more).out.strip()
    with cli.registry() as registry:
        restore = registry.job(new).launch.restore
    assert restore is not None
    assert restore.options.accept_lost_rows
    assert restore.parallelism == 8, "what is asked for now rescales the state, as in run -s"


def test_from_a_savepoint_beside_another_run_of_its_program(cli: Command) -> None:
    """As in place: only a name that somebody gave is held unique."""
    program = Launch(str(cli.program), spark_home=str(cli.spark_home))
    unnamed, named = add(cli, "a", program.default_name), add(cli, "b", "rides")
    path = make_savepoint(str(cli.directory), time.time(), job_id=unnamed, name="job")
    moved = make_savepoint(str(cli.directory / "moved"), time.time(), job_id=unnamed, name="job")
    others = cli.start("serve", "-s", moved), cli.start("serve", "--name", "rides")
    new = cli.ok("restart", unnamed, "--from", path, "-q").out.strip()
    assert new not in (unnamed, *others)
    assert cli.status(new)["name"] == program.default_name
    with cli.registry() as registry:
        restore = registry.job(new).launch.restore
        saved = {each.path for each in registry.savepoints(unnamed)}
    assert saved == {moved, path}, "the registry knows whose state they continue"
    assert restore is not None
    assert not restore.options.accept_lost_rows, "what run -s asks is asked here too"
    refused = cli("restart", named, "--from", path)
    assert refused.code == 13
    assert others[1] in refused.err


def test_cancel_acknowledges_a_failure(cli: Command) -> None:
    job = add(cli, "a", "rides")
    assert cli.ok("list", "--failed", "-q").out.split() == [job]
    refused = cli("cancel", job)
    assert refused.code == 13
    assert "acknowledged" in refused.err
    assert cli.ok("list", "--failed", "-q").out == ""


def test_it_waits_for_the_last_driver_to_end(cli: Command) -> None:
    job = add(cli, "a", "rides")
    with subprocess.Popen(["sleep", "0.5"]) as last:
        with cli.registry() as registry:
            registry.update_job(job, driver=process_ref(last.pid))
        assert cli.ok("restart", job, "-q").out.strip() == job
        assert last.poll() is not None or not is_alive(process_ref(last.pid))


def test_recover_takes_what_is_lost_and_asks_for_it(cli: Command) -> None:
    program = Launch(str(cli.program), spark_home=str(cli.spark_home), options=RETURNS)
    lost = add(cli, "a", "lost", failure=LOST, launch=program)
    add(cli, "b", "broken", failure=BROKEN, launch=program)
    add(cli, "c", "unasked", failure=LOST)
    add(cli, "d", "elsewhere", failure=LOST, launch=program, host="another-host")
    known = add(cli, "e", "known", failure=LOST, launch=program)
    cli.ok("ack", known)
    # Their drivers left it to their supervisors to restart them; one has decided, one was gone.
    undecided = add(cli, "f", "undecided", JobState.FAILING, failure=BROKEN, launch=program)
    decided = add(cli, "1", "decided", JobState.FAILING, failure=BROKEN, launch=program)
    with cli.registry() as registry:
        registry.update_job(decided, exit_status=1)
        registry.transition(decided, JobState.FAILED)
    for _ in range(2):  # the first finds the job FAILING, the second FAILED
        would = cli.ok("recover", "--dry-run", "--json").json()
        assert would["dry_run"] is True
        assert [job["job_id"] for job in would["restarted"]] == [lost, undecided]
    cli.ok("ack", undecided)
    assert cli.status(lost)["state"] == "FAILED"
    assert cli.ok("recover", "-q").out.split() == [lost]
    wait_until(lambda: cli.status(lost)["state"] == "RUNNING", "it runs")
    assert "Nothing to do" in cli.ok("recover").err


@pytest.mark.parametrize("here", [True, False])
def test_recover_takes_a_job_whose_restart_was_cut_off(cli: Command, here: bool) -> None:
    """No process is recorded for it any more: the host with its log takes it."""
    program = Launch(str(cli.program), spark_home=str(cli.spark_home), options=RETURNS)
    job = add(cli, "a", "lost", failure=LOST, launch=program)
    if here:
        (cli.directory / "a.log").touch()
    with cli.registry() as registry:
        registry.restart(registry.job(job), "recovered")
        registry._database.write(
            lambda tx: tx.execute("UPDATE flinkish_jobs SET heartbeat = heartbeat - 100")
        )
    for _ in range(2):  # the first finds the job RESTARTING, the second FAILED
        would = cli.ok("recover", "--dry-run", "--json").json()
        assert [each["job_id"] for each in would["restarted"]] == [job] * here


def test_recover_says_what_it_could_not_start(cli: Command) -> None:
    program = Launch(str(cli.program), spark_home=str(cli.spark_home), options=RETURNS)
    add(cli, "a", "gone", failure=LOST, launch=replace(program, application="/nope/app.py"))
    alone = cli("recover")
    assert alone.code == 1
    assert "/nope/app.py" in alone.err
    add(cli, "b", "fine", failure=LOST, launch=program)
    assert cli("recover", "--json").code == 3


def test_a_killed_job_is_recovered(cli: Command) -> None:
    job = cli.start("serve", "--restart-strategy", "fixed-delay")
    with cli.registry() as registry:
        record = registry.job(job)
    assert record.supervisor is not None
    assert record.driver is not None
    (checkpoint,) = (query["checkpoint_dir"] for query in cli.status(job)["queries"])
    commits = Path(checkpoint, "commits")
    commits.mkdir(parents=True)
    (commits / "7").write_text("v1\n{}")
    os.kill(record.supervisor.pid, signal.SIGKILL)
    os.killpg(record.driver.pid, signal.SIGKILL)
    processes = (record.supervisor, record.driver)
    wait_until(lambda: not any(is_alive(process) for process in processes), "both are gone")
    assert cli.ok("recover", "-q").out.split() == [job]
    wait_until(lambda: cli.status(job)["state"] == "RUNNING", "it runs again")


def test_a_wrong_strategy_is_refused_before_anything_starts(cli: Command) -> None:
    refused = cli(*cli.run_words("serve", "-d", "--restart-strategy", "always"))
    assert refused.code == 2
    assert "fixed-delay" in refused.err
    assert cli.ok("list", "-a", "--json").json()["jobs"] == []
