"""What a query is asked before it starts without a savepoint: its sink, its checkpoint, others."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.checkpoint.cut import newest_committed_batch
from flinkish.checkpoint.format.logs import drained_entry
from flinkish.driver.plan.writer_settings import WriterFacts
from flinkish.driver.restore.other_jobs import OtherJobs
from flinkish.driver.restore.start_judge import Adviser, StartJudge
from flinkish.driver.spark.jvm import configured
from flinkish.errors import ConsentNeeded, Incompatible
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.requests import SavepointSummary
from flinkish.registry.claims import file_resource, query_resource
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.registry.liveness import process_ref
from tests.driver.test_recipe import CONFS
from tests.support.checkpoints.recorded import unpack
from tests.support.driver.in_process_job import InProcessJob

pytestmark = pytest.mark.spark

NewJob = Callable[..., InProcessJob]


@dataclass
class Copy:
    """A program that copies the files of a directory, one a batch, and ends."""

    spark: Any
    root: Path
    checkpoint: str | None = None
    dedup: bool = False
    count: list[int] | None = None
    options: dict[str, str] = field(default_factory=dict)

    def give(self, *names: str) -> None:
        """Write input files with one row each: their name."""
        (self.root / "in").mkdir(exist_ok=True)
        for name in names:
            (self.root / "in" / name).write_text(name)

    def __call__(self) -> None:
        reader = self.spark.readStream.option("maxFilesPerTrigger", 1).options(**self.options)
        rows = reader.text(str(self.root / "in"))
        if self.dedup:
            rows = rows.dropDuplicates(["value"])
        writer = rows.writeStream.queryName("copy").format("csv").trigger(availableNow=True)
        if self.checkpoint is not None:
            writer = writer.option("checkpointLocation", self.checkpoint)
        if self.count is not None:  # no sink that remembers its batches
            count = self.count
            writer.foreachBatch(lambda _, batch: count.append(batch)).start().awaitTermination()
            return
        writer.start(str(self.root / "out")).awaitTermination()

    def written(self) -> list[str]:
        """Return the rows that the sink's log has, sorted."""
        return sorted(row[0] for row in self.spark.read.csv(str(self.root / "out")).collect())


def run(new_job: NewJob, program: Copy, **more: Any) -> JobRecord:
    return new_job(**more).start(program).wait()


def resumed(job: JobRecord) -> RestoreSpec:
    assert job.checkpoint_dir is not None
    return RestoreSpec(job.checkpoint_dir, job=job.job_id)


def local_session() -> Any:
    """Return a session whose paths are local, without Spark."""
    hadoop = SimpleNamespace(get=lambda _: "file:///")
    return SimpleNamespace(
        conf=SimpleNamespace(get=lambda _key, default=None: default),
        _jsc=SimpleNamespace(hadoopConfiguration=lambda: hadoop),
    )


def refusal(job: JobRecord) -> dict[str, Any]:
    assert job.state is JobState.FAILED, job
    assert job.failure is not None
    assert job.failure["code"] == 5, job.failure
    return dict(job.failure)


def test_a_new_checkpoint_over_an_old_output(spark: Any, new_job: NewJob, tmp_path: Path) -> None:
    program = Copy(spark, tmp_path)
    program.give("a", "b")
    first = run(new_job, program)
    assert first.state is JobState.FINISHED, first.failure
    program.give("c")
    refused = refusal(run(new_job, program))
    assert refused["reasons"] == ["sink-ahead"]
    assert "has batch 1" in refused["message"]
    for way in ("--name test --resume", "-s PATH", "accept", "rebase", "another path"):
        assert way in refused["hint"]
    assert program.written() == ["a", "b"]

    agreed = new_job(sink_ahead="accept").start(program)
    assert agreed.wait().state is JobState.FINISHED
    assert any("as accepted" in n for q in agreed.runtime.queries() for n in q.notes)
    assert program.written() == ["a", "b", "c"], "the first two were dropped, and are there"


