"""What a dead job has left is saved and resumed, and so is a plain PySpark program's checkpoint."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flinkish.savepoint.format.reader import open_savepoint
from tests.e2e.test_killed import processes_of
from tests.e2e.test_lifecycle import expected_counts, final_counts, write_files
from tests.e2e.test_restarts import COMES_BACK, kill, states
from tests.support.cli.command import LIGHT, PATIENCE, PROGRAMS, Flinkish, wait_until

#: What they prove with real drivers, tests of the supervisor and of offline savepoints prove with
#: recorded checkpoints in the fast tier.
pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(600)]


def resume(flinkish: Flinkish, savepoint: str, program: str, *args: str) -> str:
    """Run the program to its end from the savepoint; returns the job id."""
    words = ("run", "--json", "-m", "local[2]", *LIGHT, "-s", savepoint, str(PROGRAMS / program))
    result = flinkish(*words, *args, timeout=PATIENCE)
    assert result.code == 0, result.err
    job: str = result.json()["job_id"]
    return job


def test_a_killed_job_is_saved_and_resumed_by_uid(flinkish: Flinkish, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    write_files(source, 0, 4)
    options = ("--name", "counts", *COMES_BACK)
    job = flinkish.run("dead.py", str(source), str(out), options=options)
    flinkish.wait_for_batch(job, 1, PATIENCE)
    # While its supervisor lives, its restart strategy brings it back.
    processes = processes_of(job)
    kill([processes["jvm"], processes["driver"]])
    write_files(source, 4, 5)
    flinkish.wait(job, lambda _: "RESTARTING" in states(flinkish, job))
    flinkish.wait_for_batch(job, 2, PATIENCE)  # has looked at its sources again
    assert "attempt 1, in 0.1 s, after: the driver" in flinkish.ok("status", job).out
    live = open_savepoint(flinkish.ok("savepoint", job, "live", "-q").out.strip())
    # A savepoint that cannot be written leaves the job as it is, also when it was to stop it.
    (tmp_path / "file").write_text("in the way")
    refused = flinkish("stop", job, "-p", str(tmp_path / "file" / "sp"), "--json")
    assert (refused.code, refused.error()["id"]) == (16, "storage")
    assert str(tmp_path / "file" / "sp") in refused.error()["message"]
    record = flinkish.job(job)
    assert (record["state"], record["queries"][0]["active"]) == ("RUNNING", True)

    processes = processes_of(job)
    assert set(processes) == {"supervisor", "jvm", "driver"}
    kill(processes.values())
    wait_until(lambda: not processes_of(job))
    # Nothing has to notice it: whoever looks first finds out, and nothing of the job goes on.
    assert flinkish.ok("list", "--json").json()["jobs"] == []
    (listed,) = flinkish.ok("list", "-a", "--json").json()["jobs"]
    assert listed["state"] == "FAILED"
    assert "is gone" in flinkish.job(job)["state_history"][-1]["reason"]
    wait_until(lambda: not flinkish.processes())
    refused = flinkish("stop", job, "-p", "sp")
    assert refused.code == 13
    assert f"flinkish savepoint {job}" in refused.err
    saved = flinkish.ok("savepoint", job, "sp")
    assert f"({job}) is FAILED: saving its checkpoint" in saved.err
    path = saved.out.strip().removeprefix("Savepoint completed. Path: file:")
    dead = open_savepoint(path)
    assert dead.header.trigger == "offline"
    assert dead.header.job.spark_version == live.header.job.spark_version
    assert dead.header.job.python_version == live.header.job.python_version
    (before,), (after,) = live.queries, dead.queries
    assert after.batch_id == before.batch_id
    assert (after.source, after.sink, after.run_id) == (before.source, before.sink, before.run_id)
    assert [op.uid for op in after.operators] == ["counts", "seen"]
    for one, other in zip(before.operators, after.operators, strict=True):
        assert one.facts.meaning is not None
        assert (one.facts.meaning, one.operator_id_v2, one.operator_id_v3) == (
            other.facts.meaning,
            other.operator_id_v2,
            other.operator_id_v3,
        )

    shutil.rmtree(flinkish.job(job)["checkpoint_dir"])
    # Every row once more, and new ones: who has no state of "seen" counts them twice.
    for number in range(4):
        shutil.copy(source / f"f{number:03d}.json", source / f"f{number:03d}-again.json")
    write_files(source, 5, 6)
    resumed = resume(flinkish, path, "dead.py", str(source), str(out), "--now", "--again")
    assert final_counts(out) == expected_counts(6)
    assert flinkish.job(resumed)["restored_from"] == path


def test_a_plain_checkpoint_is_saved_and_resumed(flinkish: Flinkish, tmp_path: Path) -> None:
    source, out, checkpoints = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoints"
    write_files(source, 0, 2)
    submit = " ".join(
        (*LIGHT, f"--conf spark.sql.streaming.checkpointLocation={checkpoints}", "pyspark-shell")
    )
    plain = subprocess.run(
        [sys.executable, str(PROGRAMS / "counts.py"), str(source), str(out), "--now"],
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": f"--master local[2] {submit}"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert plain.returncode == 0, plain.stderr
    assert final_counts(out) == expected_counts(2)

    words = ("savepoint", "--from-checkpoint", str(checkpoints / "counts"), "sp")
    assert flinkish(*words).code == 5  # it was written to a moment ago
    then = time.time() - 3600
    for path in checkpoints.rglob("*"):
        os.utime(path, (then, then))
    saved = flinkish.ok(*words, "-q").out.strip()
    shutil.rmtree(checkpoints)
    write_files(source, 2, 3)
    resume(flinkish, saved, "counts.py", str(source), str(out), "--now")
    assert final_counts(out) == expected_counts(3)
