"""One job through all of its life, with as few drivers as that takes: three that run a version, and
two that look at one."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest

from tests.e2e.test_lifecycle import expected_counts, final_counts, write_files
from tests.support.cli.command import LIGHT, PROGRAMS, Flinkish
from tests.support.servers.s3 import ACCESS_KEY, SECRET_KEY, S3Server

pytestmark = [pytest.mark.spark, pytest.mark.servers, pytest.mark.timeout(900)]

PROGRAM = str(PROGRAMS / "dead.py")


def test_a_job_is_run_saved_stopped_changed_rescaled_upgraded_and_cancelled(
    flinkish: Flinkish, tmp_path: Path, moto_s3: S3Server
) -> None:
    """The second version has one more stateful operator and other partitions, and reads all rows
    of the first once more: whose state does not come over counts them twice."""
    flinkish.environ.update(moto_s3.environment())
    remote = f"{moto_s3.create_bucket('walk')}/{uuid.uuid4().hex}"
    source, out = tmp_path / "in", tmp_path / "out"
    write_files(source, 0, 4)
    job = flinkish.run("dead.py", str(source), str(out), options=("--name", "counts"))
    assert len(job) == 32
    listed = flinkish.ok("list", "--json").json()["jobs"]
    assert [(j["job_id"], j["name"], j["state"]) for j in listed] == [(job, "counts", "RUNNING")]
    flinkish.wait_for_batch(job, 1)
    record = flinkish.ok("status", "counts", "--json").json()["job"]
    assert [s["state"] for s in record["state_history"]] == ["INITIALIZING", "CREATED", "RUNNING"]
    (query,) = record["queries"]
    assert (query["name"], query["batch_id"]) == ("counts", 1)
    assert {op["uid"] for op in query["operators"]} == {"seen", "counts"}

    # While it runs: by name, to a directory that does not exist yet, relative to the caller.
    live = flinkish.ok("savepoint", "counts", "savepoints").out
    path = live.strip().removeprefix("Savepoint completed. Path: ")
    assert (Path(path.removeprefix("file:")) / "_metadata").is_file()
    shown = flinkish.ok("savepoint", "show", path, "--json").json()["savepoint"]
    assert {op["uid"]: op["rows"] for op in shown["queries"][0]["operators"]} == {
        "seen": 400,
        "counts": 5,
    }
    flinkish.ok("savepoint", "verify", "--level", "deep", path)

    # Stopped with a savepoint elsewhere, which must do without the checkpoint.
    stopped = flinkish.ok("stop", "-p", remote, job[:8], "--json").json()
    saved = stopped["savepoint"]["path"]
    assert saved.startswith(remote)
    assert stopped["savepoint"]["queries"][0]["batch_id"] == 1
    flinkish.ok("savepoint", "verify", "--level", "full", saved)
    assert flinkish.ok("list", "--json").json()["jobs"] == []
    # Its supervisor records the driver's exit status after `stop` has returned.
    ended = flinkish.wait(job, lambda each: each["exit_status"] is not None)
    record = flinkish.ok("status", job, "--json").json()["job"]
    assert record == ended, "the tests' own look at a job is what `status` shows"
    assert record["state"] == "FINISHED"
    assert [s["path"] for s in record["savepoints"]] == [path.removeprefix("file:"), saved]
    shutil.rmtree(record["checkpoint_dir"])

    # A changed program on more partitions: first looked at, then done as it was said.
    for number in range(4):
        shutil.copy(source / f"f{number:03d}.json", source / f"f{number:03d}-again.json")
    write_files(source, 4, 6)
    words = ("-s", saved, "-p", "3", "-m", "local[2]", *LIGHT, "-o", "plan.json", "--json")
    plan = flinkish.ok("check", *words, PROGRAM, str(source), str(out), "--again").json()
    verdicts = {op["uid"]: op["verdict"] for op in plan["operators"]}
    assert verdicts == {"seen": "rescale", "counts": "rescale", "again": "new"}
    ran = flinkish.ok("run", "-d", "--json", "--plan", "plan.json", "-m", "local[2]", *LIGHT)
    assert {op["uid"]: op["verdict"] for op in ran.json()["plan"]["operators"]} == verdicts
    second = ran.json()["job_id"]
    record = flinkish.wait_for_batch(second, 4)  # six files, two a batch
    assert record["restored_from"] == saved
    assert final_counts(out) == expected_counts(6)
    assert {op["uid"] for op in record["queries"][0]["operators"]} == {"seen", "counts", "again"}
    states = Path(record["queries"][0]["checkpoint_dir"], "state", "0")
    assert {p.name for p in states.iterdir() if p.name.isdigit()} == {"0", "1", "2"}
    assert "state rewritten: 405 rows" in flinkish.ok("logs", second).out

    # Another version in place, with the arguments that the job has: checked, stopped, started.
    (tmp_path / "third.py").write_text(Path(PROGRAM).read_text() + "\n# the third version\n")
    options = ("--savepointPath", remote, "--health-batches", "0", "--json")
    upgraded = flinkish.ok("upgrade", "in-place", second, "--to", "third.py", *options)
    assert upgraded.json()["state"] == "UPGRADED"
    third = upgraded.json()["new_job_id"]
    write_files(source, 6, 7)
    flinkish.wait_for_batch(third, 5)
    assert final_counts(out) == expected_counts(7)

    ended = flinkish.ok("cancel", "-s", remote, third, "--json").json()
    assert ended["savepoint"]["path"].startswith(remote)
    every = flinkish.ok("list", "-a", "--json").json()["jobs"]
    assert {j["job_id"]: j["state"] for j in every} == {
        job: "FINISHED",
        second: "FINISHED",
        third: "CANCELED",
    }
    rows = flinkish.ok("savepoint", "list", remote, "--json").json()["savepoints"]
    assert {saved, ended["savepoint"]["path"]} < {row["path"] for row in rows}
    assert len(rows) == 3
    kept = b"".join(p.read_bytes() for p in (tmp_path / "state").rglob("*") if p.is_file())
    for secret in (ACCESS_KEY, SECRET_KEY):
        assert secret.encode() not in kept