@pytest.mark.parametrize("dedup", [False, pytest.param(True, marks=pytest.mark.deep)])
def test_a_new_checkpoint_that_counts_on(
    spark: Any, new_job: NewJob, tmp_path: Path, dedup: bool
) -> None:
    program = Copy(spark, tmp_path, dedup=dedup)
    program.give("a", "b")
    assert run(new_job, program).state is JobState.FINISHED
    again = new_job(sink_ahead="rebase").start(program)
    ended = again.wait()
    assert ended.state is JobState.FINISHED, ended.failure
    (query,) = again.runtime.queries()
    assert "starts in a new checkpoint with batch 2" in query.notes[-1]
    assert program.written() == ["a", "a", "b", "b"]
    program.give("a2", "c")
    last = run(new_job, program, restore=resumed(ended))
    assert last.state is JobState.FINISHED, last.failure
    assert program.written() == ["a", "a", "a2", "b", "b", "c"]


def test_a_job_goes_on_from_where_its_name_stands(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    """And its program's own checkpoint is stale then."""
    program = Copy(spark, tmp_path, checkpoint=str(tmp_path / "own"), dedup=True)
    program.give("a", "b")
    first = run(new_job, program)
    assert first.state is JobState.FINISHED, first.failure
    program.give("c")
    again = run(new_job, program)
    assert again.state is JobState.FINISHED, "in the checkpoint that it has, no question"
    program.give("d")
    moved = run(new_job, program, restore=resumed(again))
    assert moved.state is JobState.FINISHED, moved.failure
    assert program.written() == ["a", "b", "c", "d"]
    program.give("e")

    stale = refusal(run(new_job, program))
    assert stale["reasons"] == ["checkpoint-stale"]
    assert f"would resume after batch 2 of {tmp_path}/own" in stale["message"]
    assert f"({moved.job_id}) has continued with it to batch 3" in stale["message"]
    assert "would silently drop the output up to that batch" in stale["message"]
    assert "--name test --resume" in stale["hint"]
    assert "accept" not in stale["hint"], "no state is written by batches that are skipped"
    assert program.written() == ["a", "b", "c", "d"]

    last = run(new_job, program, restore=resumed(moved))
    assert last.state is JobState.FINISHED, last.failure
    assert program.written() == ["a", "b", "c", "d", "e"]


def test_a_job_that_was_killed_between_the_commit_of_its_sink_and_its_own(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    """The sink skips that batch, and its state is taken along: nothing is lost, nothing twice."""
    program = Copy(spark, tmp_path, dedup=True)
    program.give("a", "b")
    killed = run(new_job, program)
    assert killed.state is JobState.FINISHED, killed.failure
    for name in ("1", ".1.crc"):
        (Path(str(killed.checkpoint_dir)) / "copy" / "commits" / name).unlink()
    (tmp_path / "in" / "again").write_text("b")
    program.give("c")
    again = run(new_job, program, restore=resumed(killed))
    assert again.state is JobState.FINISHED, again.failure
    assert program.written() == ["a", "b", "c"]


@pytest.mark.deep
def test_such_a_job_started_again_in_place_with_checkpoint_format_2(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    """Spark 4 cannot commit the batch that the sink skips; the failure says what to do then."""
    if spark.version.startswith("3."):
        pytest.skip("checkpoint format 2 came with Spark 4.0")
    program = Copy(spark, tmp_path, dedup=True)
    program.give("a", "b")
    with configured(spark, CONFS["rocksdb-ids"]):
        killed = run(new_job, program)
        assert killed.state is JobState.FINISHED, killed.failure
        for name in ("1", ".1.crc"):
            (Path(str(killed.checkpoint_dir)) / "copy" / "commits" / name).unlink()
        failed = run(new_job, program, again=killed)
        assert failed.state is JobState.FAILED
        assert failed.failure is not None
        assert "CheckpointInfo length: 0" in failed.failure["message"]
        assert "its sink has it already" in failed.failure["hint"]
        resumed_again = refusal(run(new_job, program, restore=resumed(killed)))
    assert "--sink-ahead" in resumed_again["hint"]


@pytest.mark.parametrize("how", ["restart", "own", pytest.param("resume", marks=pytest.mark.deep)])
def test_a_source_that_leaves_old_files_out_now_is_refused(
    spark: Any, new_job: NewJob, tmp_path: Path, how: str
) -> None:
    """As by ``run -s``, by whatever command the query goes on."""
    own = str(tmp_path / "own") if how == "own" else None
    program = Copy(spark, tmp_path, checkpoint=own, options={"latestFirst": "true"})
    program.give("a")
    first = run(new_job, program)
    assert first.state is JobState.FINISHED, first.failure
    program.give("late")
    os.utime(tmp_path / "in" / "late", (1e9, 1e9))
    commands: dict[str, dict[str, Any]] = {
        "restart": {"again": first},
        "own": {},
        "resume": {"restore": resumed(first)},
    }
    refused = refusal(run(new_job, replace(program, options={}), **commands[how]))
    assert refused["reasons"] == ["files-too-old"]
    assert "--accept-lost-rows" in refused["hint"]
    if how != "resume":
        assert f"flinkish run -s {own or first.checkpoint_dir}" in refused["hint"]
    assert program.written() == ["a"]


def test_a_job_that_went_on_under_another_query_id(
    spark: Any, new_job: NewJob, registry: Registry, tmp_path: Path
) -> None:
    """From an older batch: no sink and no query id tells, but the job's own history."""
    batches: list[int] = []
    own, older = str(tmp_path / "own"), str(tmp_path / "older")
    program = Copy(spark, tmp_path, checkpoint=own, count=batches)
    program.give("a")
    first = run(new_job, program)
    assert first.state is JobState.FINISHED, first.failure
    shutil.copytree(own, older)
    registry.add_savepoint(SavepointSummary(older, first.job_id, 1.0, "native", 1, 1, 0.1, ()))
    program.give("b")
    assert run(new_job, program).state is JobState.FINISHED
    back = run(new_job, program, restore=RestoreSpec(older))
    assert back.state is JobState.FINISHED, back.failure
    refused = refusal(run(new_job, program))
    assert refused["reasons"] == ["checkpoint-stale"]
    assert f"({back.job_id}) has continued with it to batch 1" in refused["message"]
    assert "would be read and written again" in refused["message"]
    assert batches == [0, 1, 1]


def test_a_sink_without_batch_numbers_is_written_again(
    spark: Any, new_job: NewJob, tmp_path: Path
) -> None:
    """By a program without a checkpointLocation that is run again and again under one name."""
    batches: list[int] = []
    program = Copy(spark, tmp_path, count=batches)
    for files in ((), (), ("a",)):  # a run that has committed nothing counts for none
        program.give(*files)
        ended = run(new_job, program, named=True)
        assert ended.state is JobState.FINISHED, ended.failure
    refused = refusal(run(new_job, program, named=True))
    assert refused["reasons"] == ["sink-written"]
    assert f"({ended.job_id}) has written the batches up to 0" in refused["message"]
    assert "to its foreachBatch sink" in refused["message"]
    for way in ("--name test --resume", "--sink-ahead rebase"):
        assert way in refused["hint"]
    assert batches == [0]

    for agreed in ({"named": True, "sink_ahead": "rebase"}, {}):
        again = new_job(**agreed).start(program)
        assert again.wait().state is JobState.FINISHED
        (query,) = again.runtime.queries()
        assert any("it would all be written again" in note for note in query.notes)
    assert batches == [0, 0, 0]


def test_not_beside_another_job_on_the_output_or_the_query(
    spark: Any, new_job: NewJob, registry: Registry, tmp_path: Path
) -> None:
    program = Copy(spark, tmp_path, checkpoint=str(tmp_path / "own"))
    program.give("a")
    other = JobRecord(
        "d" * 32, "orig", JobState.RUNNING, 1.0, Launch("/x.py"), driver=process_ref()
    )
    registry.add_job(other)
    held = file_resource(str(tmp_path / "out"))
    assert registry.claim_resources(other.job_id, "seen", [held]) == []
    refused = refusal(run(new_job, program))
    assert refused["reasons"] == ["sink-in-use"]
    assert f"the RUNNING job orig ({other.job_id})" in refused["message"]
    registry.claim_resources(other.job_id, "seen", [])
    first = run(new_job, program)
    assert first.state is JobState.FINISHED, first.failure

    (query,) = registry.queries(first.job_id)
    assert registry.claim_resources(other.job_id, "copy", [query_resource(query.query_id)]) == []
    program.give("b")
    refused = refusal(run(new_job, program))
    assert refused["reasons"] == ["query-in-use"]
    assert program.written() == ["a"]
    registry.transition(other.job_id, JobState.FAILED)
    assert run(new_job, program).state is JobState.FINISHED
    assert program.written() == ["a", "b"]


def test_a_start_is_judged_by_what_the_job_before_it_has_left(
    registry: Registry, tmp_path: Path
) -> None:
    """That ended while its output was taken from it: its last batch counts."""
    log = tmp_path / "out" / "_spark_metadata"
    log.mkdir(parents=True)

    class Ending(OtherJobs):
        def take(self, *arguments: Any, **more: Any) -> None:
            (log / "7").write_text("v1\n{}")  # the other job's last batch
            super().take(*arguments, **more)

    job = JobRecord("a" * 32, "test", JobState.CREATED, 1.0, Launch("/x.py"), driver=process_ref())
    registry.add_job(job)
    judge = StartJudge(registry, job, Ending(registry, job.job_id))
    facts = WriterFacts(query_name="q", format="csv", path=str(tmp_path / "out"))
    with pytest.raises(ConsentNeeded, match="has batch 7"):
        judge.admit("q", None, facts, local_session(), str(tmp_path / "new"), again=False)


def test_a_drained_checkpoint_is_refused_as_by_a_restart(
    registry: Registry, tmp_path: Path
) -> None:
    """Spark would drop every row as late, silently; what the job itself has begun goes on."""
    root = unpack("spark43-hdfs-agg", tmp_path)
    job = JobRecord("a" * 32, "test", JobState.CREATED, 1.0, Launch("/x.py"), driver=process_ref())
    registry.add_job(job)
    facts = WriterFacts(query_name="q", format="noop")

    def admit(judge: StartJudge, **more: Any) -> list[str]:
        return judge.admit("q", None, facts, local_session(), str(root), again=False, **more)

    judge, adviser = (
        kind(registry, job, OtherJobs(registry, job.job_id)) for kind in (StartJudge, Adviser)
    )
    assert admit(judge) == []
    batch = newest_committed_batch(str(root))
    assert batch is not None
    data = (root / "offsets" / str(batch)).read_bytes()
    (root / "offsets" / str(batch + 1)).write_bytes(drained_entry(data, "offsets"))
    with pytest.raises(Incompatible, match="'q' has been drained, or was being drained") as refused:
        admit(judge)
    assert f"flinkish run -s {root} resumes from this" in str(refused.value.hint)
    with pytest.raises(Incompatible, match="drained"):
        admit(judge, ran_in=str(tmp_path / "another"))
    assert admit(judge, ran_in=f"file://{root}") == []
    (note,) = admit(adviser)
    assert "flinkish run would refuse it: query 'q' has been drained" in note
    (root / "offsets" / str(batch + 1)).write_bytes(data.replace(b"v1", b"v9", 1))
    assert admit(judge) == [], "that log is left to Spark"
