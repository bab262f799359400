"""The mechanics of the commands, from ``run`` to ``cancel``, on real processes."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import PATIENCE, Command, line_with, wait_until


def test_run_detached_says_submitted_when_the_job_runs(cli: Command) -> None:
    result = cli.ok(*cli.run_words("serve", "-d"))
    assert result.out.startswith("Job has been submitted with JobID ")
    job = result.out.split()[-1]
    record = cli.status(job)
    assert record["state"] == "RUNNING"
    assert record["name"] == "app"
    assert [s["state"] for s in record["state_history"]] == ["INITIALIZING", "CREATED", "RUNNING"]
    assert record["queries"][0]["batch_id"] == 7
    assert cli.ok("list", "-q").out == job + "\n"


def test_run_json_and_name(cli: Command) -> None:
    document = cli.ok(*cli.run_words("serve", "-d", "--json", "--name", "mine")).json()
    assert document["name"] == "mine"
    assert document["state"] == "RUNNING"
    assert cli.status("mine")["job_id"] == document["job_id"]


def test_everything_after_the_program_is_the_programs(cli: Command) -> None:
    words = cli.run_words("serve", "-d", "-q")
    job = cli.ok(*words, "-d", "--json", "--", "-n", "a b").out.strip()
    assert f"arguments: {cli.program} serve -d --json -- -n a b" in cli.ok("logs", job).out


def test_run_detached_reports_a_program_that_dies(cli: Command) -> None:
    result = cli(*cli.run_words("die", "-d"))
    assert result.code == 1
    assert result.out == "", "never submitted"
    assert "ModuleNotFoundError: No module named 'nothing'" in result.err
    assert "hint: see the whole log with: flinkish logs " in result.err
    error = cli(*cli.run_words("die", "-d", "--json")).error()
    assert error["id"] == "program-failed"
    assert error["tail"] == ["a", "b"]
    assert len(error["job_id"]) == 32


def test_run_detached_of_a_batch_program_returns_when_it_finished(cli: Command) -> None:
    document = cli.ok(*cli.run_words("batch", "-d", "--json")).json()
    assert document["state"] == "FINISHED"


def test_attached_run_follows_to_the_end(cli: Command) -> None:
    result = cli.ok(*cli.run_words("bounded"))
    assert result.out.startswith("Job has been submitted with JobID ")
    assert len(result.out.splitlines()) == 1
    assert "the last line" in result.err
    assert "has finished." in result.err
    assert "SparkContext" not in result.err
    assert "Spark's log is not shown (use -v)" in result.err
    verbose = cli.ok(*cli.run_words("bounded", "-v")).err
    assert "INFO SparkContext: SparkContext is stopping\nthe last line\n" in verbose
    assert "is left out" not in verbose
    assert cli.ok(*cli.run_words("bounded", "--json")).json()["state"] == "FINISHED"
    assert cli(*cli.run_words("die")).code == 1


def test_a_program_without_a_query_is_warned_about(cli: Command) -> None:
    for words in (cli.run_words("batch"), cli.run_words("batch", "-d")):
        assert "has ended without starting a query" in cli.ok(*words).err


def test_what_a_program_said_before_it_exited_is_shown(cli: Command) -> None:
    failed = cli(*cli.run_words("usage", "-d"))
    assert failed.code == 1
    assert "  app.py: error: --out is required\n" in failed.err
    assert "SparkContext" not in failed.err
    (job,) = cli.ok("list", "-a", "--json").json()["jobs"]
    assert "app.py: error: --out is required" in cli.ok("status", job["job_id"]).out


def test_the_arguments_of_savepoint_the_other_way_round(cli: Command, tmp_path: Path) -> None:
    job = cli.start()
    swapped = cli("savepoint", str(tmp_path), job, "--json")
    assert swapped.code == 2
    assert swapped.error()["hint"] == f"flinkish savepoint {job} {tmp_path}"
    assert "name the job first" in swapped.error()["message"]
    assert cli("savepoint", str(tmp_path), "nobody").code == 10


def test_no_wait_returns_at_once(cli: Command) -> None:
    result = cli.ok(*cli.run_words("silent", "-d", "--no-wait", "--json")).json()
    assert result["state"] == "INITIALIZING"


def test_run_detached_waits_as_long_as_the_timeout_says(cli: Command) -> None:
    result = cli(*cli.run_words("silent", "-d", "-D", "client.timeout=300 ms", "--json"))
    assert result.code == 14
    assert result.error()["state"] == "INITIALIZING"


def test_savepoint_prints_its_path(cli: Command, tmp_path: Path) -> None:
    job = cli.start()
    result = cli.ok("savepoint", job, "sp")
    (path,) = (tmp_path / "sp").iterdir()
    assert result.out == f"Savepoint completed. Path: file:{path}\n"
    assert f"Triggering savepoint for job {job}." in result.err
    quiet = cli.ok("savepoint", job, f"file://{tmp_path}/quiet", "-q")
    assert Path(quiet.out.strip()).parent == tmp_path / "quiet"
    assert quiet.err == ""
    document = cli.ok("savepoint", job, str(tmp_path), "--json").json()
    assert document["job_id"] == job
    assert document["state"] == "COMPLETED"
    (saved,) = document["savepoint"]["queries"]
    assert (saved["name"], saved["batch_id"]) == ("counts", 7)
    assert len(document["request_id"]) == 32


def test_the_default_directory_comes_from_the_configuration(
    cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = cli.start()
    missing = cli("savepoint", job, "--json")
    assert missing.code == 2
    assert missing.error()["id"] == "no-savepoint-directory"
    assert "execution.checkpointing.savepoint-dir" in missing.error()["message"]
    assert cli("stop", job).code == 2
    assert cli("cancel", "-s", job).code == 2
    assert cli.status(job)["state"] == "RUNNING"
    key = "execution.checkpointing.savepoint-dir"
    one = cli.ok("savepoint", job, "-q", f"-D{key}=by-option").out.strip()
    assert Path(one).parent == tmp_path / "by-option"
    (tmp_path / "flinkish.toml").write_text('"state.savepoints.dir" = "by-file"\n')
    two = cli.ok("savepoint", job, "-q").out.strip()
    assert Path(two).parent == tmp_path / "by-file"
    monkeypatch.setenv("FLINKISH_EXECUTION_CHECKPOINTING_SAVEPOINT_DIR", "by-environment")
    three = cli.ok("cancel", "-s", job, "-q").out.strip()
    assert Path(three).parent == tmp_path / "by-environment"
    assert cli.status(job)["state"] == "CANCELED"


@pytest.mark.parametrize(
    "words",
    [
        ["savepoint", "JOB", "sp", "-type", "canonical"],
        ["savepoint", "--all", "sp", "--type", "CANONICAL"],
        ["stop", "JOB", "-p", "sp", "-type", "canonical"],
        ["cancel", "-s", "sp", "JOB", "-type", "Canonical"],
    ],
)
def test_the_type_of_a_savepoint_reaches_the_driver(cli: Command, words: list[str]) -> None:
    job = cli.start()
    document = cli.ok(*(job if w == "JOB" else w for w in words), "--json").json()
    savepoint = document["savepoints"][0] if "--all" in words else document["savepoint"]
    assert savepoint["format"] == "canonical"
    assert [s["format"] for s in cli.status(job)["savepoints"]] == ["canonical"]


def test_a_stop_says_when_it_drains(cli: Command) -> None:
    for words, drains in (([], False), (["--drain"], True), (["-d"], True)):
        job = cli.start()
        done = cli.ok("stop", job, "-p", "sp", *words)
        assert ("Draining job" in done.err, "Suspending job" in done.err) == (drains, not drains)
        with cli.registry() as registry:
            (request,) = registry.requests(job)
        assert request.savepoint is not None
        assert request.savepoint.drain is drains


def test_stop_ends_finished_with_its_savepoint(cli: Command, tmp_path: Path) -> None:
    job = cli.start()
    result = cli.ok("stop", "-p", "sp", job)
    (path,) = (tmp_path / "sp").iterdir()
    assert result.out == f"Savepoint completed. Path: file:{path}\n"
    record = cli.status(job)
    assert record["state"] == "FINISHED"
    assert [s["path"] for s in record["savepoints"]] == [str(path)]
    assert [r["state"] for r in record["requests"]] == ["COMPLETED"]
    again = cli("stop", "-p", "sp", job)
    assert again.code == 13
    assert "FINISHED" in again.err
    for words in (["savepoint", job, "sp"], ["cancel", job], ["cancel", job, "--dry-run"]):
        assert cli(*words).code == 13


def test_a_request_that_fails_has_its_errors_exit_code(cli: Command, tmp_path: Path) -> None:
    job = cli.start("refuse")
    error = cli("stop", job, "-p", str(tmp_path), "--json").error()
    assert (error["id"], error["code"]) == ("not-savepointable", 4)
    assert error["hint"] == "use another sink"
    assert cli.status(job)["state"] == "RUNNING"
    assert cli.ok("cancel", job).out == f"Cancelled job {job}.\n"
    assert cli.status(job)["state"] == "CANCELED"


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (["-s", "SP", "JOB"], "sp"),
        (["JOB", "-s", "SP"], "sp"),
        (["-s", "JOB"], "default"),
        (["JOB", "-s"], "default"),
        (["-s", "-q", "JOB"], "default"),
        (["--withSavepoint", "SP", "JOB", "-type", "NATIVE"], "sp"),
        (["JOB"], None),
    ],
)
def test_cancel_takes_an_optional_target(
    cli: Command, tmp_path: Path, words: list[str], target: str | None
) -> None:
    job = cli.start()
    places = {"JOB": job, "SP": str(tmp_path / "sp")}
    key = "execution.checkpointing.savepoint-dir"
    document = cli.ok(
        "cancel", *(places.get(w, w) for w in words), f"-D{key}=default", "--json"
    ).json()
    assert document["job_state"] == "CANCELED"
    if target is None:
        assert document["savepoint"] is None
    else:
        assert Path(document["savepoint"]["path"]).parent == tmp_path / target


def test_detached_triggers_are_followed_by_id(cli: Command, tmp_path: Path) -> None:
    job = cli.start("slow")
    document = cli.ok("savepoint", job, "sp", "-detached", "--json").json()
    assert set(document) == {"schema_version", "request_id", "job_id"}
    request = document["request_id"]
    assert cli.ok("request", "show", request[:8], "-q").out.strip() in ("PENDING", "IN_PROGRESS")
    late = cli("request", "wait", request, "--timeout", "100 ms", "--json")
    assert late.code == 14
    assert request in late.error()["hint"]
    done = cli.ok("request", "wait", request)
    assert done.out.startswith("Savepoint completed. Path: file:")
    shown = cli.ok("request", "show", request, "--json").json()["request"]
    assert shown["state"] == "COMPLETED"
    assert shown["requester"].endswith("@" + os.uname().nodename)
    stop = cli.ok("stop", job, "-p", "sp", "-detached")
    assert "triggerId: " in stop.out
    cli.ok("request", "wait", stop.out.split()[-1])
    assert cli.status(job)["state"] == "FINISHED"


def test_a_second_stop_meets_the_first(cli: Command) -> None:
    job = cli.start("slow")
    first = cli.ok("stop", job, "-p", "sp", "-detached", "-q").out.strip()
    for second in (cli("stop", job, "-p", "sp"), cli("cancel", "-s", "sp", job)):
        assert second.code == 12
        assert first in second.err


def test_waiting_times_out_and_the_work_goes_on(cli: Command) -> None:
    job = cli.start("slow")
    error = cli("savepoint", job, "sp", "--timeout", "200ms", "--json").error()
    assert error["id"] == "timeout"
    with cli.registry() as registry:
        asked = registry.request(error["request_id"]).savepoint
        assert asked is not None
        assert asked.timeout is None, "the client's patience is no deadline of the driver"
    cli.ok("request", "wait", error["request_id"])
    assert cli.status(job)["savepoints"]


def pauses(process: subprocess.Popen[str]) -> int:
    """How often a process has waited for something, its own sleeps among that."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_waiting_only(cli: Command, signal_: signal.Signals) -> None:
    job = cli.start("deaf")
    waiting = cli.process("savepoint", job, "sp")
    line_with(waiting.stderr, "Waiting for response")
    before = pauses(waiting)
    wait_until(lambda: pauses(waiting) > before + 3, "it looks at the request again and again")
    waiting.send_signal(signal_)
    out, err = waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == (130 if signal_ is signal.SIGINT else 143)
    assert out == ""
    assert "Traceback" not in err
    (line,) = [line for line in err.splitlines() if "flinkish request wait " in line]
    request = line.split()[-1]
    assert cli.ok("request", "show", request, "-q").out == "PENDING\n", "the driver still has it"
    assert cli("request", "wait", request, "--timeout", "1ms").code == 14


