"""Jobs of which a query has nothing to save: it ended before it committed, or its checkpoint is
gone. The others are saved, or the error says what would be missing."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.driver.requests.job_savepoint import ENDED, NO_INPUT, has_committed, left_out
from flinkish.driver.spark import jvm as spark_jvm
from flinkish.errors import ConsentNeeded, Corrupt, GivenUp, WrongState
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.requests import LeftOut
from flinkish.messages.restore_options import RestoreOptions
from flinkish.registry.jobs import JobState, RequestKind
from flinkish.savepoint.format.reader import check_files, open_savepoint
from tests.support.driver.in_process_job import InProcessJob

pytestmark = pytest.mark.spark

NewJob = Callable[..., InProcessJob]


def start(spark: Any, name: str, empty: Path | None = None, **trigger: Any) -> Any:
    """A query; one that reads the ``empty`` directory never commits a batch."""
    if empty is None:
        frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
        frame = frame.groupBy("value").count()
    else:
        empty.mkdir(exist_ok=True)
        frame = spark.readStream.schema("value long").json(str(empty)).groupBy("value").count()
    writer = frame.writeStream.queryName(name).outputMode("update").format("noop")
    return writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start()


def committed(job: InProcessJob, name: str) -> int | None:
    for query in job.runtime.queries():
        if query.name == name:
            return newest_committed_batch(query.checkpoint)
    return None


def names(result: Any) -> list[str]:
    savepoint = open_savepoint(result["savepoint"]["path"])
    check_files(savepoint, "full")
    return [query.name for query in savepoint.queries]


LEFT_OUT = [{"query": "c4", "reason": "it ended before it committed a batch"}]


@pytest.mark.parametrize(
    "kind", [RequestKind.STOP, pytest.param(RequestKind.CANCEL, marks=pytest.mark.deep)]
)
def test_a_query_that_never_committed_is_left_out(
    spark: Any, new_job: NewJob, tmp_path: Path, kind: RequestKind
) -> None:
    def program() -> None:
        start(spark, "c1")
        start(spark, "c4", tmp_path / "empty").stop()
        start(spark, "c2").awaitTermination()

    target = str(tmp_path / "savepoints")
    job = new_job().start(program)
    job.wait_until(lambda: committed(job, "c1") is not None and committed(job, "c2") is not None)
    taken = job.request(RequestKind.SAVEPOINT, target)
    assert (names(taken), taken["left_out"]) == (["c1", "c2"], LEFT_OUT)
    ended = job.request(kind, target)
    assert (names(ended), ended["left_out"]) == (["c1", "c2"], LEFT_OUT)
    final = JobState.FINISHED if kind is RequestKind.STOP else JobState.CANCELED
    assert job.wait().state is final


def test_without_one_nothing_is_said(spark: Any, new_job: NewJob, tmp_path: Path) -> None:
    job = new_job().start(lambda: start(spark, "c1").awaitTermination())
    job.wait_until(lambda: committed(job, "c1") is not None)
    assert "left_out" not in job.request(RequestKind.STOP, str(tmp_path / "savepoints"))


def test_when_all_have_ended_there_is_nothing_to_save(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    def program() -> None:
        start(spark, "c3", tmp_path / "empty").stop()
        start(spark, "c4", tmp_path / "empty").stop()
        job.wait_until(lambda: job.runtime.ending is not None)

    job = new_job().start(program)
    job.wait_until(lambda: len(job.runtime.queries()) == 2)
    job.wait_until(lambda: not spark.streams.active)
    with pytest.raises(WrongState, match="'c3', 'c4'"):
        job.request(RequestKind.SAVEPOINT, str(tmp_path / "savepoints"))
    job.request(RequestKind.CANCEL)
    assert job.wait().state is JobState.CANCELED


@pytest.mark.parametrize(
    "kind", [RequestKind.SAVEPOINT, pytest.param(RequestKind.STOP, marks=pytest.mark.deep)]
)
def test_a_savepoint_waits_for_queries_that_the_program_has_yet_to_start(
    spark: Any, new_job: NewJob, tmp_path: Path, kind: RequestKind
) -> None:
    go_on = threading.Event()

    def program() -> None:
        start(spark, "a")
        assert go_on.wait(60)
        start(spark, "b").awaitTermination()

    target = str(tmp_path / "savepoints")
    job = new_job(quiet=60).start(program)
    job.wait_until(lambda: committed(job, "a") is not None)
    assert job.job().state is JobState.CREATED
    with pytest.raises(GivenUp, match="running: 'a'"):
        job.request(kind, target, timeout=0.3)
    request = job.submit(kind, target)
    job.wait_until(lambda: job.registry.request(request).started is not None)
    go_on.set()
    result = job.finish(request).result
    assert result is not None
    assert result.savepoint is not None
    saved = open_savepoint(result.savepoint.path)
    assert [query.name for query in saved.queries] == ["a", "b"]
    assert (saved.header.job.left_out, saved.header.job.complete, result.complete) == (
        (),
        True,
        True,
    )
    if kind is RequestKind.SAVEPOINT:
        job.request(RequestKind.CANCEL)
    job.wait()


def test_an_incomplete_savepoint_says_so(spark: Any, new_job: NewJob, tmp_path: Path) -> None:
    """The program neither waits nor ends: it may start another query, and then does."""
    go_on = threading.Event()

    def program() -> None:
        start(spark, "a")
        assert go_on.wait(60)
        start(spark, "b").awaitTermination()

    job = new_job().start(program)
    job.wait_until(lambda: committed(job, "a") is not None)
    taken = job.request(RequestKind.SAVEPOINT, str(tmp_path / "savepoints"))
    assert taken["complete"] is False
    go_on.set()
    job.wait_until(lambda: committed(job, "b") is not None)
    job.request(RequestKind.CANCEL)
    job.wait()
    path = taken["savepoint"]["path"]
    refused = new_job(restore=RestoreSpec(path)).start(program)
    refused.wait()
    assert refused.outcome is not None
    assert isinstance(refused.outcome.error, ConsentNeeded)
    assert "'b' may have been one of them" in str(refused.outcome.error)
    agreed = new_job(restore=RestoreSpec(path, RestoreOptions(allow_non_restored=True))).start(
        program
    )
    agreed.wait_until(lambda: committed(agreed, "b") is not None)
    agreed.request(RequestKind.CANCEL)
    agreed.wait()


def test_a_query_without_input_is_left_out_and_named(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    def program() -> None:
        start(spark, "c1")
        start(spark, "c4", tmp_path / "empty").awaitTermination()

    target = str(tmp_path / "savepoints")
    job = new_job().start(program)
    job.wait_until(lambda: committed(job, "c1") is not None)
    taken = job.request(RequestKind.SAVEPOINT, target)
    assert names(taken) == ["c1"]
    (left,) = open_savepoint(taken["savepoint"]["path"]).header.job.left_out
    assert (left.query, left.pending) == ("c4", True)
    assert "no input" in left.reason
    (tmp_path / "empty" / "1.json").write_text('{"value": 1}')
    job.wait_until(lambda: committed(job, "c4") is not None)
    assert names(job.request(RequestKind.STOP, target)) == ["c1", "c4"]
    job.wait()
    refused = new_job(restore=RestoreSpec(taken["savepoint"]["path"])).start(program)
    refused.wait()
    assert refused.outcome is not None
    assert isinstance(refused.outcome.error, ConsentNeeded)
    assert "'c4' of the saved job is not in the savepoint" in str(refused.outcome.error)


def test_a_query_that_a_stop_ends_before_its_first_input_is_not_one_that_had_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A restore asks about the one, and not about the other."""
    monkeypatch.setattr(spark_jvm, "has_ended", lambda _: True)
    saved, idle, over = (
        SimpleNamespace(name=name, jsq=None, quiesced=quiesced)
        for name, quiesced in (("saved", True), ("idle", True), ("over", False))
    )
    assert left_out([saved, idle, over], [saved]) == (  # type: ignore[list-item]
        LeftOut("idle", NO_INPUT, pending=True),
        LeftOut("over", ENDED),
    )


