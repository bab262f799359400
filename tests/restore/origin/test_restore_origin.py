"""A job as the origin of a plan: the same as its savepoint, read where it lies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flinkish.checkpoint.cut import Cut, FilesVanished, read_cut
from flinkish.errors import Corrupt, SavepointNotFound
from flinkish.messages.calls import JobOrigin
from flinkish.messages.launch import RestoreSpec
from flinkish.messages.queries import QueryFacts, QueryStatus
from flinkish.messages.requests import LeftOut
from flinkish.messages.restore_options import RestoreOptions
from flinkish.restore.origin.restore_origin import newest_cut, open_job, open_origin, open_path
from flinkish.savepoint.format.contents import SavepointJob
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.query_records import query_source
from flinkish.savepoint.write.writer import write_savepoint
from tests.support.checkpoints.handwritten import CheckpointLikeness
from tests.support.checkpoints.recorded import unpack

FACTS = QueryFacts(
    "run",
    ({"uid": "in", "signature": "file[/in]", "directory": "0"},),
    {"format": "parquet", "path": "/out"},
    ({"ordinal": 0, "kind": "dedupe", "uid": "first", "operator_id_v3": "a" * 32},),
)


def test_it_is_what_its_savepoint_is(tmp_path: Path) -> None:
    root = unpack("spark43-rocksdb-dedup", tmp_path)
    query, left = QueryStatus("q", "id", "run", str(root)), (LeftOut("p", "it ended"),)
    saved = write_savepoint(
        str(tmp_path / "sp"),
        SavepointJob("j", "j", spark_version="4.3.0", left_out=left, complete=False),
        [query_source(query, FACTS)],
        trigger="savepoint",
        reporter=SilentSavepointReporter(),
    )
    job = JobOrigin("j", False, (query,), {"q": FACTS}, "4.3.0", "/work", left, False)
    found, expected = open_job(job), open_path(saved.path)
    assert found.queries == expected.queries
    (one,), (other,) = found.by_key.values(), expected.by_key.values()
    assert one == replace(other, origin=one.origin)
    assert set(one.origin.files) == set(other.origin.files)
    assert one.origin.root == str(root)
    assert replace(found, by_key={}, is_savepoint=True, path=saved.path) == replace(
        expected, by_key={}
    )


def saved_queries(tmp_path: Path, *names: str) -> str:
    """A savepoint of queries at batch 2."""
    roots = {name: CheckpointLikeness(tmp_path / "old" / name).run_to(2).root for name in names}
    queries = [QueryStatus(name, f"id-{name}", "run", str(root)) for name, root in roots.items()]
    return write_savepoint(
        str(tmp_path / "sp"),
        SavepointJob("j", "j", left_out=(LeftOut("p", "late", True), LeftOut("a", "late", True))),
        [query_source(query, None) for query in queries],
        trigger="savepoint",
        reporter=SilentSavepointReporter(),
    ).path


def test_queries_that_a_restored_job_had_not_started_are_its_savepoints(tmp_path: Path) -> None:
    root = CheckpointLikeness(tmp_path / "a").run_to(4).root
    query, path = QueryStatus("a", "id", "run", str(root)), saved_queries(tmp_path, "a", "b", "c")
    job = JobOrigin("j", False, (query,), began_with=path, taken=("a", "c"))
    found = open_job(job)
    assert {key: each.query.batch_id for key, each in found.by_key.items()} == {"a": 4, "b": 2}
    assert [each.query for each in found.left_out] == ["p"], "its job began it meanwhile"
    assert found.complete

    gone = replace(job, began_with=str(tmp_path / "gone"))
    with pytest.raises(SavepointNotFound, match="before it had started all queries") as refused:
        open_job(gone)
    assert "use -n" in refused.value.hint
    dropping, claimed = open_job(gone, drops=True), open_job(replace(gone, claimed=True))
    assert list(dropping.by_key) == list(claimed.by_key) == ["a"]
    assert (dropping.complete, claimed.complete) == (False, False)
    with_n = RestoreSpec("", RestoreOptions(allow_non_restored=True))
    assert list(open_origin(with_n, gone).by_key) == ["a"]


def test_a_plain_checkpoint_that_a_job_began_with(tmp_path: Path) -> None:
    root = CheckpointLikeness(tmp_path / "a").run_to(4).root
    plain = str(CheckpointLikeness(tmp_path / "plain").run_to(2).root)
    job = JobOrigin("j", False, (QueryStatus("a", "i", "r", str(root)),), began_with=plain)
    assert set(open_job(job).by_key) == {"a", None}
    assert set(open_job(replace(job, taken=(None,))).by_key) == {"a"}


@pytest.mark.parametrize(
    ("path", "known"),
    [("out", "/work/out"), ("/out", "/out"), ("s3a://b/out", "s3a://b/out"), (None, None)],
)
def test_a_running_jobs_sink_is_where_its_program_runs(
    tmp_path: Path, path: str | None, known: str | None
) -> None:
    root = CheckpointLikeness(tmp_path / "c").run_to(1).root
    facts = QueryFacts("run", sink={} if path is None else {"path": path})
    query = QueryStatus("q", "id", "run", str(root))
    (found,) = open_job(
        JobOrigin("j", True, (query,), {"q": facts}, working_directory="/work")
    ).by_key.values()
    assert found.live
    assert found.query.sink.get("path") == known


def test_a_checkpoint_that_is_trimmed_meanwhile_is_read_again(tmp_path: Path) -> None:
    writer = CheckpointLikeness(tmp_path / "c").run_to(3)
    troubles = [FilesVanished("one"), FilesVanished("two"), Corrupt("half a compaction")]

    def read(root: str) -> Cut:
        if troubles:
            writer.run_to(writer.batch + 1)
            raise troubles.pop(0)
        return read_cut(root)

    assert newest_cut(str(writer.root), read).batch_id == 6


def test_damage_is_told(tmp_path: Path) -> None:
    root = CheckpointLikeness(tmp_path / "c").run_to(3).root
    query = QueryStatus("q", "id", "run", str(root))
    lacking = QueryFacts("run", operators=({"ordinal": 7},))
    with pytest.raises(Corrupt, match="has no state of operator 7"):
        open_job(JobOrigin("j", True, (query,), {"q": lacking}))
    assert read_cut(str(root)).batch_id == 3
    (root / "offsets" / "3").write_text("v1\nnothing")
    with pytest.raises(Corrupt):
        open_job(JobOrigin("j", True, (query,)))
