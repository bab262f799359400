"""A job that is started again goes on in place, in each query's own checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flinkish import storage
from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.checkpoint.format.logs import drained_entry
from flinkish.checkpoint.format.pins import SETTING_CHECKPOINT_FORMAT
from flinkish.driver.runtime.earlier_runs import EarlierRun, run_of
from flinkish.driver.spark.jvm import configured
from flinkish.errors import Corrupt, Incompatible, NoCommittedBatch
from flinkish.launch.restart_strategy import may_restart
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.plan import Check, HistoryShift, QueryRow, RestoreOutcome, RestorePlan
from flinkish.messages.queries import QueryFacts, QueryStatus
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry.jobs import JobRecord, JobState, RequestKind
from tests.driver.test_claim import Counting, stopped
from tests.driver.test_gate import rate, rate_key
from tests.support.checkpoints.recorded import unpack
from tests.support.driver.in_process_job import InProcessJob
from tests.support.driver.operator_programs import BACKENDS

NewJob = Callable[..., InProcessJob]


@pytest.mark.parametrize(
    ("name", "written"), [("spark35-hdfs-join", "1"), ("spark43-ids-join", "2")]
)
def test_settings_are_those_that_spark_wrote(tmp_path: Path, name: str, written: str) -> None:
    settings = EarlierRun("q", str(unpack(name, tmp_path)), 0).read_settings()
    assert settings[SETTING_CHECKPOINT_FORMAT] == written
    assert settings["spark.sql.shuffle.partitions"].isdigit()
    provider = settings["spark.sql.streaming.stateStore.providerClass"]
    assert provider.endswith("HDFSBackedStateStoreProvider") == ("hdfs" in name)


def test_a_query_that_had_committed_nothing_begins_anew(tmp_path: Path) -> None:
    assert EarlierRun("q", str(tmp_path / "none")).read_settings() == {}


def test_a_checkpoint_that_is_gone_is_not_begun_anew(tmp_path: Path) -> None:
    with pytest.raises(NoCommittedBatch, match="had committed batch 3"):
        EarlierRun("q", str(tmp_path / "none"), 3).read_settings()


def test_a_damaged_log_is_refused(tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    newest = max((root / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    newest.write_text("v1\n{")
    with pytest.raises(Corrupt):
        EarlierRun("q", str(root), 1).read_settings()


@pytest.mark.parametrize("ran", [False, True], ids=["planned", "committed"])
def test_a_query_that_has_begun_to_drain_does_not_go_on(tmp_path: Path, ran: bool) -> None:
    """All later rows would be late; a job that was restored from a drained one has been told."""
    root = unpack("spark43-hdfs-agg", tmp_path)
    batch = newest_committed_batch(str(root))
    assert batch is not None
    run = EarlierRun("q", str(root), batch)
    assert run.read_settings()
    data = (root / "offsets" / str(batch)).read_bytes()
    (root / "offsets" / str(batch + 1)).write_bytes(drained_entry(data, "offsets"))
    if ran:
        shutil.copy(root / "commits" / str(batch), root / "commits" / str(batch + 1))
    for plan in (
        None,
        RestorePlan(checks=(Check("drained", RestoreOutcome.WARNING, "", query="p"),)),
    ):
        with pytest.raises(Incompatible, match="'q' has been drained, or was being drained") as why:
            replace(run, plan=plan).read_settings()
        assert not may_restart(why.value.to_record(), has_run=True)
    told = RestorePlan(checks=(Check("drained", RestoreOutcome.WARNING, "", query="q"),))
    assert replace(run, plan=told).read_settings()


def test_a_planned_batch_that_is_damaged_is_left_to_spark(tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    newest = max(int(path.name) for path in (root / "offsets").glob("[0-9]*"))
    (root / "offsets" / str(newest + 1)).write_text("v1\n{")
    assert EarlierRun("q", str(root), newest).read_settings()


def test_the_restored_batch_is_that_of_its_own_query() -> None:
    plan = RestorePlan(queries=(QueryRow("other", batch_id=3), QueryRow("q", batch_id=7)))
    assert run_of(QueryStatus("q", "id", "run", "/cp", plan=plan)).restored_batch == 7
    assert run_of(QueryStatus("new", "id", "run", "/cp", plan=plan)).restored_batch is None
    assert run_of(QueryStatus("q", "id", "run", "/cp")).restored_batch is None


class Numbering:
    """A program that notes each batch: one query of its own checkpoint, one without a name."""

    def __init__(self, spark: Any, own: Path) -> None:
        self._spark, self._own = spark, own
        self.batches: dict[str, list[int]] = {"own": [], "unnamed": []}

    def _note(self, key: str, frame: Any, batch: int) -> None:
        frame.count()
        self.batches[key].append(batch)

    def __call__(self) -> None:
        for key in self.batches:
            frame = rate(self._spark).groupBy(rate_key()).count()
            writer = frame.writeStream.outputMode("update")
            writer = writer.foreachBatch(partial(self._note, key))
            if key == "own":
                writer = writer.option("checkpointLocation", str(self._own)).queryName("own")
            writer.trigger(processingTime="100 milliseconds").start()
        self._spark.streams.awaitAnyTermination()


def cancelled(job: InProcessJob) -> JobRecord:
    job.request(RequestKind.CANCEL)
    record = job.wait()
    assert record.state is JobState.CANCELED
    return record


def ids(job: InProcessJob) -> dict[str, tuple[str, str]]:
    return {q.name: (q.query_id, q.checkpoint) for q in job.runtime.queries()}


@pytest.mark.spark
@pytest.mark.deep
def test_it_goes_on_in_checkpoints_of_format_2_and_in_the_programs_own(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    program = Numbering(spark, tmp_path / "own")
    with configured(spark, {**BACKENDS["rocksdb"], SETTING_CHECKPOINT_FORMAT: "2"}):
        job = new_job().start(program)
        job.wait_until(lambda: len(job.runtime.queries()) == 2 and job.batch() >= 1)
        before = ids(job)
        record = cancelled(job)
    again = new_job(again=record).start(program)
    reached = {key: len(seen) for key, seen in program.batches.items()}
    again.wait_until(
        lambda: all(len(seen) > reached[key] + 2 for key, seen in program.batches.items())
    )
    assert ids(again) == before, "the same queries, in place"
    cancelled(again)
    for seen in program.batches.values():
        assert sorted(set(seen)) == list(range(seen[-1] + 1)), "no batch is missing"
        assert len(seen) <= seen[-1] + 2, "at most the one that was cut off runs twice"
    kinds = {EarlierRun(n, place).read_settings()[SETTING_CHECKPOINT_FORMAT]
             for n, (_, place) in before.items()}  # fmt: skip
    assert kinds == ({"2"} if spark.version >= "4" else {"1"}), "format 2 came with Spark 4"


@pytest.mark.spark
@pytest.mark.deep
def test_a_claimed_savepoint_is_settled_by_the_second_driver(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    savepoint = stopped(spark, new_job, str(tmp_path / "s"))
    place = storage.locate(savepoint["path"])
    program = Counting(spark)
    program.let_go.clear()
    spec = RestoreSpec(path=savepoint["path"], options=RestoreOptions(claim_mode="claim"))
    job = new_job(restore=spec, cancel_grace=0.2).start(program)
    job.wait_until(program.held.is_set)
    before = ids(job)
    job.wait_for_heartbeats(1)
    program.given_up.set()
    program.let_go.set()
    failed = job.wait()
    assert failed.state is JobState.FAILED
    assert storage.exists(place), "one query has not committed a batch of its own"
    again = new_job(again=failed).start(Counting(spark))
    again.wait_until(lambda: not storage.exists(place))
    assert ids(again) == before
    third = new_job(again=cancelled(again)).start(Counting(spark))
    batch = third.batch()
    third.wait_until(lambda: third.batch() > batch + 1)
    cancelled(third)


def _forget_batches_after(checkpoint: Path, batch: int) -> None:
    """Leave a checkpoint as a restore has made it: Spark has not gone on in it."""
    for log in ("offsets", "commits"):
        for path in (checkpoint / log).iterdir():
            if path.name.isdigit() and int(path.name) > batch:
                path.unlink()


@pytest.mark.spark
def test_a_query_that_was_not_started_yet_begins_from_the_savepoint(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    savepoint = stopped(spark, new_job, str(tmp_path / "s"))
    batches = {q["name"]: q["batch_id"] for q in savepoint["queries"]}
    job = new_job(restore=RestoreSpec(path=savepoint["path"])).start(Counting(spark))
    job.wait_until(lambda: len(job.runtime.queries()) == 2 and job.batch() >= 0)
    record = cancelled(job)
    # As if the driver had died between its two queries.
    forgotten = next(q for q in job.registry.queries(job.job_id) if q.name == "two")
    job.registry._database.write(
        lambda tx: tx.execute(
            "DELETE FROM flinkish_queries WHERE job_id = :job AND name = :name",
            job=job.job_id,
            name="two",
        )
    )
    _forget_batches_after(Path(forgotten.checkpoint_dir), batches["two"])
    again = new_job(again=record).start(Counting(spark))
    again.wait_until(lambda: len(again.runtime.queries()) == 2)
    started = {q.name: q for q in again.runtime.queries()}
    assert started["two"].restored_batch == batches["two"]
    assert started["one"].restored_batch is None
    cancelled(again)


def test_the_history_s_shift_is_in_the_facts_and_before_that_in_the_plan() -> None:
    row = QueryRow("q", batch_id=7, history=HistoryShift(5 << 32, keep=False))
    plan = RestorePlan(queries=(row,))
    status = QueryStatus("q", "id", "run", "/cp", plan=plan)
    facts = QueryFacts("run", sink={"format": "foreachBatch", "history_shift": 5 << 32})
    for known in (None, facts, QueryFacts("run")):
        run = run_of(status, known)
        assert (run.query_id, run.history_shift) == ("id", 5 << 32)
    assert run_of(QueryStatus("q", "id", "run", "/cp"), facts).history_shift == 5 << 32
    assert run_of(QueryStatus("q", "id", "run", "/cp")).history_shift == 0
