"""Canonical savepoints of running jobs: taken, restored and resumed, refused, given up."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinkish.driver.migrating import migrate
from flinkish.driver.settings import configured
from flinkish.errors import FlinkishError, UnsupportedFormat, WrongState
from flinkish.jobs.model import JobState, RequestKind, RestoreSpec
from flinkish.savepoint.reader import FULL, Savepoint, check_files, open_savepoint
from tests.driver.harness import InProcessJob
from tests.driver.programs import BACKENDS, PROGRAMS, write_input
from tests.driver.test_gate import rate, start_counting

pytestmark = pytest.mark.spark

NewJob = Callable[..., InProcessJob]
#: The queries of the job, and where each keeps its state.
STORED = {"aggregation": "rocksdb-changelog", "join_left": "hdfs"}
FILES = 6
PARTITIONS = "spark.sql.shuffle.partitions"
CHECKSUMS = "spark.sql.streaming.stateStore.rowChecksum.enabled"


def run_both(spark: Any, source: str, out: Path, *, bounded: bool = False, base: str = "") -> None:
    """What a user's script would do; nothing of flinkish in it."""
    queries = []
    for name, backend in STORED.items():
        frame, mode = PROGRAMS[name](spark, source)
        writer = frame.writeStream.outputMode(mode).queryName(name)
        writer = writer.foreachBatch(_writing(f"{out}/{name}"))
        if bounded:
            writer = writer.trigger(availableNow=True)
        if base:
            writer = writer.option("checkpointLocation", f"{base}/{name}")
        with configured(spark, BACKENDS[backend]):
            queries.append(writer.start())
    for query in queries:
        query.awaitTermination()


def _writing(out: str) -> Callable[[Any, int], None]:
    def write(frame: Any, batch: int) -> None:
        frame.coalesce(1).write.mode("overwrite").parquet(f"{out}/batch={batch}")

    return write


def output(spark: Any, out: Path) -> tuple[dict[str, str], Counter[str]]:
    """The newest aggregate of each key, and all joined rows, whatever batch they came in."""
    newest: dict[str, str] = {}
    joined: Counter[str] = Counter()
    for name in STORED:
        found = sorted((out / name).glob("batch=*"), key=lambda p: int(p.name.split("=")[1]))
        for directory in found:
            for row in spark.read.parquet(str(directory)).collect():
                if name == "aggregation":
                    newest[str(row["name"])] = str(row)
                else:
                    joined[str(row)] += 1
    return newest, joined


@pytest.fixture(scope="module")
def expected(
    spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, str], Counter[str]]:
    """The output of a run without interruption and without flinkish."""
    base = tmp_path_factory.mktemp("uninterrupted")
    write_input(str(base / "in"))
    run_both(spark, str(base / "in"), base / "out", bounded=True, base=str(base / "ck"))
    return output(spark, base / "out")


def whole(path: str) -> Savepoint:
    """The savepoint at ``path``, which is canonical and complete."""
    savepoint = open_savepoint(path)
    check_files(savepoint, FULL)
    assert savepoint.header.format == "canonical"
    for query in savepoint.queries:
        assert query.operators
        for operator in query.operators:
            assert operator.state_digest is not None
    assert list(Path(path).rglob("*.avro"))
    assert not list(Path(path).rglob("*.sst")), "and nothing but Avro files"
    return savepoint


def only(target: Path) -> list[str]:
    """What there is in a directory of savepoints."""
    return sorted(os.listdir(target))


def test_it_is_taken_while_the_job_goes_on_and_when_it_stops(
    spark: Any,
    new_job: NewJob,
    tmp_path: Path,
    expected: tuple[dict[str, str], Counter[str]],
) -> None:
    source, out, target = str(tmp_path / "in"), tmp_path / "out", tmp_path / "sp"
    write_input(source, 0, 2)
    job = new_job().start(lambda: run_both(spark, source, out))
    job.wait_until(lambda: len(job.runtime.queries()) == 2 and job.batch() >= 1)
    live = job.request(RequestKind.SAVEPOINT, str(target), format="canonical")["savepoint"]
    assert live["format"] == "canonical"
    first = whole(live["path"])
    assert first.header.trigger == "savepoint"
    assert first.header.restored_from is None
    assert only(target) == [os.path.basename(live["path"])]
    for query, managed in zip(first.queries, job.runtime.queries(), strict=True):
        assert query.query_id == managed.query_id
        assert query.checkpoint == managed.checkpoint

    write_input(source, 2, 4)
    job.wait_until(lambda: job.batch() >= 3)  # it has gone on
    last = job.request(RequestKind.STOP, str(target), format="canonical")["savepoint"]
    final = job.wait()
    assert final.state is JobState.FINISHED, final.failure
    assert whole(last["path"]).header.trigger == "stop"
    assert only(target) == sorted(os.path.basename(s["path"]) for s in (live, last))
    known = {s.path: (s.format, s.trigger) for s in job.registry.savepoints()}
    assert known == {
        live["path"]: ("canonical", "savepoint"),
        last["path"]: ("canonical", "stop"),
    }
    shutil.rmtree(str(final.checkpoint_dir))

    write_input(source, 4, FILES)
    swapped = migrate(
        {"path": last["path"], "target": str(target), "backend": "rocksdb", "partitions": 5},
        str(tmp_path / "progress"),
    )
    for path, partitions in ((last["path"], 2), (swapped["savepoint"]["path"], 5), (live["path"], 4)):
        copy = tmp_path / f"out-{partitions}"
        shutil.copytree(out, copy)
        with configured(spark, {PARTITIONS: str(partitions)}):
            again = new_job(
                restore=RestoreSpec(path=path, parallelism=partitions, fork=True)
            ).start(lambda copy=copy: run_both(spark, source, copy, bounded=True))
            ended = again.wait()
        assert ended.state is JobState.FINISHED, ended.failure
        if path == live["path"]:  # its batches were written again, those of the join by other numbers
            assert output(spark, copy)[0] == expected[0]
        else:
            assert output(spark, copy) == expected
    assert not list(Path(str(final.checkpoint_dir)).parent.glob("*/.*"))
