"""``upgrade in-place`` on real Spark: one that works, and those that must leave or go back."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.test_lifecycle import expected_counts, final_counts, write_files
from tests.e2e.test_recipes import versions
from tests.e2e.test_restarts import check_counted
from tests.support.cli.command import PATIENCE, PROGRAMS, Flinkish, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

HANGS = """
seen = []


def write(frame, batch, before=write):
    before(frame, batch)
    seen.append(batch)
    if len(seen) == 2:
        import time

        time.sleep(3600)


query ="""


@contextmanager
def arriving(source: Path) -> Iterator[list[int]]:
    """Let files arrive, one a second; yield how many are there, a list of one."""
    write_files(source, 0, 3)
    over, written = threading.Event(), [3]

    def feed() -> None:
        while not over.wait(1.0):
            write_files(source, written[0], written[0] + 1)
            written[0] += 1

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        yield written
    finally:
        over.set()
        feeder.join()


def check_batches(flinkish: Flinkish, job: str, out: Path, first: int) -> None:
    """Wait until `counts.py` has put out every batch of a job from ``first`` on, and no other."""

    def complete() -> bool:
        found = {int(path.name.removeprefix("batch=")) for path in out.glob("batch=*")}
        (query,) = flinkish.job(job)["queries"]
        return found == set(range(first, query["batch_id"] + 1))

    wait_until(complete, PATIENCE)


def goes_on(flinkish: Flinkish, out: Path) -> str:
    """Wait until the job that runs has put out more, each batch right; returns its id."""
    job = flinkish.ok("list", "-q", "--name", "rides").out.strip()
    flinkish.wait_for_state(job, "RUNNING")
    newest = check_counted(out)
    wait_until(lambda: (out / f"{newest + 2}.json").exists(), PATIENCE)
    check_counted(out)
    return job


@pytest.mark.deep
def test_in_place(flinkish: Flinkish, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    good, _ = versions(tmp_path)
    words = ("--savepointPath", "sp")
    old = flinkish.run("counted.py", str(out), options=("--name", "rides"))
    flinkish.wait_for_batch(old, 1)

    # Found out by the check's driver: nothing has begun, and the job was never asked to stop.
    dies = str(PROGRAMS / "dies.py")
    refused = flinkish("upgrade", "in-place", "rides", "--to", dies, *words, "--json")
    assert refused.code == 1
    assert refused.error()["id"] == "program-failed"
    assert "No module named 'a_module_that_does_not_exist'" in refused.error()["message"]
    record = flinkish.job(old)
    assert (record["state"], record["upgrades"], record["requests"]) == ("RUNNING", [], [])
    assert [job["job_id"] for job in flinkish.ok("list", "-a", "--json").json()["jobs"]] == [old]
    assert not (tmp_path / "sp").exists()

    done = flinkish.ok("upgrade", "in-place", "rides", "--to", str(good), *words, "--json").json()
    assert done["state"] == "UPGRADED"
    assert goes_on(flinkish, out) == done["new_job_id"]
    assert (out / "good").exists()
    flinkish.ok("cancel", "rides")


@pytest.mark.deep
def test_what_it_would_do(flinkish: Flinkish, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    good, _ = versions(tmp_path)
    words = ("--savepointPath", "sp")
    old = flinkish.run("counted.py", str(out), options=("--name", "rides"))
    flinkish.wait_for_batch(old, 1)

    would = flinkish.ok("upgrade", "in-place", "rides", "--to", str(good), *words, "--dry-run")
    assert "verdict: ok" in would.out
    assert "1. stop the job with a savepoint in" in would.out
    refused = flinkish("upgrade", "in-place", "rides", "--to", "nope.py", *words)
    assert refused.code == 2
    flinkish.ok("cancel", "rides")


@pytest.mark.deep
def test_the_way_back_from_a_handover(flinkish: Flinkish, tmp_path: Path) -> None:
    """The bad version waits at its first query while the good one stops."""
    out = tmp_path / "out"
    out.mkdir()
    good, bad = versions(tmp_path)
    old = flinkish.run(good, str(out), options=("--name", "rides"))
    flinkish.wait_for_batch(old, 1)

    words = ("--savepointPath", "sp")
    handover = ("upgrade", "in-place", "rides", "--to", str(bad), *words, "--handover")
    assert (
        "1. start the driver of the new program alongside"
        in flinkish.ok(*handover, "--dry-run").out
    )
    back = flinkish(*handover)
    assert back.code == 1
    said = back.err.index("starting the new program beside"), back.err.index("stopping job")
    assert said[0] < said[1]
    assert "RuntimeError: the new version is broken" in back.err
    assert "of the new program committed the batches" in back.err
    again = goes_on(flinkish, out)
    assert again in back.err
    assert flinkish.job(again)["program"] == str(good)
    assert "failed" not in flinkish.ok("list").err
    flinkish.ok("cancel", "rides")


@pytest.mark.deep
def test_one_that_hangs_and_a_command_that_is_killed(flinkish: Flinkish, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    text = (Path(__file__).parent / "programs" / "counted.py").read_text()
    hangs = tmp_path / "hangs.py"
    hangs.write_text(text.replace("query =", HANGS, 1))
    old = flinkish.run("counted.py", str(out), options=("--name", "rides"))
    flinkish.wait_for_batch(old, 1)
    words = ("upgrade", "in-place", "rides", "--to", str(hangs), "--savepointPath", "sp")

    # As long as a slow machine needs for the first batch; the second hangs.
    back = flinkish(*words, "--health-timeout", "60s")
    assert back.code == 1
    assert "is not healthy after 60 s: query 'counted' has committed 1 of 3 batches" in back.err
    first = goes_on(flinkish, out)

    # The command is killed while it watches; what it began is undone.
    with subprocess.Popen(
        [sys.executable, "-m", "flinkish", *words],
        env=flinkish.environ,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        assert command.stderr is not None
        for line in command.stderr:
            if line.startswith("watching it"):
                break
        command.send_signal(signal.SIGKILL)
    (upgrade,) = (
        u["upgrade_id"] for u in flinkish.job(first)["upgrades"] if u["state"] == "WATCHING"
    )
    assert flinkish(*words).code == 12, "one upgrade of a job at a time"
    undone = flinkish.ok("upgrade", "rollback", upgrade[:8], "--json").json()
    assert undone["state"] == "ROLLED_BACK"
    assert goes_on(flinkish, out) == undone["old_again_id"]
    flinkish.ok("cancel", "rides")


@pytest.mark.deep
@pytest.mark.timeout(2400)
def test_handovers_under_a_source(flinkish: Flinkish, tmp_path: Path) -> None:
    """Each file is counted once, whichever program counts it."""
    source, out = tmp_path / "in", tmp_path / "out"
    with arriving(source) as written:
        job = flinkish.run("counts.py", str(source), str(out), options=("--name", "rides"))
        flinkish.wait_for_batch(job, 2)
        words = ("upgrade", "in-place", "rides", "--handover", "--health-batches", "1", "--json")
        for _ in range(8):
            done = flinkish.ok(*words, "--savepointPath", "sp").json()
            assert (done["state"], done["job_id"]) == ("UPGRADED", job)
            job = done["new_job_id"]
    expected = expected_counts(written[0])
    # A slow machine has more handovers' time of files before it, a batch each.
    wait_until(lambda: final_counts(out) == expected, PATIENCE + 2 * written[0])
    check_batches(flinkish, job, out, 0)
    flinkish.ok("cancel", "rides")


@pytest.mark.deep
def test_a_shadow_that_is_promoted(flinkish: Flinkish, tmp_path: Path) -> None:
    """The new output has everything from the savepoint on, once, and the old one is not touched."""
    source, out, new_out = tmp_path / "in", tmp_path / "out", tmp_path / "new"
    with arriving(source) as written:
        old = flinkish.run("counts.py", str(source), str(out), options=("--name", "rides"))
        flinkish.wait_for_batch(old, 2)
        words = ("upgrade", "shadow", "rides", "--savepointPath", "sp")
        begun = flinkish.ok(*words, str(source), str(new_out), "--json")
        assert begun.json()["state"] == "SHADOWING"
        names = {job["name"]: job["job_id"] for job in flinkish.ok("list", "--json").json()["jobs"]}
        assert names == {"rides": old, "rides-shadow": begun.json()["new_job_id"]}
        time.sleep(5.0)
        done = flinkish.ok("upgrade", "shadow", "rides", "--promote", "--json").json()
        assert done["state"] == "UPGRADED"
    job = flinkish.ok("list", "-q", "--name", "rides").out.strip()
    assert job == done["new_job_id"]
    expected = expected_counts(written[0])
    wait_until(lambda: final_counts(new_out) == expected, PATIENCE)
    saved = flinkish.ok("savepoint", "show", done["savepoint"], "--json").json()
    (first,) = (query["batch_id"] + 1 for query in saved["savepoint"]["queries"])
    check_batches(flinkish, job, new_out, first)
    check_batches(flinkish, old, out, 0)
    flinkish.ok("cancel", "rides")


FILE_SINK = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("id long, k int").json(sys.argv[1])
rows.writeStream.queryName("raw").format("parquet").start(sys.argv[2]).awaitTermination()
"""