@pytest.mark.parametrize("cancel_on_exit", [False, True])
def test_interrupting_an_attached_run(cli: Command, cancel_on_exit: bool) -> None:
    options = ["-sae"] if cancel_on_exit else []
    attached = cli.process(*cli.run_words("serve", *options))
    job = line_with(attached.stdout, "JobID").split()[-1]
    attached.send_signal(signal.SIGINT)
    _, err = attached.communicate(timeout=PATIENCE)
    assert attached.returncode == 130
    assert job in err
    if cancel_on_exit:
        cli.ok("request", "wait", err.split()[-1])
        assert cli.status(job)["state"] == "CANCELED"
    else:
        assert cli.status(job)["state"] == "RUNNING"


def test_a_driver_that_never_comes_up_is_ended_by_cancel(cli: Command) -> None:
    job = cli.ok(*cli.run_words("silent", "-d", "--no-wait", "-q")).out.strip()
    wait_until(lambda: "arguments:" in cli.ok("logs", job).out, "the driver's process runs")
    document = cli.ok("cancel", job, "-D", "execution.cancel.grace=200ms", "--json").json()
    assert document["stop_method"] == "kill"
    assert document["job_state"] == "CANCELED"


def test_a_driver_that_does_not_answer_is_ended_by_cancel(cli: Command) -> None:
    job = cli.start("deaf")
    pid = cli.status(job)["driver"]["pid"]
    timed_out = cli("cancel", job, "--timeout", "100ms")
    assert timed_out.code == 14
    with cli.registry() as registry:
        (first,) = registry.requests(job)
        wait_until(lambda: registry.now() > first.created + 0.2, "the driver's grace is over")
    # The second call finds the first one's request unanswered, and sees to the end of the job.
    document = cli.ok("cancel", job, "-D", "execution.cancel.grace=200ms", "--json").json()
    assert document["stop_method"] == "kill"
    assert cli.status(job)["state"] == "CANCELED"
    wait_until(lambda: not os.path.exists(f"/proc/{pid}"), "the driver's process is gone")


