"""run -s inside the driver: matching by query name, query ids, claim, adopted checkpoints."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinkish.checkpoint.cut import newest_committed_batch, read_cut
from flinkish.driver.spark.jvm import configured
from flinkish.errors import NonRestoredState
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobState, RequestKind
from flinkish.savepoint.format.reader import open_savepoint
from tests.driver.test_gate import rate, rate_key, start_counting
from tests.support.driver.in_process_job import InProcessJob
from tests.support.driver.operator_programs import BACKENDS

pytestmark = pytest.mark.spark

NewJob = Callable[..., InProcessJob]
Saved = Callable[..., tuple[dict[str, Any], str]]


def stopped_savepoint(
    spark: Any, new_job: NewJob, target: Path, names: tuple[str, ...] = ("counts",)
) -> tuple[dict[str, Any], InProcessJob]:
    """A savepoint of a job that was stopped with it."""

    def program() -> None:
        for name in names:
            start_counting(spark, name)
        spark.streams.awaitAnyTermination()

    job = new_job().start(program)
    job.wait_until(lambda: len(job.runtime.queries()) == len(names) and job.batch() >= 2)
    savepoint = job.request(RequestKind.STOP, str(target))["savepoint"]
    assert job.wait().state is JobState.FINISHED
    return savepoint, job


@pytest.fixture(scope="module")
def saved(
    spark: Any, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., tuple[dict[str, Any], str]]:
    """Savepoints of jobs that were stopped with them, and the id of the first query: each made
    once, and there for all tests that only read it. The job is in no test's registry."""
    made: dict[tuple[str, ...], tuple[dict[str, Any], str]] = {}

    def make(*names: str) -> tuple[dict[str, Any], str]:
        if names not in made:
            directory = tmp_path_factory.mktemp("saved")
            spark.streams.resetTerminated()
            with Registry.open(f"sqlite:///{directory}/registry.db") as registry:
                jobs: list[InProcessJob] = []

                def new_job() -> InProcessJob:
                    jobs.append(InProcessJob(registry, str(directory / "checkpoints")))
                    return jobs[0]

                try:
                    savepoint, job = stopped_savepoint(spark, new_job, directory / "sp", names)
                finally:
                    jobs[0].close()
            made[names] = savepoint, job.runtime.queries()[0].query_id
        return made[names]

    return make


def restored(
    spark: Any, new_job: NewJob, path: str, name: str = "counts", **spec: Any
) -> InProcessJob:
    job = new_job(restore=RestoreSpec(path, RestoreOptions(**spec)))
    return job.start(lambda: start_counting(spark, name).awaitTermination())


