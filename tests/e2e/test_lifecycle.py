"""The whole lifecycle with real drivers: run, list, status, savepoint, stop, run -s, cancel."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.cli.command import Flinkish

pytestmark = [pytest.mark.spark, pytest.mark.deep]


def write_files(directory: Path, first: int, last: int) -> None:
    directory.mkdir(exist_ok=True)
    for number in range(first, last):
        rows = [{"id": number * 100 + i, "k": (number * i) % 5} for i in range(100)]
        temporary = directory / f".f{number:03d}.json"
        temporary.write_text("".join(json.dumps(row) + "\n" for row in rows))
        temporary.rename(directory / f"f{number:03d}.json")


def final_counts(output: Path) -> dict[int, int]:
    """The newest count of each key over the batches (update mode), read with pyarrow."""
    import pyarrow.parquet as pq

    counts: dict[int, int] = {}
    batches = sorted(output.glob("batch=*"), key=lambda p: int(p.name.split("=")[1]))
    for batch in batches:
        for part in sorted(batch.glob("*.parquet")):
            for row in pq.ParquetFile(part).read().to_pylist():
                counts[row["k"]] = row["count"]
    return counts


def expected_counts(last: int) -> dict[int, int]:
    counts: dict[int, int] = {}
    for number in range(last):
        for i in range(100):
            key = (number * i) % 5
            counts[key] = counts.get(key, 0) + 1
    return counts


def test_run_list_savepoint_stop_and_resume(flinkish: Flinkish, tmp_path: Path) -> None:
    source, out, target = tmp_path / "in", tmp_path / "out", tmp_path / "savepoints"
    write_files(source, 0, 4)
    job = flinkish.run("counts.py", str(source), str(out), options=("--name", "counts"))
    assert len(job) == 32

    listed = flinkish.ok("list", "--json").json()["jobs"]
    assert [(j["job_id"], j["name"], j["state"]) for j in listed] == [(job, "counts", "RUNNING")]
    record = flinkish.wait_for_batch(job, 1)
    assert record["spark_version"]
    assert [s["state"] for s in record["state_history"]] == ["INITIALIZING", "CREATED", "RUNNING"]
    query = record["queries"][0]
    assert query["name"] == "counts"
    assert query["operators"][0]["kind"] == "stateStoreSave"

    # By name, to a directory that does not exist yet, relative to the caller.
    live = flinkish.ok("savepoint", "counts", "savepoints")
    assert live.out.startswith("Savepoint completed. Path: ")
    path = live.out.strip().removeprefix("Savepoint completed. Path: ")
    assert Path(path.removeprefix("file:")).joinpath("_metadata").is_file()
    assert job[:6] in path

    stopped = flinkish.ok("stop", "-p", str(target), job[:8], "--json").json()
    assert stopped["state"] == "COMPLETED" or stopped["state"] == "FINISHED"
    savepoint = stopped["savepoint"]
    assert savepoint["queries"][0]["batch_id"] >= 1
    assert flinkish.job(job)["state"] == "FINISHED"
    assert flinkish.ok("list", "--json").json()["jobs"] == []
    assert flinkish.ok("list", "-a", "--json").json()["jobs"][0]["state"] == "FINISHED"

    shutil.rmtree(flinkish.job(job)["checkpoint_dir"])
    write_files(source, 4, 7)
    attached = flinkish.ok(
        "run",
        "-m",
        "local[2]",
        "--conf=spark.ui.enabled=false",
        "-s",
        savepoint["path"],
        str(Path(__file__).parent / "programs/counts.py"),
        str(source),
        str(out),
        "--now",
    )
    assert "Job has been submitted with JobID " in attached.out
    assert final_counts(out) == expected_counts(7)


def test_a_forked_run_beside_the_running_original(flinkish: Flinkish, tmp_path: Path) -> None:
    job = flinkish.run("rate.py")
    flinkish.wait_for_batch(job, 1)
    path = flinkish.ok("savepoint", "-q", job, str(tmp_path / "sp")).out.strip()
    fork = flinkish.run("rate.py", options=("-s", path, "--name", "fork"))
    ids = {flinkish.job(j)["queries"][0]["query_id"] for j in (job, fork)}
    assert len(ids) == 2, "the original still runs: the restored query got a new id"
    # Both are named after the program; now the name is ambiguous or not, by state.
    assert flinkish.ok("cancel", "fork").code == 0
    assert flinkish.job(fork)["state"] == "CANCELED"
    assert flinkish.job(job)["state"] == "RUNNING"
    cancelled = flinkish.ok("cancel", "-s", str(tmp_path / "sp2"), job, "--json").json()
    assert Path(cancelled["savepoint"]["path"].removeprefix("file:")).is_dir()
    assert flinkish.job(job)["state"] == "CANCELED"


def test_a_plain_checkpoint_directory_is_adopted(flinkish: Flinkish) -> None:
    """State that was only ever Spark's: one checkpoint, and a directory of one per query."""
    job = flinkish.run("rate.py")
    flinkish.wait_for_batch(job, 2)
    flinkish.ok("cancel", job)
    record = flinkish.job(job)
    (query,) = record["queries"]
    for path in (query["checkpoint_dir"], record["checkpoint_dir"]):
        again = flinkish.run("rate.py", options=("-s", path))
        (restored,) = flinkish.wait_for_batch(again, query["batch_id"])["queries"]
        assert restored["checkpoint_dir"] != query["checkpoint_dir"]
        flinkish.ok("cancel", again)
    assert (Path(query["checkpoint_dir"]) / "commits").is_dir()


def test_a_module_with_its_files_archives_and_settings(flinkish: Flinkish, tmp_path: Path) -> None:
    """-pym, -pyfs, -pyarch, -p, -D, --conf reach the program."""
    (tmp_path / "helper.py").write_text("def shout(text):\n    return text.upper()\n")
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "fact.txt").write_text("packed")
    archive = shutil.make_archive(str(tmp_path / "facts"), "zip", tmp_path / "facts")
    (tmp_path / "program.py").write_text(
        "import sys\n"
        "from pyspark.sql import SparkSession\n"
        "from pyspark.sql.functions import udf\n"
        "import helper\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        "shout = udf(lambda t: helper.shout(t) + open('facts/fact.txt').read())\n"
        "frame = spark.createDataFrame([('hi',)], 't string')\n"
        "print('said', frame.select(shout('t')).collect()[0][0], sys.argv[1:])\n"
        "print('partitions', spark.conf.get('spark.sql.shuffle.partitions'))\n"
        "print('mine', spark.conf.get('spark.my.a'), spark.conf.get('spark.my.b'))\n"
    )
    result = flinkish.ok(
        "run",
        "-q",
        "-m",
        "local[1]",
        "--name",
        "module",
        "-p",
        "3",
        "--conf",
        "spark.my.a=1",
        "-Dspark.my.b=2",
        "-pyfs",
        str(tmp_path / "helper.py"),
        "-pyarch",
        f"{archive}#facts",
        "-pym",
        "program",
        "--",
        "--flag",
        "value",
    )
    log = flinkish.ok("logs", result.out.split()[0]).out
    assert "said HIpacked ['--flag', 'value']" in log
    assert "partitions 3" in log
    assert "mine 1 2" in log
