"""``flinkish export`` without a program, of recorded savepoints; no Spark."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinkish import storage
from flinkish.checkpoint.wholeness import read_whole_cut
from flinkish.cli.commands.export import show
from flinkish.cli.output.printer import Output
from flinkish.client import exporting
from flinkish.client.export_checkpoints import (
    BuiltCheckpoints,
    build_unchanged,
    built,
    new_directory,
)
from flinkish.client.exporting import ExportResult
from flinkish.errors import Corrupt, SavepointNotFound, StorageError, UsageError, WrongState
from flinkish.messages.launch import Launch
from flinkish.messages.queries import QueryFacts, QueryStatus
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.savepoint.directory.leases import read_leases
from flinkish.savepoint.format.contents import QuerySource, SavepointJob
from flinkish.savepoint.format.reader import open_savepoint
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.writer import write_savepoint
from tests.cli.conftest import Command
from tests.support.checkpoints.handwritten import CheckpointLikeness
from tests.support.checkpoints.recorded import unpack
from tests.support.checkpoints.saved import save


def names(directory: Path) -> list[str]:
    """What the tests and the exports have put there; the rest is of the fixture."""
    ours = ("own", "plain", "saved", "whole", ".")
    return sorted(each.name for each in directory.iterdir() if each.name.startswith(ours))


def test_each_query_gets_its_checkpoint(cli: Command, tmp_path: Path) -> None:
    path = save(tmp_path, "rocksdb-tws", "hdfs-agg")
    target = tmp_path / "plain"
    target.mkdir()
    document = cli.ok("export", path, str(target), "--json").json()
    assert document["spark_version"] == "4.3.0"
    saved = {query.name: query for query in open_savepoint(path).queries}
    assert [each["query"] for each in document["checkpoints"]] == list(saved)
    for each in document["checkpoints"]:
        root = target / each["query"].replace(" ", "_")
        assert each["location"] == f"file:{root}"
        cut = read_whole_cut(str(root))
        query = saved[each["query"]]
        assert (cut.query_id, cut.batch_id) == (query.query_id, query.batch_id)
        assert (each["query_id"], each["batch_id"]) == (query.query_id, query.batch_id)
        assert each["pins"] == dict(query.pins)
    (metadata,) = (target / "query_rocksdb-tws" / "state" / "0" / "_metadata" / "v2").iterdir()
    assert f"{target}/query_rocksdb-tws/state/0/_stateSchema/" in metadata.read_text()
    assert names(tmp_path) == ["plain"]


def test_one_query_is_chosen(cli: Command, tmp_path: Path) -> None:
    path = save(tmp_path, "hdfs-agg", "rocksdb-dedup")
    shown = cli.ok("export", "--query", "query hdfs-agg", path, str(tmp_path / "plain"))
    assert f'.option("checkpointLocation", "file:{tmp_path}/plain/query_hdfs-agg")' in shown.out
    assert "2 state partitions" in shown.out
    assert [each.name for each in (tmp_path / "plain").iterdir()] == ["query_hdfs-agg"]
    refused = cli("export", path, str(tmp_path / "other"), "--query", "nobody")
    assert refused.code == UsageError.code
    assert "it has: 'query hdfs-agg', 'query rocksdb-dedup'" in refused.err
    assert not (tmp_path / "other").exists()


def test_unique_ids_of_state_files_need_a_setting(cli: Command, tmp_path: Path) -> None:
    checkpoint = unpack("spark43-ids-join", tmp_path)
    shown = cli.ok("export", str(checkpoint), str(tmp_path / "plain")).out
    setting = "spark.sql.streaming.stateStore.checkpointFormatVersion"
    assert f'spark.conf.set("{setting}", "2")' in shown
    assert "its version is not recorded" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("SP",), "no DIR was specified"),
        (("SP", "DIR", "--in-place-of", "x"), "the program file does not exist"),
        (("SP", "DIR", "-p", "4"), "another number of state partitions needs the program"),
        (("SP", "--uid-map", "a=b", "DIR"), "a uid map needs the program"),
        (("SP", "DIR", "--sink-ahead", "rollback"), "an export changes no table"),
        (("--in-place-of", "s3://bucket/c", "SP"), "is on remote storage"),
    ],
)
def test_what_cannot_be_meant(
    cli: Command, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    checkpoint = CheckpointLikeness(tmp_path / "q").run_to(2)
    places = {"SP": str(checkpoint.root), "DIR": str(tmp_path / "plain")}
    refused = cli("export", *(places.get(word, word) for word in words))
    assert refused.code == UsageError.code
    assert message in refused.err
    assert not (tmp_path / "plain").exists()


def test_a_directory_that_is_not_empty(cli: Command, tmp_path: Path) -> None:
    checkpoint = CheckpointLikeness(tmp_path / "q").run_to(2)
    (tmp_path / "plain" / "mine").mkdir(parents=True)
    refused = cli("export", str(checkpoint.root), str(tmp_path / "plain"))
    assert refused.code == StorageError.code
    assert "it exists and is not an empty directory" in refused.err
    assert [each.name for each in (tmp_path / "plain").iterdir()] == ["mine"]


def test_another_export_to_the_same_place_keeps_its_checkpoints(tmp_path: Path) -> None:
    remote = f"memory://{tmp_path.name}/both"
    place = new_directory(remote)
    with suppress(StorageError), built(place):
        storage.write_bytes(f"{remote}/theirs/metadata", b"{}")
        storage.write_bytes(f"{remote}/ours/metadata", b"{}")
        place.built.append("ours")
        raise StorageError("disk full")
    assert storage.list_names(remote) == ["theirs"]
    assert storage.read_bytes(f"{remote}/theirs/metadata") == b"{}"


@pytest.mark.parametrize(("one", "other"), [("a b", "a_b"), ("eu.", "eu")])
def test_queries_that_would_share_a_directory(
    cli: Command, tmp_path: Path, one: str, other: str
) -> None:
    for name in (one, other):
        CheckpointLikeness(tmp_path / "saved" / name).run_to(2)
    refused = cli("export", str(tmp_path / "saved"), str(tmp_path / "plain"))
    assert refused.code == UsageError.code
    assert f"'{one}'" in refused.err
    assert f"'{other}'" in refused.err
    assert "--query" in refused.err
    assert names(tmp_path) == ["saved"]
    cli.ok("export", str(tmp_path / "saved"), str(tmp_path / "plain"), "--query", other)


def test_in_place_of_a_programs_own_checkpoint(cli: Command, tmp_path: Path) -> None:
    saved = CheckpointLikeness(tmp_path / "saved").run_to(5)
    own = CheckpointLikeness(tmp_path / "own").run_to(2)
    document = cli.ok("export", str(saved.root), "--in-place-of", str(own.root), "--json").json()
    assert document["checkpoints"][0]["location"] == f"file:{own.root}"
    assert read_whole_cut(str(own.root)).batch_id == 5
    kept = Path(document["replaced"])
    assert kept.parent == tmp_path
    assert kept.name.startswith("own.replaced-")
    assert read_whole_cut(str(kept)).batch_id == 2
    assert names(tmp_path) == ["own", kept.name, "saved"]
    refused = cli("export", str(saved.root), "--in-place-of", str(tmp_path / "none"))
    assert refused.code == SavepointNotFound.code


@pytest.mark.parametrize("quiet", [False, True])
def test_warnings_are_shown_with_q_too(capsys: pytest.CaptureFixture[str], quiet: bool) -> None:
    show(Output(quiet=quiet), ExportResult((), None, warnings=("not exactly once",)))
    assert capsys.readouterr().err == "warning: not exactly once\n"


def test_what_the_checkpoints_lack_is_said(cli: Command, tmp_path: Path) -> None:
    checkpoint = CheckpointLikeness(tmp_path / "q").run_to(2)
    written = write_savepoint(
        str(tmp_path / "savepoints"),
        SavepointJob("0123456789abcdef" * 2, "rides", complete=False),
        [QuerySource("q", str(checkpoint.root))],
        trigger="savepoint",
        reporter=SilentSavepointReporter(),
    )
    exported = cli.ok("export", written.path, str(tmp_path / "one"), "--json").json()
    [incomplete] = exported["warnings"]
    assert incomplete == (
        "the saved job may not have started all its queries: later ones are not exported"
    )
    (checkpoint.root / "offsets" / "3").write_text('v1\n{"bat')
    exported = cli.ok("export", str(checkpoint.root), str(tmp_path / "two"), "--json").json()
    [damaged] = exported["warnings"]
    assert damaged.startswith("query 'q': ")
    assert "batch 3 is planned again, with the data that its sources have then" in damaged


def test_a_checkpoint_on_which_a_job_runs(cli: Command, tmp_path: Path) -> None:
    saved = CheckpointLikeness(tmp_path / "saved").run_to(5)
    own = CheckpointLikeness(tmp_path / "own").run_to(2)
    cli.ok("list")
    job = JobRecord("a" * 32, "rides", JobState.INITIALIZING, 1.0, Launch("/app.py"))
    with cli.registry() as registry:
        registry.add_job(job)
        registry.heartbeat(job.job_id, [QueryStatus("q", "id", "r", str(own.root))])
    refused = cli("export", str(saved.root), "--in-place-of", str(own.root))
    assert refused.code == WrongState.code
    assert f"job rides ({job.job_id}), which is INITIALIZING, runs on" in refused.err
    refused = cli("export", "rides", str(tmp_path / "plain"))
    assert refused.code == WrongState.code
    assert "stop it with a savepoint first" in refused.err


def test_an_ended_job_stands_for_its_savepoint(
    cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "cp" / ("a" * 32)
    checkpoint = CheckpointLikeness(own / "q").run_to(3)
    cli.ok("list")
    job = JobRecord(own.name, "rides", JobState.INITIALIZING, 1.0, Launch("/app.py"))
    job = replace(job, checkpoint_dir=str(own))
    status = QueryStatus("counts", "id", "r", str(checkpoint.root), batch_id=3)
    with cli.registry() as registry:
        registry.add_job(job)
        registry.heartbeat(job.job_id, [status])
        for state in (JobState.CREATED, JobState.RUNNING, JobState.FINISHED):
            registry.transition(job.job_id, state)
    keepers: list[str | None] = []

    def build(*args: Any) -> BuiltCheckpoints:
        keepers.extend(lease.job_id for lease in read_leases(str(own.parent)))
        return build_unchanged(*args)

    monkeypatch.setattr(exporting, "build_unchanged", build)
    quiet = cli.ok("export", "-q", "rides", str(tmp_path / "plain"))
    assert keepers == [job.job_id], "no purge removes them meanwhile"
    assert [each.name for each in own.parent.iterdir()] == [own.name]
    assert quiet.out.splitlines() == [f"file:{tmp_path}/plain/counts"]
    assert read_whole_cut(str(tmp_path / "plain" / "counts")).batch_id == 3


def test_the_log_of_a_file_sink_that_has_moved(cli: Command, tmp_path: Path) -> None:
    """As ``run -s`` does it: whoever reads the output finds its files by this log."""
    checkpoint = CheckpointLikeness(tmp_path / "q").run_to(3)
    sink = {"format": "parquet", "path": str(tmp_path / "out")}
    saved = write_savepoint(
        str(tmp_path / "saved"),
        SavepointJob("0123456789abcdef" * 2, "rides"),
        [QuerySource("counts", str(checkpoint.root), sink=sink)],
        trigger="savepoint",
        reporter=SilentSavepointReporter(),
    ).path
    new = tmp_path / "out put"
    log = new / "_spark_metadata"
    log.mkdir(parents=True)
    line = '{"path":"file://%s/part-%d","size":3,"isDir":false,"action":"add"}'
    for batch, name in enumerate(("0", "1", "2", "3")):
        (log / name).write_text("v1\n" + line % (tmp_path / "out", batch))
        (log / f".{name}.crc").write_bytes(b"crc")
    mapping = ("--map-path", f"{tmp_path}/out={new}")
    (log / "2").write_text("v1\n{")
    refused = cli("export", saved, str(tmp_path / "plain"), *mapping)
    assert refused.code == Corrupt.code
    assert names(tmp_path) == ["saved"], "nothing is put in place"
    remote = f"memory://{tmp_path.name}/plain"
    assert cli("export", saved, remote, *mapping).code == Corrupt.code
    assert storage.list_names(remote) == []
    (log / "2").unlink()
    (log / "2").symlink_to("removed")  # as if it were, after the log was listed
    refused = cli("export", saved, str(tmp_path / "plain"), *mapping)
    assert refused.code == StorageError.code
    assert "another program writes to that sink" in refused.err
    (log / "2").unlink()
    (log / "2").write_text("v1\n" + line % (tmp_path / "out", 2))
    shown = cli.ok("export", saved, str(tmp_path / "plain"), *mapping)
    assert f"4 entries of the log of the file sink {new} now name the new paths" in shown.out
    assert "is not known" not in shown.err
    moved = str(new).replace(" ", "%20")
    for batch in range(4):
        entry = (log / str(batch)).read_text()
        assert entry == "v1\n" + line % (moved, batch)
    assert not list(log.glob(".*.crc"))
    again = cli.ok("export", saved, str(tmp_path / "plain2"), *mapping)
    assert "entries of the log" not in again.out
    (log / "6").write_text("v1\n" + line % (moved, 6))
    ahead = cli("export", saved, str(tmp_path / "plain3"), *mapping)
    assert ahead.code == 5
    assert "has batch 6, but the query resumes after batch 3" in ahead.err


def test_a_sink_that_is_ahead(cli: Command, tmp_path: Path) -> None:
    """The saved query's own file sink is read without Spark."""
    checkpoint = CheckpointLikeness(tmp_path / "q").run_to(3)
    log = tmp_path / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    (log / "6").write_text('v1\n{"path":"file:/a"}')
    cli.ok("list")
    job = JobRecord("a" * 32, "rides", JobState.INITIALIZING, 1.0, Launch("/app.py"))
    query_id = read_whole_cut(str(checkpoint.root)).query_id
    status = QueryStatus("counts", query_id, "r", str(checkpoint.root), batch_id=3)
    facts = QueryFacts("r", sink={"format": "parquet", "path": str(tmp_path / "out")})
    with cli.registry() as registry:
        registry.add_job(job)
        registry.heartbeat(job.job_id, [status])
        registry.record_facts(job.job_id, "counts", query_id, facts)
        for state in (JobState.CREATED, JobState.RUNNING, JobState.FINISHED):
            registry.transition(job.job_id, state)
    refused = cli("export", "rides", str(tmp_path / "plain"))
    assert refused.code == 5
    assert "has batch 6, but the query resumes after batch 3" in refused.err
    saved = cli.ok("savepoint", "-q", job.job_id, str(tmp_path / "saved")).out.strip()
    assert cli("export", saved, str(tmp_path / "other")).code == 5
    cli.ok("export", "rides", str(tmp_path / "plain"), "--sink-ahead", "rebase")
    assert read_whole_cut(str(tmp_path / "plain" / "counts")).batch_id == 6
    with cli.registry() as registry:
        elsewhere = replace(facts, sink={"format": "parquet", "path": "/elsewhere"})
        registry.record_facts(job.job_id, "counts", query_id, elsewhere)
    # Now only the savepoint, which anybody may have written, names that place.
    unknown = cli.ok("export", saved, str(tmp_path / "plain2"))
    assert "no job of the registry is known to write there" in unknown.err
    assert read_whole_cut(str(tmp_path / "plain2" / "counts")).batch_id == 3
