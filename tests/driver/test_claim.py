"""``run -s PATH -cm claim``: the savepoint goes when every restored query has a commit of its own,
never before; Flink loses it when a job is cancelled before that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish import storage
from flinkish.driver.plan.uid_rules import Planning
from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.requests import actions
from flinkish.driver.restore import restorer as restoring
from flinkish.driver.runtime.quiesce import stop_hard
from flinkish.driver.spark.jvm import configured
from flinkish.errors import Corrupt, RegistryError
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.requests import SavepointSummary
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState, RequestKind
from flinkish.savepoint.format.reader import FULL, check_files, open_savepoint
from tests.driver.test_gate import rate, rate_key
from tests.support.checkpoints.saved import save
from tests.support.driver.in_process_job import InProcessJob
from tests.support.driver.operator_programs import BACKENDS
from tests.support.savepoint.places import place

pytestmark = pytest.mark.spark

NewJob = Callable[..., InProcessJob]
QUERIES = ("one", "two")


@pytest.fixture(
    params=["local", pytest.param("moto_s3", marks=[pytest.mark.servers, pytest.mark.deep])]
)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with place(request.param, request, tmp_path) as location:
        yield location


class Counting:
    """A program of two queries; what one of them does in its batches can be held up."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self.let_go = threading.Event()
        self.let_go.set()
        self.held = threading.Event()
        self.given_up = threading.Event()

    def __call__(self) -> None:
        for name in QUERIES:
            writer = rate(self._spark).groupBy(rate_key()).count().writeStream
            writer = writer.queryName(name).outputMode("update")
            writer = writer.foreachBatch(self._wait) if name == "two" else writer.format("noop")
            writer.trigger(processingTime="200 milliseconds").start()
        self._spark.streams.awaitAnyTermination()

    def _wait(self, frame: Any, batch: int) -> None:
        frame.count()
        if not self.let_go.is_set():
            self.held.set()
            self.let_go.wait(60)
            if self.given_up.is_set():
                raise RuntimeError("this batch is never committed")


def stopped(spark: Any, new_job: NewJob, target: str, **more: Any) -> dict[str, Any]:
    job = new_job(**more).start(Counting(spark))
    job.wait_until(lambda: len(job.runtime.queries()) == 2 and job.batch() >= 1)
    savepoint: dict[str, Any] = job.request(RequestKind.STOP, target)["savepoint"]
    assert job.wait().state is JobState.FINISHED
    return savepoint


def whole(path: str) -> None:
    check_files(open_savepoint(path), FULL)


def committed(job: InProcessJob, name: str) -> int:
    from flinkish.checkpoint.cut import newest_committed_batch

    (query,) = (q for q in job.runtime.queries() if q.name == name)
    batch = newest_committed_batch(query.checkpoint)
    return -1 if batch is None else batch


def test_it_is_deleted_when_the_last_query_has_committed(
    spark: Any, new_job: NewJob, root: str
) -> None:
    savepoint = stopped(spark, new_job, f"{root}/s")
    program = Counting(spark)
    program.let_go.clear()
    batches = {q["name"]: q["batch_id"] for q in savepoint["queries"]}
    job = new_job(
        restore=RestoreSpec(path=savepoint["path"], options=RestoreOptions(claim_mode="claim"))
    ).start(program)
    job.wait_until(program.held.is_set)
    job.wait_until(lambda: committed(job, "one") > batches["one"] + 2)
    job.wait_for_heartbeats(3)  # at each of which it is asked
    whole(savepoint["path"])
    program.let_go.set()
    job.wait_until(lambda: not storage.exists(storage.locate(savepoint["path"])))
    assert all(committed(job, name) > batches[name] for name in QUERIES)
    job.wait_until(lambda: savepoint["path"] not in [s.path for s in job.registry.savepoints()])
    job.request(RequestKind.CANCEL)
    assert job.wait().state is JobState.CANCELED


def test_what_was_opened_is_deleted_wherever_its_link_leads_by_then(
    registry: Registry, tmp_path: Path
) -> None:
    claimed, other = (save(tmp_path / each, "hdfs-agg") for each in ("one", "other"))
    link, above = tmp_path / "link", tmp_path / "above"
    above.symlink_to("one")
    link.symlink_to(claimed)
    recorded = str(above / Path(claimed).relative_to(tmp_path / "one"))
    for path in (recorded, other):
        registry.add_savepoint(SavepointSummary(path, "a" * 32, 1.0, "native", 1, 1, 0.1, ()))
    spec = RestoreSpec(str(link), RestoreOptions(claim_mode="claim"))
    restorer = restoring.Restorer(registry, "a" * 32, spec, Planning({}))
    link.unlink()
    link.symlink_to(other)
    restorer._give_up_claimed()
    assert not Path(claimed).exists()
    whole(other)
    assert [each.path for each in registry.savepoints()] == [other]


@pytest.mark.parametrize("needs", ["restored", "own", "none"])
def test_a_claimed_savepoint_that_another_job_needs_stays(
    registry: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str], needs: str
) -> None:
    path = save(tmp_path, "hdfs-agg")
    spec = RestoreSpec(path, RestoreOptions(claim_mode="claim"))
    if needs != "none":
        job_id = ("a" if needs == "own" else "b") * 32
        launch = Launch("/a.py", restore=spec)
        job = JobRecord(job_id, "counts", JobState.RUNNING, registry.now(), launch)
        registry.add_job(job)
    restoring.Restorer(registry, "a" * 32, spec, Planning({}))._give_up_claimed()
    said = capsys.readouterr().err
    if needs == "restored":
        whole(path)
        assert "job counts (bbbbbb) was restored from it and has no commit of its own" in said
    else:
        assert not Path(path).exists()
        assert "deleted" in said


