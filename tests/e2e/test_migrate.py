"""State rewritten on the way: ``migrate``, and restores that rescale and evolve it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from flinkish.savepoint.format.reader import open_savepoint
from tests.e2e.test_lifecycle import expected_counts, final_counts, write_files
from tests.support.cli.command import LIGHT, PATIENCE, PROGRAMS, Flinkish, Result

pytestmark = [pytest.mark.spark, pytest.mark.deep, pytest.mark.timeout(600)]
#: The other backend than that of the job: canonical state is written for what Spark is told.
ROCKSDB = (
    "spark.sql.streaming.stateStore.providerClass="
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
)
CANONICAL = ("-type", "canonical")
PATIENTLY = ("--timeout", "240s")


def run(flinkish: Flinkish, *words: str) -> Result:
    """Run a program to its end."""
    return flinkish("run", "--json", "-m", "local[2]", *LIGHT, *words, timeout=PATIENCE)


@pytest.fixture
def saved(flinkish: Flinkish, tmp_path: Path) -> str:
    """A savepoint of a job that has read four files of six."""
    source, out = tmp_path / "in", tmp_path / "out"
    write_files(source, 0, 4)
    job = flinkish.run("counts.py", str(source), str(out), options=("--name", "counts"))
    flinkish.wait_for_batch(job, 3, PATIENCE)
    path = flinkish.ok("stop", job, "-p", "sp", "-q").out.strip()
    write_files(source, 4, 6)
    return path


def test_a_migrated_savepoint_is_restored(flinkish: Flinkish, tmp_path: Path, saved: str) -> None:
    dry = flinkish.ok("migrate", saved, "new", "-p", "5", "--backend", "rocksdb", "--dry-run")
    assert "state partitions: 5" in dry.out
    assert not (tmp_path / "new").exists()
    words = ("migrate", saved, "new", "-p", "5", "--backend", "rocksdb", "-m", "local[2]", "--json")
    done = flinkish(*words, timeout=PATIENCE)
    assert done.code == 0, done.err
    document = done.json()
    path = document["savepoint"]["path"]
    [operator] = document["operators"]
    assert operator["rows"] == 5
    found = open_savepoint(path)
    [query] = found.queries
    assert query.backend == "rocksdb"
    assert [op.facts.state_digest for op in query.operators] == [operator["content"]]
    assert [op.state.partitions for op in query.operators] == [5]
    assert [op.uid for op in query.operators] == [
        op.uid for op in open_savepoint(saved).queries[0].operators
    ]
    assert found.header.job.restored_from == open_savepoint(saved).path
    assert flinkish.ok("savepoint", "verify", "--level", "deep", path).code == 0
    assert path in {
        s["path"] for s in flinkish.ok("savepoint", "list", "--json").json()["savepoints"]
    }

    source, out = tmp_path / "in", tmp_path / "out"
    ran = run(flinkish, "-s", path, str(PROGRAMS / "counts.py"), str(source), str(out), "--now")
    assert ran.code == 0, ran.err
    assert final_counts(out) == expected_counts(6)
    schema = tmp_path / "x.avsc"
    schema.write_text("{}")
    missing = flinkish("migrate", saved, "new", "--schema", f"nobody={schema}")
    assert missing.code == 2
    assert "no operator 'nobody'" in missing.err


def test_a_canonical_savepoint_is_read_and_restored(
    flinkish: Flinkish, tmp_path: Path, saved: str
) -> None:
    words = ("migrate", saved, "new", "--type", "canonical", "-m", "local[2]", "-q")
    done = flinkish(*words, timeout=PATIENCE)
    assert done.code == 0, done.err
    path = done.out.strip()
    found = open_savepoint(path)
    assert found.header.format == "canonical"
    counts: dict[int, int] = {}
    for file in sorted(Path(path).rglob("*.avro")):
        with file.open("rb") as opened:
            row: Any
            for row in fastavro.reader(opened):
                counts[row["key"]["k"]] = row["value"]["count"]
    assert counts == expected_counts(4)
    assert flinkish.ok("savepoint", "verify", "--level", "deep", path).code == 0

    source, out = tmp_path / "in", tmp_path / "out"
    program = (str(PROGRAMS / "counts.py"), str(source), str(out), "--now")
    ran = run(flinkish, "-s", path, "-p", "3", *program)
    assert ran.code == 0, ran.err
    assert final_counts(out) == expected_counts(6)


def test_a_running_job_is_saved_and_stopped_canonically(flinkish: Flinkish, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    write_files(source, 0, 2)
    job = flinkish.run("counts.py", str(source), str(out), options=("--name", "counts"))
    flinkish.wait_for_batch(job, 1, PATIENCE)
    live = flinkish("savepoint", job, "sp", *CANONICAL, *PATIENTLY, "--json", timeout=PATIENCE)
    assert live.code == 0, live.err
    savepoint = live.json()["savepoint"]
    assert savepoint["format"] == "canonical"
    assert open_savepoint(savepoint["path"]).header.format == "canonical"
    write_files(source, 2, 4)
    flinkish.wait_for_batch(job, savepoint["queries"][0]["batch_id"] + 2, PATIENCE)
    stopped = flinkish("stop", job, "-p", "sp", *CANONICAL, *PATIENTLY, timeout=PATIENCE)
    assert stopped.code == 0, stopped.err
    path = stopped.out.strip().removeprefix("Savepoint completed. Path: file:")
    record = flinkish.job(job)
    assert record["state"] == "FINISHED"
    assert [s["format"] for s in record["savepoints"]] == ["canonical"] * 2
    listed = flinkish.ok("savepoint", "list", "sp", "--json").json()["savepoints"]
    assert {(s["path"], s["format"]) for s in listed} == {
        (savepoint["path"], "canonical"),
        (path, "canonical"),
    }
    assert flinkish.ok("savepoint", "verify", "--level", "deep", path).code == 0
    write_files(source, 4, 6)
    program = (str(PROGRAMS / "counts.py"), str(source), str(out), "--now")
    ran = run(flinkish, "--conf", ROCKSDB, "-s", path, "-p", "3", *program)
    assert ran.code == 0, ran.err
    assert final_counts(out) == expected_counts(6)
    checkpoint = Path(flinkish.job(ran.json()["job_id"])["checkpoint_dir"])
    assert list(checkpoint.glob("*/state/0/2/*.zip"))


def test_what_a_dead_job_left_is_saved_canonically(flinkish: Flinkish, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    write_files(source, 0, 4)
    job = flinkish.run("counts.py", str(source), str(out), options=("--name", "counts"))
    flinkish.wait_for_batch(job, 3, PATIENCE)
    flinkish.ok("cancel", job)
    done = flinkish("savepoint", job, "sp", *CANONICAL, *PATIENTLY, "--json", timeout=PATIENCE)
    assert done.code == 0, done.err
    path = done.json()["savepoint"]["path"]
    found = open_savepoint(path)
    assert (found.header.format, found.header.trigger) == ("canonical", "offline")
    assert (found.header.job.job_id, found.header.job.restored_from) == (job, None)
    assert [s["path"] for s in flinkish.job(job)["savepoints"]] == [path]
    assert [p.name for p in (tmp_path / "sp").iterdir()] == [Path(path).name]
    checkpoint = flinkish.job(job)["queries"][0]["checkpoint_dir"]
    words = ("savepoint", "--from-checkpoint", checkpoint, "foreign", *CANONICAL, "--yes", "-q")
    foreign = flinkish(*words, timeout=PATIENCE)
    assert foreign.code == 0, foreign.err
    assert open_savepoint(foreign.out.strip()).header.format == "canonical"
    write_files(source, 4, 6)
    program = (str(PROGRAMS / "counts.py"), str(source), str(out), "--now")
    ran = run(flinkish, "-s", path, "-p", "3", *program)
    assert ran.code == 0, ran.err
    assert final_counts(out) == expected_counts(6)


def test_a_restore_with_another_parallelism(flinkish: Flinkish, tmp_path: Path, saved: str) -> None:
    source, out = str(tmp_path / "in"), tmp_path / "out"
    program = (str(PROGRAMS / "counts.py"), source, str(out), "--now")
    ran = run(flinkish, "-s", saved, "-p", "7", *program)
    assert ran.code == 0, ran.err
    assert final_counts(out) == expected_counts(6)
    checkpoint = Path(flinkish.job(ran.json()["job_id"])["checkpoint_dir"])
    partitions = [p for p in checkpoint.glob("*/state/0/*") if p.name.isdigit()]
    assert len(partitions) == 7
    assert not list(checkpoint.glob(".*"))


def test_a_state_evolves_with_its_program(flinkish: Flinkish, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    write_files(source, 0, 4)
    program = (str(PROGRAMS / "evolving.py"), str(source), str(out))
    first = run(flinkish, *program, "v1")
    assert first.code == 0, first.err
    saved = flinkish.ok("savepoint", first.json()["job_id"], "sp", "-q").out.strip()
    checked = flinkish("check", "-s", saved, "-m", "local[2]", *LIGHT, "--json", *program, "v2")
    assert checked.code == 0, checked.err
    assert [op["verdict"] for op in checked.json()["operators"]] == ["migrate"]
    write_files(source, 4, 6)
    second = run(flinkish, "-s", saved, *program, "v2")
    assert second.code == 0, second.err
    assert final_counts(out) == expected_counts(6)
    log = flinkish.ok("logs", second.json()["job_id"]).out
    assert "state rewritten: 5 rows" in log
    record = json.loads(flinkish.ok("status", second.json()["job_id"], "--json").out)
    assert record["job"]["state"] == "FINISHED"