def test_a_killed_driver_is_listed_failed_with_the_reason(cli: Command) -> None:
    job = cli.start()
    os.kill(cli.status(job)["driver"]["pid"], signal.SIGKILL)
    wait_until(lambda: not cli.ok("list", "-q").out, "the job is no longer listed")
    # Readers may see that the driver is gone before its supervisor has said why.
    wait_until(lambda: cli.status(job)["exit_status"] is not None, "the supervisor's word")
    record = cli.status(job)
    assert record["state"] == "FAILED"
    assert "killed by SIGKILL" in record["failure"]["message"]
    assert record["exit_status"] == -9


def test_dry_runs_do_nothing(cli: Command, tmp_path: Path) -> None:
    job = cli.start()
    assert job in cli.ok("stop", job, "-p", "sp", "--dry-run").out
    document = cli.ok("cancel", job, "--dry-run", "--json").json()
    assert document == {
        "schema_version": 1,
        "dry_run": True,
        "job_id": job,
        "kind": "cancel",
        "target": None,
    }
    cli.ok("savepoint", job, "sp", "--dry-run")
    assert not (tmp_path / "sp").exists()
    assert cli.status(job)["requests"] == []
    command = cli.ok(*cli.run_words("serve", "--dry-run", "-m", "local[2]")).out
    assert "bin/spark-submit --master 'local[2]' --name app" in command
    assert len(cli.ok("list", "-a", "-q").out.split()) == 1


def test_logs(cli: Command) -> None:
    job = cli.start("bounded")
    followed = cli.ok("logs", "-f", job)
    assert followed.out.splitlines()[-1] == "the last line"
    assert cli.ok("logs", job, "-n", "1").out == "the last line\n"
    assert cli.ok("logs", job, "-n", "0").out == ""
    assert cli.ok("logs", "app", "--json").json()["lines"][-1] == "the last line"
    os.unlink(cli.status(job)["log_path"])
    assert cli("logs", job).code == 16


def test_status_for_people(cli: Command) -> None:
    job = cli.start()
    text = cli.ok("status", "app").out
    for words in (job, "RUNNING", "counts", "stateStoreSave", "STATES", "QUERIES"):
        assert words in text
    assert cli.ok("status", job, "-q").out == "RUNNING\n"