def test_a_claimed_savepoint_that_is_deleted_is_not_said_to_be_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        raise RegistryError("the server restarts")

    restorer: Any = object.__new__(restoring.Restorer)
    restorer._offers = SimpleNamespace(path="/sp/savepoint-1")
    restorer._registry = SimpleNamespace(savepoints=refuse)
    restorer._job_id = "a" * 32
    unneeded = SimpleNamespace(protected={})
    monkeypatch.setattr(restoring, "savepoints_in_use", lambda *_, **__: unneeded)
    monkeypatch.setattr(restoring, "dispose", lambda _: SimpleNamespace(kept=0))
    restorer._give_up_claimed()
    said = capsys.readouterr().err
    assert "savepoint-1 deleted" in said
    assert "the registry could not record" in said
    assert "could not be deleted" not in said


def test_a_heartbeat_does_not_wait_for_a_checkpoint_that_is_being_made(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = RestoreSpec(save(tmp_path, "hdfs-agg"), RestoreOptions(claim_mode="claim"))
    restorer = restoring.Restorer(registry, "a" * 32, spec, Planning({}))
    begun, go_on = threading.Event(), threading.Event()

    def making(*_: Any) -> Any:
        begun.set()
        go_on.wait(30)
        raise Corrupt("given up")

    monkeypatch.setattr(restoring, "plan_start", making)

    def restore() -> None:
        with pytest.raises(Corrupt, match="given up"):
            restorer.restore("q", None, WriterFacts(), None, str(tmp_path / "new"))

    thread = threading.Thread(target=restore)
    thread.start()
    assert begun.wait(60)
    restorer.settle_claim({})
    assert thread.is_alive(), "it has waited"
    go_on.set()
    thread.join()
    whole(spec.path)


@pytest.mark.deep
def test_a_job_cancelled_before_that_leaves_it_whole(
    spark: Any, new_job: NewJob, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    savepoint = stopped(spark, new_job, f"{root}/s")
    program = Counting(spark)
    program.let_go.clear()
    spec = RestoreSpec(path=savepoint["path"], options=RestoreOptions(claim_mode="claim"))
    job = new_job(restore=spec, cancel_grace=0.2).start(program)
    job.wait_until(program.held.is_set)

    def interrupted(queries: Sequence[Any]) -> None:
        # The interrupt does not reach Python, and Spark may commit a batch in spite of it.
        program.given_up.set()
        threading.Timer(1, program.let_go.set).start()
        stop_hard(queries)

    monkeypatch.setattr(actions, "stop_hard", interrupted)
    assert job.request(RequestKind.CANCEL)["stop_method"] == "stop"
    assert job.wait().state is JobState.CANCELED
    whole(savepoint["path"])
    assert savepoint["path"] in [s.path for s in job.registry.savepoints()]
    again = new_job(restore=spec).start(Counting(spark))
    again.wait_until(lambda: not storage.exists(storage.locate(savepoint["path"])))
    again.request(RequestKind.CANCEL)


@pytest.mark.deep
def test_files_that_another_savepoint_shares_stay(
    spark: Any, new_job: NewJob, root: str, tmp_path: Path
) -> None:
    with configured(spark, BACKENDS["rocksdb"]):  # whose files have names of their own
        first = stopped(spark, new_job, f"{root}/s")
    # What is saved before anything new was committed has nothing of its own but its metadata.
    program = Counting(spark)
    program.let_go.clear()
    job = new_job(
        restore=RestoreSpec(path=first["path"], options=RestoreOptions(claim_mode="claim"))
    ).start(program)
    job.wait_until(program.held.is_set)
    second = job.request(RequestKind.SAVEPOINT, f"{root}/s")["savepoint"]
    if not storage.is_local(root):
        assert second["shared_files"] > 0
        assert open_savepoint(second["path"]).holders == (storage.base_name(first["path"]),)
    whole(first["path"])
    program.let_go.set()
    metadata = storage.join(storage.locate(first["path"]), "_metadata")
    job.wait_until(lambda: not storage.exists(metadata))
    job.request(RequestKind.CANCEL)
    assert job.wait().state is JobState.CANCELED
    whole(second["path"])
    again = new_job(restore=RestoreSpec(path=second["path"])).start(Counting(spark))
    batch = max(query["batch_id"] for query in second["queries"])
    again.wait_until(lambda: again.batch() > batch)
    again.request(RequestKind.CANCEL)


@pytest.mark.deep
def test_a_checkpoint_is_never_claimed(spark: Any, new_job: NewJob, tmp_path: Path) -> None:
    """What ``-s`` names may be a job's checkpoint: nobody's to delete."""
    savepoint = stopped(spark, new_job, str(tmp_path / "s"))
    job = new_job(restore=RestoreSpec(path=savepoint["path"])).start(Counting(spark))
    job.wait_until(lambda: job.batch() > savepoint["queries"][0]["batch_id"] + 1)
    job.request(RequestKind.CANCEL)
    job.wait()
    checkpoint = str(job.job().checkpoint_dir)
    spec = RestoreSpec(path=checkpoint, options=RestoreOptions(claim_mode="claim"))
    again = new_job(restore=spec).start(Counting(spark))
    batch = max(committed(job, name) for name in QUERIES)
    again.wait_until(lambda: again.batch() > batch + 2)
    again.request(RequestKind.CANCEL)
    assert again.wait().state is JobState.CANCELED
    assert Path(checkpoint, "one", "commits").is_dir()