def test_a_stopped_job_goes_on_with_its_query_id_at_the_next_batch(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    savepoint, first = stopped_savepoint(spark, new_job, tmp_path / "sp")
    batch = savepoint["queries"][0]["batch_id"]
    job = restored(spark, new_job, savepoint["path"])
    job.wait_until(lambda: job.batch() > batch)
    query = job.runtime.queries()[0]
    assert query.query_id == first.runtime.queries()[0].query_id
    assert query.restored_batch == batch
    assert query.checkpoint != first.runtime.queries()[0].checkpoint
    assert committed(query.checkpoint)[0] <= batch
    job.request(RequestKind.CANCEL)
    assert Path(savepoint["path"]).is_dir()  # NO_CLAIM


#: What the session says at the restore; all of it is pinned otherwise by the savepoint.
OTHER_SETTINGS = {
    "spark.sql.shuffle.partitions": "5",
    "spark.sql.streaming.aggregation.stateFormatVersion": "1",
    **BACKENDS["rocksdb-changelog"],
}


def test_what_the_savepoint_pins_wins_over_the_session(
    spark: Any, new_job: NewJob, saved: Saved
) -> None:
    """The query is planned with the settings that Spark will take from the restored checkpoint."""
    savepoint, _ = saved("counts")
    pins = open_savepoint(savepoint["path"]).queries[0].pins
    assert {key: pins[key] for key in OTHER_SETTINGS if pins.get(key) == OTHER_SETTINGS[key]} == {}

    with configured(spark, OTHER_SETTINGS):
        job = restored(spark, new_job, savepoint["path"])
        job.wait_until(lambda: job.batch() > savepoint["queries"][0]["batch_id"])
    query = job.runtime.queries()[0]
    assert query.planned is not None
    (counts,) = query.planned.operators
    assert counts.node.partitions == 2
    ((store,),) = [op.node.stores for op in query.planned.operators]
    assert store.value_schema is not None
    fields = [field["name"] for field in store.value_schema["fields"]]
    assert fields == ["count"], "format 1 has the keys too"
    job.request(RequestKind.CANCEL)
    assert job.wait().state is JobState.CANCELED
    (operator,) = read_cut(query.checkpoint).operators
    assert operator.partitions == 2
    assert list(Path(query.checkpoint, "state").rglob("*.delta")), "not on RocksDB"


def committed(checkpoint: str) -> list[int]:
    """The batches of the commit log; none may be missing in between."""
    commits = Path(checkpoint, "commits")
    batches = sorted(int(p.name) for p in commits.iterdir() if p.name.isdigit())
    assert batches == list(range(batches[0], batches[-1] + 1))
    return batches


def test_fork_gets_a_new_query_id(spark: Any, new_job: NewJob, saved: Saved) -> None:
    savepoint, query_id = saved("counts")
    job = restored(spark, new_job, savepoint["path"], fork=True)
    job.wait_until(lambda: job.batch() > savepoint["queries"][0]["batch_id"])
    assert job.runtime.queries()[0].query_id != query_id
    job.request(RequestKind.CANCEL)


def test_a_savepoint_that_was_outlived_gets_a_new_query_id(
    spark: Any, new_job: NewJob, saved: Saved
) -> None:
    """Restored twice: the first restore went on, so the second is another history."""
    savepoint, query_id = saved("counts")
    batch = savepoint["queries"][0]["batch_id"]
    second = restored(spark, new_job, savepoint["path"])
    second.wait_until(lambda: second.batch() > batch)
    second.request(RequestKind.CANCEL)
    second.wait()
    third = restored(spark, new_job, savepoint["path"])
    third.wait_until(lambda: third.batch() > batch)
    ids = [j.runtime.queries()[0].query_id for j in (second, third)]
    assert ids[0] == query_id != ids[1]
    third.request(RequestKind.CANCEL)


@pytest.mark.parametrize("bounded", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_a_renamed_query_is_refused_before_anything_runs(
    spark: Any, new_job: NewJob, saved: Saved, bounded: bool
) -> None:
    savepoint, _ = saved("counts")
    seen: list[int] = []

    def program() -> None:
        grouped = rate(spark).selectExpr("value % 5 as k").groupBy("k").count()
        writer = grouped.writeStream.queryName("renamed").outputMode("update")
        writer = writer.foreachBatch(lambda frame, batch: seen.append(frame.count()))
        writer = writer.trigger(availableNow=True) if bounded else writer
        writer.start().awaitTermination()

    job = new_job(restore=RestoreSpec(path=savepoint["path"])).start(program)
    final = job.wait()
    assert final.state is JobState.FAILED
    assert final.failure is not None
    assert final.failure["code"] == 5
    assert "'counts'" in final.failure["hint"]
    assert job.outcome is not None
    assert isinstance(job.outcome.error, NonRestoredState)
    assert newest_committed_batch(job.runtime.queries()[0].checkpoint) is None
    assert not seen
    states = [line.state for line in job.registry.state_history(job.job_id)]
    assert JobState.RUNNING not in states, "run -d says at once that it failed"


@pytest.mark.parametrize(
    ("bounded", "named"),
    [
        (True, {"accept_partial": ("nothing",)}),
        (False, {"reset_sources": ("nothing",)}),
        *(
            pytest.param(True, named, marks=pytest.mark.deep)
            for named in ({"set_offsets": (("nothing", "latest"),)}, {"reset_sources": ("none",)})
        ),
    ],
)
def test_a_name_that_nothing_has_is_refused_before_anything_runs(
    spark: Any, new_job: NewJob, saved: Saved, bounded: bool, named: dict[str, Any]
) -> None:
    """Also where the program may start other queries: nothing in the savepoint is left for them."""
    savepoint, _ = saved("counts")
    seen: list[int] = []

    def program() -> None:
        grouped = rate(spark).groupBy(rate_key()).count()
        writer = grouped.writeStream.queryName("counts").outputMode("update")
        writer = writer.foreachBatch(lambda frame, batch: seen.append(frame.count()))
        writer = writer.trigger(availableNow=True) if bounded else writer
        writer.start().awaitTermination()

    job = new_job(restore=RestoreSpec(savepoint["path"], RestoreOptions(**named))).start(program)
    final = job.wait()
    assert final.state is JobState.FAILED
    assert final.failure is not None
    assert final.failure["code"] == 2
    assert "'no" in str(final.failure["message"])
    assert job.batch() == savepoint["queries"][0]["batch_id"], "nothing was processed"
    assert not seen


@pytest.mark.deep
@pytest.mark.parametrize(("name", "is_there"), [("two/rate", True), ("two/nothing", False)])
def test_a_name_of_a_later_query_waits_for_it(
    spark: Any, new_job: NewJob, saved: Saved, name: str, is_there: bool
) -> None:
    savepoint, _ = saved("one", "two")
    seen: list[str] = []

    def program() -> None:
        for query in ("one", "two"):
            writer = rate(spark).groupBy(rate_key()).count().writeStream.outputMode("update")
            writer = writer.foreachBatch(lambda frame, _, q=query: seen.append(q * frame.count()))
            writer.queryName(query).trigger(availableNow=True).start().awaitTermination()

    options = RestoreOptions(reset_sources=(name,))
    job = new_job(restore=RestoreSpec(savepoint["path"], options)).start(program)
    final = job.wait()
    assert any(each.startswith("one") for each in seen)
    assert any(each.startswith("two") for each in seen) is is_there
    notes = [note for query in job.runtime.queries() for note in query.notes]
    assert sum("--reset-source" in note for note in notes) == is_there, "not of the first query"
    assert (None if final.failure is None else final.failure["code"]) == (None if is_there else 2)


def test_dash_n_starts_a_renamed_query_empty(spark: Any, new_job: NewJob, saved: Saved) -> None:
    savepoint, _ = saved("counts")
    job = restored(spark, new_job, savepoint["path"], name="renamed", allow_non_restored=True)
    job.wait_until(lambda: job.batch() >= 0)
    assert job.runtime.queries()[0].restored_batch is None
    job.request(RequestKind.CANCEL)
    assert job.wait().state is JobState.CANCELED


def test_a_query_that_is_never_started_again_is_refused(
    spark: Any, new_job: NewJob, saved: Saved
) -> None:
    savepoint, _ = saved("one", "two")
    job = restored(spark, new_job, savepoint["path"], name="one")
    final = job.wait()
    assert final.state is JobState.FAILED
    assert final.failure is not None
    assert "query 'two'" in str(final.failure["message"])
    assert final.failure["code"] == 5
    assert job.batch() == savepoint["queries"][0]["batch_id"], "nothing was processed"


def test_a_job_that_died_while_its_queries_were_held_is_asked_again(
    spark: Any, new_job: NewJob, saved: Saved
) -> None:
    savepoint, _ = saved("one", "two")

    def dies() -> None:
        start_counting(spark, "one")
        raise RuntimeError("before it has started the other")

    spec = RestoreSpec(path=savepoint["path"])
    died = new_job(restore=spec).start(dies).wait()
    assert "before it has started" in str(died.failure)
    again = new_job(again=died).start(lambda: start_counting(spark, "one").awaitTermination())
    refused = again.wait()
    assert refused.failure is not None
    assert refused.failure["id"] == NonRestoredState.id
    assert again.batch() == savepoint["queries"][0]["batch_id"], "nothing was processed"


def test_a_planned_batch_is_not_replayed_before_all_state_has_an_owner(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    """Spark plans nothing to replay a batch, and so asks for no lock before the sink has it."""
    seen: list[list[str]] = []

    def start(name: str) -> Any:
        frame = spark.readStream.text(str(tmp_path / "in"))
        writer = frame.writeStream.queryName(name)
        if name == "one":
            writer = writer.foreachBatch(
                lambda rows, _: seen.append(sorted(row.value for row in rows.collect()))
            )
        return writer if name == "one" else writer.format("noop")

    for name in ("one", "two"):
        for number in range(2):
            write_numbers(tmp_path / "in", number, number + 1)
            writer = start(name).option("checkpointLocation", str(tmp_path / "saved" / name))
            writer.trigger(availableNow=True).start().awaitTermination()
    commits = tmp_path / "saved" / "one" / "commits"
    last = newest_committed_batch(str(commits.parent))
    for path in (commits / f"{last}", commits / f".{last}.crc"):
        path.unlink()
    seen.clear()

    restore = RestoreSpec(path=str(tmp_path / "saved"))
    refused = new_job(restore=restore).start(lambda: start("one").start().awaitTermination())
    final = refused.wait()
    assert final.failure is not None
    assert final.failure["code"] == 5
    assert seen == []

    def both() -> None:
        start("one").start()
        start("two").start().awaitTermination()

    job = new_job(restore=restore).start(both)
    job.wait_until(lambda: seen)
    job.request(RequestKind.CANCEL)
    assert job.wait().state is JobState.CANCELED
    assert seen == [["1"]]


@pytest.mark.deep
def test_a_query_that_is_never_started_again_may_be_dropped(
    spark: Any, new_job: NewJob, saved: Saved
) -> None:
    savepoint, _ = saved("one", "two")
    job = restored(spark, new_job, savepoint["path"], name="one", allow_non_restored=True)
    job.wait_until(lambda: job.batch() > savepoint["queries"][0]["batch_id"])
    job.request(RequestKind.CANCEL)
    assert job.wait().state is JobState.CANCELED


@pytest.mark.deep
def test_claim_deletes_the_savepoint_after_the_first_own_commit(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    savepoint, _ = stopped_savepoint(spark, new_job, tmp_path / "sp")
    job = restored(spark, new_job, savepoint["path"], claim_mode="claim")
    path = savepoint["path"]
    job.wait_until(lambda: path not in [each.path for each in job.registry.savepoints()])
    assert not Path(path).exists()
    assert job.batch() > savepoint["queries"][0]["batch_id"]
    job.request(RequestKind.CANCEL)
    assert job.wait().state is JobState.CANCELED


def test_claim_keeps_the_savepoint_of_a_job_that_never_committed(
    spark: Any, new_job: NewJob, tmp_path: Path, saved: Saved
) -> None:
    """Flink 1.18 loses the savepoint here."""
    path = str(shutil.copytree(saved("counts")[0]["path"], tmp_path / "sp" / "savepoint"))

    def program() -> None:
        def boom(frame: Any, batch: int) -> None:
            raise ValueError("no")

        grouped = rate(spark).groupBy(rate_key()).count()
        writer = grouped.writeStream.queryName("counts").outputMode("update")
        writer.foreachBatch(boom).start().awaitTermination()

    job = new_job(restore=RestoreSpec(path=path, options=RestoreOptions(claim_mode="claim")))
    assert job.start(program).wait().state is JobState.FAILED
    assert Path(path, "_metadata").is_file()


@pytest.mark.parametrize("several", [pytest.param(False, marks=pytest.mark.deep), True])
def test_a_plain_spark_checkpoint_is_adopted(
    spark: Any, new_job: NewJob, tmp_path: Path, several: bool
) -> None:
    """A query that flinkish never managed. It is nobody's to delete, whoever claims it."""
    root = tmp_path / "plain"
    location = root / "counts" if several else root
    frame = rate(spark).selectExpr("value % 5 as k").groupBy("k").count()
    writer = frame.writeStream.outputMode("update").format("noop")
    query = writer.option("checkpointLocation", str(location)).start()
    while (newest_committed_batch(str(location)) or 0) < 2:
        time.sleep(0.02)
    query.stop()
    query_id = json.loads((location / "metadata").read_text())["id"]

    def program() -> None:
        again = rate(spark).selectExpr("value % 5 as k").groupBy("k").count()
        writer = again.writeStream.outputMode("update").format("noop")
        (writer.queryName("counts") if several else writer).start().awaitTermination()

    restore = RestoreSpec(path=str(root), options=RestoreOptions(claim_mode="claim"))
    job = new_job(restore=restore).start(program)
    job.wait_until(lambda: job.batch() >= 4)
    job.wait_for_heartbeats(2)
    assert job.runtime.queries()[0].query_id == query_id
    assert (location / "commits").is_dir()
    job.request(RequestKind.CANCEL)
    assert job.wait().state is JobState.CANCELED


def test_the_programs_own_checkpoint_location_is_used_and_left_alone(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    own = tmp_path / "own"

    def program() -> None:
        writer = rate(spark).writeStream.queryName("q").format("noop")
        writer.option("checkpointLocation", str(own)).start().awaitTermination()

    job = new_job().start(program)
    job.wait_until(lambda: job.batch() >= 1)
    assert job.runtime.queries()[0].checkpoint == str(own)
    savepoint = job.request(RequestKind.STOP, str(tmp_path / "sp"))["savepoint"]
    job.wait()
    before = sorted(p.name for p in (own / "commits").iterdir())
    shutil.copytree(own, tmp_path / "copy")
    again = new_job(restore=RestoreSpec(path=savepoint["path"])).start(program)
    again.wait_until(lambda: again.batch() > savepoint["queries"][0]["batch_id"])
    assert again.runtime.queries()[0].checkpoint != str(own)
    assert sorted(p.name for p in (own / "commits").iterdir()) == before
    again.request(RequestKind.CANCEL)


def write_numbers(directory: Path, first: int, last: int) -> None:
    directory.mkdir(exist_ok=True)
    for number in range(first, last):
        (directory / f"{number}.txt").write_text(f"{number}\n")


@pytest.mark.deep
@pytest.mark.parametrize("name", ["x", None])
def test_a_loop_over_one_checkpoint_goes_on_from_the_restored_one(
    spark: Any, new_job: NewJob, tmp_path: Path, name: str | None
) -> None:
    """A program that starts its bounded query again and again, on a location of its own."""
    source, own = tmp_path / "in", tmp_path / "own"
    seen: list[str] = []
    hold = threading.Event()

    def program() -> None:
        for number in range(3):
            write_numbers(source, len(seen), len(seen) + 2)
            writer = spark.readStream.text(str(source)).writeStream
            writer = writer.queryName(name) if name else writer
            writer = writer.foreachBatch(
                lambda frame, batch: seen.extend(row.value for row in frame.collect())
            )
            writer = writer.option("checkpointLocation", str(own)).trigger(availableNow=True)
            writer.start().awaitTermination()
            if number == 2:
                hold.wait(30)

    job = new_job().start(program)
    job.wait_until(lambda: len(seen) == 6 and job.batch() >= 2)
    assert [q.name for q in job.runtime.queries()] == [name or "query-1"]
    path = job.request(RequestKind.SAVEPOINT, str(tmp_path / "sp"))["savepoint"]["path"]
    hold.set()
    assert job.wait().state is JobState.FINISHED
    before = sorted(p.name for p in (own / "commits").iterdir())
    again = new_job(restore=RestoreSpec(path=path)).start(program)
    final = again.wait()
    assert final.state is JobState.FINISHED, final.failure
    assert sorted(seen, key=int) == [str(n) for n in range(12)], "each input once"
    assert sorted(p.name for p in (own / "commits").iterdir()) == before


def test_queries_one_after_the_other_are_restored(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    """The second query is started only when the first, a bounded one, has ended."""

    def program() -> None:
        write_numbers(tmp_path / "in", 0, 2)
        first = spark.readStream.text(str(tmp_path / "in")).writeStream.queryName("first")
        first.format("noop").trigger(availableNow=True).start().awaitTermination()
        start_counting(spark, "second").awaitTermination()

    job = new_job().start(program)
    job.wait_until(lambda: len(job.runtime.queries()) == 2 and job.batch() >= 0)
    path = job.request(RequestKind.STOP, str(tmp_path / "sp"))["savepoint"]["path"]
    assert job.wait().state is JobState.FINISHED
    again = new_job(restore=RestoreSpec(path=path)).start(program)
    again.wait_until(lambda: len(again.runtime.queries()) == 2 and again.batch() >= 0)
    assert all(q.restored_batch is not None for q in again.runtime.queries())
    again.request(RequestKind.CANCEL)
    assert again.wait().state is JobState.CANCELED


def test_a_query_that_is_missing_after_a_bounded_one_is_missed_before_the_last_one_runs(
    spark: Any, new_job: NewJob, saved: Saved
) -> None:
    savepoint, _ = saved("counts", "second", "third")

    def program() -> None:
        frame = rate(spark).groupBy(rate_key()).count()
        writer = frame.writeStream.queryName("counts").outputMode("update").format("noop")
        writer.trigger(availableNow=True).start().awaitTermination()
        start_counting(spark, "second").awaitTermination()

    job = new_job(restore=RestoreSpec(savepoint["path"])).start(program)
    final = job.wait()
    assert final.state is JobState.FAILED
    assert job.outcome is not None
    assert isinstance(job.outcome.error, NonRestoredState)
    assert "'third'" in job.outcome.error.message
    first, second = job.runtime.queries()
    assert newest_committed_batch(second.checkpoint) == second.restored_batch
    assert newest_committed_batch(first.checkpoint) != first.restored_batch


@pytest.mark.deep
def test_a_savepoint_before_the_second_query_is_started_names_it(
    spark: Any, new_job: NewJob, saved: Saved, tmp_path: Path
) -> None:
    """Its state is in the savepoint that the job began with: it must not start empty later."""
    savepoint, _ = saved("counts", "second")
    goes_on = threading.Event()

    def write(frame: Any, _batch: int) -> None:
        frame.collect()
        goes_on.wait(60)

    def program() -> None:
        frame = rate(spark).groupBy(rate_key()).count()
        writer = frame.writeStream.queryName("counts").outputMode("update").foreachBatch(write)
        writer.trigger(availableNow=True).start().awaitTermination()

    job = new_job(restore=RestoreSpec(savepoint["path"])).start(program)
    job.wait_until(lambda: len(job.runtime.queries()) == 1 and job.batch() >= 0)
    try:
        taken = job.request(RequestKind.SAVEPOINT, str(tmp_path / "sp"))
    finally:
        goes_on.set()
    (left,) = taken["left_out"]
    assert (left["query"], left["pending"]) == ("second", True)
    assert f"its state is in {savepoint['path']}" in left["reason"]
    failed = job.wait()
    assert failed.failure is not None
    assert failed.failure["id"] == "non-restored-state"


@pytest.mark.deep
def test_a_program_with_threads_may_wait_for_one_query_while_it_starts_the_next(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    savepoint, _ = stopped_savepoint(spark, new_job, tmp_path / "sp", ("one", "two"))
    waits = threading.Event()

    def wait_for(query: Any) -> None:
        waits.set()
        query.awaitTermination()

    def program() -> None:
        first = threading.Thread(target=wait_for, args=(start_counting(spark, "one"),))
        first.start()
        waits.wait(10)
        start_counting(spark, "two").awaitTermination()
        first.join()

    job = new_job(restore=RestoreSpec(path=savepoint["path"])).start(program)
    batch = max(query["batch_id"] for query in savepoint["queries"])
    job.wait_until(lambda: job.batch() > batch)
    job.request(RequestKind.CANCEL)
    assert job.wait().state is JobState.CANCELED