@pytest.mark.parametrize(
    ("progress", "restored", "lost"),
    [
        ({"batchId": 8, "durationMs": {"triggerExecution": 1}}, None, 7),  # idle: of the next
        ({"batchId": 8, "durationMs": {"addBatch": 1}}, None, 8),
        ({"batchId": 0, "durationMs": {}}, 4, 4),
        ({"batchId": 0, "durationMs": {}}, None, None),
    ],
)
def test_a_query_that_is_idle_is_not_one_that_never_had_input(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    progress: dict[str, Any],
    restored: int | None,
    lost: int | None,
) -> None:
    """Its checkpoint was removed: the savepoint would lack its state without a word."""
    monkeypatch.setattr(spark_jvm, "last_progress", lambda _: progress)
    query: Any = SimpleNamespace(
        name="q", jsq=None, checkpoint=str(tmp_path / "q"), progress={}, restored_batch=restored
    )
    if lost is None:
        assert not has_committed(query)
        return
    with pytest.raises(Corrupt, match=f"has committed batch {lost}, "):
        has_committed(query)


def removed(directory: Path) -> bool:
    """Remove a checkpoint; Spark may just be removing files of it itself."""
    shutil.rmtree(directory, ignore_errors=True)
    return not directory.exists()


@pytest.mark.parametrize("kind", [RequestKind.SAVEPOINT, RequestKind.STOP])
@pytest.mark.deep
def test_a_query_whose_checkpoint_was_removed_is_named(
    spark: Any, new_job: NewJob, tmp_path: Path, kind: RequestKind
) -> None:
    """It had state, and a savepoint without it would lose that without a word."""

    def program() -> None:
        start(spark, "c4")
        start(spark, "c1").awaitTermination()

    job = new_job().start(program)
    job.wait_until(lambda: committed(job, "c1") is not None and committed(job, "c4") is not None)
    (query,) = [q for q in job.runtime.queries() if q.name == "c4"]
    query.handle.stop()
    job.wait_until(lambda: query.handle.lastProgress is not None)
    job.wait_until(lambda: removed(Path(query.checkpoint)))
    with pytest.raises(Corrupt) as caught:
        job.request(kind, str(tmp_path / "savepoints"))
    assert "query 'c4'" in caught.value.message
    assert query.checkpoint in caught.value.message
    assert "removed" in caught.value.message
    assert "flinkish cancel" in caught.value.hint
    assert job.job().state is JobState.RUNNING
    batch = committed(job, "c1")
    assert batch is not None
    job.wait_until(lambda: (committed(job, "c1") or 0) > batch)
    job.request(RequestKind.CANCEL)
    assert job.wait().state is JobState.CANCELED
