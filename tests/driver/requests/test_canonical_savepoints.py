"""Canonical savepoints of running jobs: taken, restored and resumed, refused, given up."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flinkish.driver.requests.canonical_savepoints import POOL, background
from flinkish.driver.spark.jvm import configured
from flinkish.driver.tasks.migration_task import migrate
from flinkish.errors import StorageError, UnsupportedFormat, WrongState, from_record
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.migration import Migration
from flinkish.messages.requests import CancelArguments, SavepointArguments
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry.jobs import JobState, Request, RequestKind, RequestState
from flinkish.savepoint.format.reader import FULL, OpenSavepoint, check_files, open_savepoint
from tests.driver.test_gate import start_counting
from tests.support.driver.in_process_job import InProcessJob
from tests.support.driver.operator_programs import BACKENDS, PROGRAMS, write_input

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

NewJob = Callable[..., InProcessJob]
#: The queries of the job, and where each keeps its state.
STORED = {"aggregation": "rocksdb-changelog", "join_left": "hdfs"}
FILES = 4
PARTITIONS = "spark.sql.shuffle.partitions"
WORDS = [f"word {number}" for number in range(100)]
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
    write_input(str(base / "in"), 0, FILES)
    run_both(spark, str(base / "in"), base / "out", bounded=True, base=str(base / "ck"))
    return output(spark, base / "out")


def whole(path: str) -> OpenSavepoint:
    """The savepoint at ``path``, which is canonical and complete."""
    savepoint = open_savepoint(path)
    check_files(savepoint, FULL)
    assert savepoint.header.format == "canonical"
    for query in savepoint.queries:
        assert query.operators
        for operator in query.operators:
            assert operator.facts.state_digest is not None
    assert list(Path(path).rglob("*.avro"))
    assert not list(Path(path).rglob("*.sst")), "and nothing but Avro files"
    return savepoint


class Saved:
    """A job that was saved while it ran, went on, and was stopped; its input has gone on."""

    def __init__(self, spark: Any, new_job: NewJob, directory: Path) -> None:
        self.source, self.out = str(directory / "in"), directory / "out"
        self.target = directory / "sp"
        write_input(self.source, 0, 1)
        self.job = new_job().start(lambda: run_both(spark, self.source, self.out))
        self.job.wait_until(lambda: len(self.job.runtime.queries()) == 2 and self.job.batch() >= 0)
        self.live = self._save(RequestKind.SAVEPOINT)
        self.found_beside = sorted(os.listdir(self.target))
        write_input(self.source, 1, 3)
        self.job.wait_until(lambda: self.job.batch() >= 2, 200)  # it has gone on
        self.last = self._save(RequestKind.STOP)
        self.final = self.job.wait()
        shutil.rmtree(str(self.final.checkpoint_dir))
        write_input(self.source, 3, FILES)

    def _save(self, kind: RequestKind) -> dict[str, Any]:
        return dict(self.job.request(kind, str(self.target), format="canonical")["savepoint"])


def resumed(spark: Any, new_job: NewJob, saved: Saved, path: str, partitions: int) -> Path:
    """The output of the job, gone on with from ``path`` to the end of its input."""
    with configured(spark, {PARTITIONS: str(partitions)}):
        job = new_job(
            restore=RestoreSpec(
                path=path, options=RestoreOptions(fork=True), parallelism=partitions
            )
        )
        job.start(lambda: run_both(spark, saved.source, saved.out, bounded=True))
        ended = job.wait(300)
    assert ended.state is JobState.FINISHED, ended.failure
    return saved.out


@pytest.mark.deep
def test_it_is_taken_of_joins_and_aggregations_and_resumed(
    spark: Any, new_job: NewJob, tmp_path: Path, expected: tuple[dict[str, str], Counter[str]]
) -> None:
    saved = Saved(spark, new_job, tmp_path)
    live, last, job = saved.live, saved.last, saved.job
    assert live["format"] == "canonical"
    assert saved.final.state is JobState.FINISHED, saved.final.failure
    first, second = whole(live["path"]), whole(last["path"])
    assert (first.header.trigger, first.header.job.restored_from) == ("savepoint", None)
    assert second.header.trigger == "stop"
    for query, managed in zip(first.queries, job.runtime.queries(), strict=True):
        assert (query.query_id, query.checkpoint) == (managed.query_id, managed.checkpoint)
    assert saved.found_beside == [os.path.basename(live["path"])]
    assert len(os.listdir(saved.target)) == 2
    assert {s.path: (s.format, s.trigger) for s in job.registry.savepoints()} == {
        live["path"]: ("canonical", "savepoint"),
        last["path"]: ("canonical", "stop"),
    }
    assert output(spark, resumed(spark, new_job, saved, last["path"], 2)) == expected


@pytest.mark.deep
def test_it_is_resumed_with_the_other_backend(
    spark: Any, new_job: NewJob, tmp_path: Path, expected: tuple[dict[str, str], Counter[str]]
) -> None:
    saved = Saved(spark, new_job, tmp_path)
    wanted = Migration(saved.last["path"], str(saved.target), partitions=5, backend="rocksdb")
    swapped = migrate(wanted, str(tmp_path / "progress"))
    path = swapped.savepoint.path
    assert [query.backend for query in open_savepoint(path).queries] == ["rocksdb"] * 2
    assert output(spark, resumed(spark, new_job, saved, path, 5)) == expected


@pytest.mark.deep
def test_the_one_of_the_running_job_is_resumed_from(
    spark: Any, new_job: NewJob, tmp_path: Path, expected: tuple[dict[str, str], Counter[str]]
) -> None:
    saved = Saved(spark, new_job, tmp_path)
    batch = {query["name"]: query["batch_id"] for query in saved.live["queries"]}
    for directory in saved.out.glob("*/batch=*"):  # what comes after it is written again
        if int(directory.name.split("=")[1]) > batch[directory.parent.name]:
            shutil.rmtree(directory)
    assert output(spark, resumed(spark, new_job, saved, saved.live["path"], 4)) == expected


def test_it_is_taken_while_the_job_goes_on_and_when_it_stops(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    target, seen = tmp_path / "sp", dict[str, int]()
    job, feed = fed_by_hand(spark, new_job, tmp_path / "input", seen)
    live = job.request(RequestKind.SAVEPOINT, str(target), format="canonical")["savepoint"]
    assert os.listdir(target) == [os.path.basename(live["path"])]
    feed()
    last = job.request(RequestKind.STOP, str(target), format="canonical")["savepoint"]
    assert job.wait().state is JobState.FINISHED
    assert {s.path: (s.format, s.trigger) for s in job.registry.savepoints()} == {
        live["path"]: ("canonical", "savepoint"),
        last["path"]: ("canonical", "stop"),
    }
    assert [whole(each["path"]).header.trigger for each in (live, last)] == ["savepoint", "stop"]
    shutil.rmtree(str(job.job().checkpoint_dir))
    seen.clear()
    spec = RestoreSpec(path=last["path"], options=RestoreOptions(fork=True), parallelism=3)
    with configured(spark, {PARTITIONS: "3"}):
        job, _ = fed_by_hand(spark, new_job, tmp_path / "input", seen, restore=spec)
    assert seen == dict.fromkeys(WORDS, 3)
    job.request(RequestKind.CANCEL)
    assert job.wait().state is JobState.CANCELED


def counting(
    spark: Any, new_job: NewJob, settings: Mapping[str, str] | None = None, **job: Any
) -> InProcessJob:
    """A job that counts, and has committed some batches."""
    with configured(spark, {**BACKENDS["rocksdb"], **(settings or {})}):
        made = new_job(**job).start(lambda: start_counting(spark, "counts").awaitTermination())
        made.wait_until(lambda: made.batch() >= 1)
    return made


@pytest.fixture
def refused(spark: Any, new_job: NewJob) -> InProcessJob:
    """A job with state that the engine refuses to read."""
    if spark.version < "4.2":
        pytest.skip("row checksums exist from Spark 4.2 on")
    return counting(spark, new_job, {CHECKSUMS: "true"})


def goes_on(job: InProcessJob) -> None:
    """Its batches are computed, by threads that have nothing of the engine's."""
    batch = job.batch()
    job.wait_until(lambda: job.batch() > batch + 1)
    assert job.job().state is JobState.RUNNING


