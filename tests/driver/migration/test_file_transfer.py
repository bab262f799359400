"""A savepoint's files copied by executors: as by threads, and on a real cluster too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish import storage
from flinkish.driver.migration import file_transfer
from flinkish.driver.migration.file_transfer import AUTO_BYTES, SparkTransferer, should_distribute
from flinkish.errors import StorageError
from flinkish.savepoint.format.reader import FULL, check_files, open_savepoint
from flinkish.savepoint.write.transfer import ThreadedTransferer, TransferOutcome
from tests.support.checkpoints.recorded import unpack
from tests.support.driver.executor_copy_program import FEW
from tests.support.savepoint.places import place, put_tree, tree
from tests.support.servers.cluster import standalone_cluster


@pytest.mark.parametrize(
    ("mode", "master", "source", "target", "size", "expected"),
    [
        ("auto", "spark://h:7077", "s3://b/x", "s3://b/y", AUTO_BYTES, True),
        ("auto", "yarn", "hdfs://h/x", "s3://b/y", AUTO_BYTES, True),
        ("auto", "spark://h:7077", "s3://b/x", "s3://b/y", AUTO_BYTES - 1, False),
        ("auto", "local[4]", "s3://b/x", "s3://b/y", AUTO_BYTES, False),
        ("auto", "spark://h:7077", "/x", "s3://b/y", AUTO_BYTES, False),
        ("auto", "spark://h:7077", "s3://b/x", "/y", AUTO_BYTES, False),
        ("true", "local[4]", "/x", "/y", 1, True),
        ("false", "spark://h:7077", "s3://b/x", "s3://b/y", AUTO_BYTES, False),
    ],
)
def test_who_carries(
    mode: str, master: str, source: str, target: str, size: int, expected: bool
) -> None:
    found = should_distribute(mode, master=master, source=source, target=target, size=size)
    assert found is expected


def transfers(source: Path, target: Path) -> list[storage.Placing]:
    target.mkdir()
    listing = storage.list_directory(str(source))
    return [
        storage.Placing(str(source / name), str(target / name), entry.stamp(), entry.size())
        for name, entry in sorted(listing.files.items())
    ]


@pytest.mark.spark
def test_outcomes_are_those_of_threads(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_transfer, "WAVE", 6)
    monkeypatch.setattr(file_transfer, "_PIECE", 2)
    source = tmp_path / "source"
    source.mkdir()
    for number in range(20):
        (source / f"{number:02d}").write_bytes(os.urandom(100 * number))
    by_threads = transfers(source, tmp_path / "threads")
    by_executors = transfers(source, tmp_path / "executors")
    (source / "03").unlink()
    replaced = source / ".new"
    replaced.write_bytes(b"other")
    replaced.rename(source / "05")
    expected = list(ThreadedTransferer().carry(by_threads, total_bytes=1))
    assert [o.lost for o in expected if o.lost] == ["gone", "replaced"]
    found = list(SparkTransferer(spark, "true").carry(iter(by_executors), total_bytes=1))
    assert found == expected
    assert sorted(p.name for p in (tmp_path / "executors").iterdir()) == sorted(
        p.name for p in (tmp_path / "threads").iterdir()
    )
    # Nothing to do is nothing to start.
    assert list(SparkTransferer(spark, "true").carry([], total_bytes=0)) == []


@pytest.mark.spark
def test_what_an_executor_is_refused_is_told_as_by_the_driver(spark: Any, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a").write_bytes(b"a")
    (job,) = transfers(source, tmp_path / "target")
    (tmp_path / "file").write_bytes(b"")
    bad = storage.Placing(job.source, str(tmp_path / "file" / "a"), job.stamp, job.size)
    with pytest.raises(StorageError) as by_threads:
        list(ThreadedTransferer().carry([bad], total_bytes=1))
    with pytest.raises(StorageError) as by_executors:
        list(SparkTransferer(spark, "true").carry([bad], total_bytes=1))
    assert by_executors.value.message == by_threads.value.message
    assert "Traceback" not in by_executors.value.message
    good = list(SparkTransferer(spark, "true").carry([job], total_bytes=1))
    assert good == [TransferOutcome(1, good[0].digest, good[0].linked)]


@pytest.mark.parametrize("mode", ["true", "auto"])
def test_a_job_that_fails_is_told_in_one_line(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> Any:
        raise RuntimeError(
            "An error occurred while calling z:PythonRDD.collectAndServe.\n"
            ": org.apache.spark.SparkException: Job aborted\n\tat org.apache.A.b(A.scala:1)\n"
            "Caused by: java.lang.OutOfMemoryError: heap\n\tat org.apache.C.d(C.scala:2)\n"
        )

    context = SimpleNamespace(
        _flinkish_shipped=True, master="yarn", parallelize=fail, setJobDescription=lambda _: None
    )
    session: Any = SimpleNamespace(sparkContext=context)
    monkeypatch.setattr(file_transfer, "should_distribute", lambda *_, **__: True)
    source = tmp_path / "source"
    source.mkdir()
    (source / "a").write_bytes(b"a")
    carried = SparkTransferer(session, mode).carry(
        transfers(source, tmp_path / "target"), total_bytes=1
    )
    if mode == "auto":
        assert len(list(carried)) == 1
        text = capsys.readouterr().err.removesuffix("\n")
    else:
        with pytest.raises(StorageError) as refused:
            list(carried)
        text = refused.value.message
    assert text.endswith(": java.lang.OutOfMemoryError: heap")
    assert "\n" not in text


@pytest.fixture
def cluster(moto_s3: Any, tmp_path: Path) -> Iterator[str]:
    """The URL of a standalone master with a worker, whose executors can reach S3."""
    with standalone_cluster(tmp_path, moto_s3.environment()) as url:
        yield url


@pytest.mark.spark
@pytest.mark.servers
@pytest.mark.deep
@pytest.mark.timeout(600)
def test_a_cluster_carries_from_s3_to_s3(
    cluster: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    with place("moto_s3", request, tmp_path) as root:
        checkpoint = put_tree(unpack("spark43-rocksdb-tws", tmp_path), f"{root}/checkpoint")
        asked = {"master": cluster, "checkpoint": checkpoint, "target": root}
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.driver.executor_copy_program", json.dumps(asked)],
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-6000:]
        found = json.loads(done.stdout.splitlines()[-1])
        savepoint = open_savepoint(found["savepoint"])
        check_files(savepoint, FULL)
        assert len(list(savepoint.iter_files())) == found["files"] > 8
        assert "flinkish.zip" in found["flinkish"], "the executors ran the driver's flinkish"
        assert found["executors"] == found["auto"] == found["threads"]
        assert found["alone"] == found["threads"][:FEW]
        assert "executors could not copy" in done.stdout + done.stderr
        assert found["refused"]["id"] == StorageError.id
        content = tree(checkpoint)
        assert tree(f"{root}/executors") == tree(f"{root}/auto") == content
        assert tree(f"{root}/alone") == dict(list(content.items())[:FEW])