@pytest.mark.deep
def test_a_shadow_of_a_file_sink(flinkish: Flinkish, tmp_path: Path) -> None:
    program = tmp_path / "raw.py"
    program.write_text(FILE_SINK)
    source = tmp_path / "in"
    write_files(source, 0, 3)
    job = flinkish.run(str(program), str(source), "out", options=("--name", "rides"))
    flinkish.wait_for_batch(job, 0)
    words = ("upgrade", "shadow", "rides", "--savepointPath", "sp", str(source))
    for place in ("out", str(tmp_path / "out")):
        refused = flinkish(*words, place)
        assert refused.code == 2
        assert f"would write to {tmp_path}/out, as job rides (" in refused.err
    assert not (tmp_path / "sp").exists()
    begun = flinkish.ok(*words, "other", "--health-batches", "0", "-q")
    undone = flinkish.ok("upgrade", "shadow", begun.out.strip(), "--abandon", "--json").json()
    assert undone["state"] == "ABANDONED"
    assert flinkish.job(job)["state"] == "RUNNING"
    flinkish.ok("cancel", "rides")


@pytest.mark.deep
@pytest.mark.timeout(2400)
def test_a_fleet_of_four_with_one_that_fails(flinkish: Flinkish, tmp_path: Path) -> None:
    good, bad = versions(tmp_path)
    names = ("a-1", "a-2", "b", "c")
    outs = {name: tmp_path / name for name in names}
    for name, out in outs.items():
        out.mkdir()
        job = flinkish.run("counted.py", str(out), options=("--name", name))
        flinkish.wait_for_batch(job, 1)
    file = tmp_path / "fleet.toml"
    file.write_text(
        f"""
[defaults]
savepoint-path = "{tmp_path}/sp"
to = "{good}"

[[upgrade]]
job = "a-*"

[[upgrade]]
job = "b"
to = "{bad}"

[[upgrade]]
job = "c"
"""
    )
    first = flinkish("upgrade", "fleet", str(file), "--json", timeout=900)
    assert first.code == 3
    outcomes = {job["name"]: job["outcome"] for job in first.json()["jobs"]}
    assert outcomes == {
        **dict.fromkeys(("a-1", "a-2"), "upgraded"),
        "b": "rolled back",
        "c": "not begun",
    }
    words = ("upgrade", "fleet", str(file), "--keep-going", "--jobs", "2")
    again = flinkish(*words, timeout=900)
    assert again.code == 3
    table = {line.split()[0]: " ".join(line.split()[1:-1]) for line in again.out.splitlines()[1:]}
    assert table == {
        **dict.fromkeys(("a-1", "a-2"), "up to date"),
        "b": "rolled back",
        "c": "upgraded",
    }
    for name, out in outs.items():
        assert (out / "good").exists() == (name != "b")
        newest = check_counted(out)
        wait_until(lambda: (out / f"{newest + 2}.json").exists(), PATIENCE)  # noqa: B023
        check_counted(out)
        flinkish.ok("cancel", name)