def test_a_savepoint_that_is_refused_leaves_nothing(refused: InProcessJob, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFormat, match=r"query counts: .*row checksums"):
        refused.request(RequestKind.SAVEPOINT, str(tmp_path / "sp"), format="canonical")
    assert os.listdir(tmp_path / "sp") == []
    goes_on(refused)


@pytest.mark.parametrize(
    "kind", [RequestKind.STOP, pytest.param(RequestKind.CANCEL, marks=pytest.mark.deep)]
)
def test_a_stop_that_is_refused_keeps_a_native_one_and_goes_on(
    spark: Any, new_job: NewJob, refused: InProcessJob, tmp_path: Path, kind: RequestKind
) -> None:
    with pytest.raises(UnsupportedFormat) as caught:
        refused.request(kind, str(tmp_path / "sp"), format="canonical")
    kept = caught.value.data["savepoint"]
    assert os.listdir(tmp_path / "sp") == [os.path.basename(kept)]
    assert kept in caught.value.message
    assert "row checksums" in caught.value.message
    assert f"run -s {kept}" in caught.value.hint
    native = open_savepoint(kept)
    check_files(native, FULL)
    assert (native.header.format, native.header.trigger) == ("native", kind.value)
    assert [s.path for s in refused.registry.savepoints()] == [kept]
    goes_on(refused)
    [query] = refused.runtime.queries()
    assert native.queries[0].query_id == query.query_id
    refused.request(RequestKind.STOP, str(tmp_path / "sp"))
    assert refused.wait().state is JobState.FINISHED
    with configured(spark, {**BACKENDS["rocksdb"], CHECKSUMS: "true"}):
        again = new_job(restore=RestoreSpec(path=kept, options=RestoreOptions(fork=True)))
        again.start(lambda: start_counting(spark, "counts").awaitTermination())
        again.wait_until(lambda: again.batch() > native.queries[0].batch_id)


def test_a_thread_gets_its_properties_back(spark: Any) -> None:
    """Queries that it starts later would run in the engine's pool, and end with its group."""
    context = spark.sparkContext
    context.setLocalProperty("spark.scheduler.pool", "mine")
    try:
        with background(context) as group:
            assert context.getLocalProperty("spark.scheduler.pool") == POOL
            assert context.getLocalProperty("spark.jobGroup.id") == group
        assert context.getLocalProperty("spark.scheduler.pool") == "mine"
        assert context.getLocalProperty("spark.jobGroup.id") is None
        assert context.getLocalProperty("spark.job.description") is None
    finally:
        context.setLocalProperty("spark.scheduler.pool", None)


@pytest.mark.deep
def test_a_full_target_loses_nothing(
    spark: Any, new_job: NewJob, small_disk: Path, tmp_path: Path
) -> None:
    job, fed = fed_by_hand(spark, new_job, tmp_path / "input")
    native = job.request(RequestKind.SAVEPOINT, str(small_disk / "sp"))["savepoint"]["path"]
    left = free_bytes(small_disk)
    shutil.rmtree(native)
    # Room for one native savepoint, which has not grown since, and not for more.
    (small_disk / "filler").write_bytes(b"x" * (left - 8192))
    with pytest.raises(StorageError) as caught:
        job.request(RequestKind.STOP, str(small_disk / "sp"), format="canonical")
    assert "No space left" in caught.value.message
    assert "the job continues" in caught.value.message
    kept = caught.value.data["savepoint"]
    assert os.listdir(small_disk / "sp") == [os.path.basename(kept)]
    check_files(open_savepoint(kept), FULL)
    fed()
    with pytest.raises(StorageError, match="nor could a native one be kept"):
        job.request(RequestKind.STOP, str(small_disk / "sp"), format="canonical")
    fed()
    last = job.request(RequestKind.STOP, str(tmp_path / "sp"), format="canonical")["savepoint"]
    whole(last["path"])


def fed_by_hand(
    spark: Any, new_job: NewJob, source: Path, seen: dict[str, int] | None = None, **job_facts: Any
) -> tuple[InProcessJob, Callable[[], None]]:
    """A job that counts (into ``seen``) what it is given: one file now, and one at each call of the
    function returned."""
    source.mkdir(exist_ok=True)

    def feed() -> None:
        number = len(list(source.glob("*.txt")))
        hidden = source / ".next"
        hidden.write_text("\n".join(WORDS))
        hidden.rename(source / f"{number}.txt")
        job.wait_until(lambda: job.batch() >= number)
        assert job.job().state is JobState.RUNNING

    def keep(frame: Any, batch: int) -> None:
        (seen if seen is not None else {}).update((r.value, r["count"]) for r in frame.collect())

    def program() -> None:
        words = spark.readStream.option("maxFilesPerTrigger", 1).text(str(source))
        writer = words.groupBy("value").count().writeStream.queryName("counts")
        writer = writer.outputMode("update").foreachBatch(keep)
        writer.trigger(processingTime="0 seconds").start().awaitTermination()

    with configured(spark, BACKENDS["rocksdb"]):
        job = new_job(**job_facts).start(program)
        job.wait_until(lambda: job.runtime.queries())
        feed()
    return job, feed


def free_bytes(directory: Path) -> int:
    disk = os.statvfs(directory)
    return disk.f_bavail * disk.f_frsize


@pytest.mark.deep
def test_a_plain_cancel_does_not_wait_for_the_rewrite(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    job = counting(spark, new_job, cancel_grace=1.0)
    let_go = tmp_path / "let-go"
    with busy(spark, let_go):
        asked = SavepointArguments(str(tmp_path / "sp"), "canonical")
        request = job.registry.submit(job.job_id, RequestKind.SAVEPOINT, asked)
        job.wait_until(lambda: _phase(job, request.request_id) == "rewriting")
        cancel = job.registry.submit(job.job_id, RequestKind.CANCEL, CancelArguments())
        with pytest.raises(WrongState, match="given up, because the job is being canceled"):
            checked(job.finish(request.request_id))
        checked(job.finish(cancel.request_id))
    assert job.wait().state is JobState.CANCELED
    assert os.listdir(tmp_path / "sp") == []


@contextmanager
def busy(spark: Any, let_go: Path) -> Iterator[None]:
    """Inside, no task of anybody else gets a core."""
    cores = spark.sparkContext.defaultParallelism
    started = let_go.with_name("started")
    started.mkdir()

    def hold(number: int) -> int:
        (started / str(number)).touch()
        while not let_go.exists():
            time.sleep(0.1)
        return number

    def run() -> None:
        spark.sparkContext.parallelize(range(cores), cores).map(hold).collect()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        while len(os.listdir(started)) < cores:
            time.sleep(0.05)
        yield
    finally:
        let_go.touch()
        thread.join()


def _phase(job: InProcessJob, request_id: str) -> str | None:
    return (job.registry.request(request_id).progress or {}).get("phase")


def checked(request: Request) -> None:
    if request.state is RequestState.FAILED:
        raise from_record(request.error or {})
