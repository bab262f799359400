"""Savepoints without a driver: of dead jobs and of checkpoints that flinkish never saw."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from flinkish.checkpoint.cut import newest_committed_batch, read_cut
from flinkish.client import offline
from flinkish.errors import NotSavepointable, RegistryError
from flinkish.launch.offline import job_id_of, may_be_running
from flinkish.launch.secret_settings import without_secrets
from flinkish.messages.codec import decode, encode
from flinkish.messages.launch import Launch, RestoreSpec
from flinkish.messages.queries import QueryFacts, QueryStatus
from flinkish.messages.requests import SavepointSummary
from flinkish.operators.identity import OperatorFacts, OperatorIdentity
from flinkish.operators.state_semantics import Column, StateSemantics
from flinkish.registry.job_registry import Registry
from flinkish.registry.jobs import JobRecord, JobState
from flinkish.registry.liveness import process_ref
from flinkish.savepoint.directory.leases import read_leases
from flinkish.savepoint.format.contents import (
    QueryRecord,
    QuerySource,
    SavepointJob,
)
from flinkish.savepoint.format.reader import FULL, check_files, open_savepoint
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.query_records import query_source
from flinkish.savepoint.write.writer import write_savepoint
from tests.cli.conftest import Command
from tests.support.checkpoints.recorded import NAMES, unpack

JOB = "0123456789abcdef" * 2
MEANING = StateSemantics(
    keys={"": (Column("k", "k", nullable=False),)}, values={"": (Column("count", "count(1)"),)}
)


def facts_for(root: Path) -> QueryFacts:
    """Facts as a driver records them, for the operators that the checkpoint has."""
    operators = [
        {
            "ordinal": operator.ordinal,
            "kind": operator.kind,
            "uid": f"uid-{operator.ordinal}",
            "operator_id": "a" * 32,
            "operator_id_v2": "a" * 32,
            "operator_id_v3": f"{operator.ordinal}" * 32,
            "meaning": asdict(MEANING),
            "state_digest": None,
        }
        for operator in read_cut(str(root)).operators
    ]
    return QueryFacts(
        run_id="run-1",
        sources=({"description": "FileStreamSource", "uid": "lines", "signature": "json k:int"},),
        sink={"format": "parquet", "path": "/out"},
        operators=tuple(operators),
        python_version="3.11.9",
    )


def register(
    cli: Command,
    root: Path,
    facts: QueryFacts | None,
    *,
    state: JobState = JobState.FAILED,
    job_id: str = JOB,
    job: Mapping[str, object] | None = None,
) -> str:
    """A job whose query left the checkpoint ``root``; returns its id."""
    query = QueryStatus(
        "counts", read_cut(str(root)).query_id, "run-1", str(root), active=False, batch_id=1
    )
    record = JobRecord(job_id, "app", state, time.time(), Launch("/app.py"), spark_version="4.3.0")
    with cli.registry() as registry:
        registry.add_job(replace(record, **(job or {})))  # type: ignore[arg-type]
        registry.heartbeat(job_id, [query])
        if facts is not None:
            registry.record_facts(job_id, query.name, query.query_id, facts)
    return job_id


def age(root: Path) -> None:
    """Make a checkpoint look as if it had been left an hour ago."""
    then = time.time() - 3600
    for path in root.rglob("*"):
        os.utime(path, (then, then))


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.CANCELED, JobState.FINISHED])
def test_of_a_dead_job(cli: Command, tmp_path: Path, state: JobState) -> None:
    root = unpack("spark43-rocksdb-dedup", tmp_path)
    facts = facts_for(root)
    restored = Launch("/app.py", restore=RestoreSpec("/sp/savepoint-x"))
    register(cli, root, facts, state=state, job={"launch": restored})
    result = cli.ok("savepoint", JOB, "sp", "-q")
    assert f"job app ({JOB}) is {state.value}: saving its ch" in result.err
    savepoint = open_savepoint(result.out.strip())
    check_files(savepoint, FULL)
    header = savepoint.header
    assert (header.job.job_id, header.job.name, header.trigger) == (JOB, "app", "offline")
    assert (header.job.spark_version, header.job.python_version) == ("4.3.0", "3.11.9")
    assert header.job.restored_from == "/sp/savepoint-x"
    (query,) = savepoint.queries
    assert (query.name, query.run_id) == ("counts", "run-1")
    assert query.batch_id == newest_committed_batch(str(root))
    assert query.source == [dict(facts.sources[0])]
    assert query.sink == facts.sink
    assert [op.uid for op in query.operators] == [op["uid"] for op in facts.operators]
    assert query.operators[0].facts.meaning == MEANING
    assert query.operators[0].operator_id_v3 == "0" * 32
    # The registry has it, as it has those that drivers take.
    record = cli.status(JOB)
    (kept,) = record["savepoints"]
    assert (kept["path"], kept["trigger"]) == (savepoint.path, "offline")
    (request,) = record["requests"]
    assert (request["kind"], request["state"]) == ("savepoint", "COMPLETED")
    assert request["result"]["savepoint"]["path"] == savepoint.path
    assert kept["request_id"] == request["request_id"]
    assert cli.ok("request", "wait", request["request_id"], "-q").out.strip() == savepoint.path


@pytest.mark.parametrize("name", NAMES)
def test_as_good_as_one_that_the_driver_takes(cli: Command, tmp_path: Path, name: str) -> None:
    """The same metadata, but for where the savepoint lies."""
    root = unpack(name, tmp_path)
    facts = facts_for(root)
    register(cli, root, facts)
    online = write_savepoint(
        str(tmp_path / "online"),
        SavepointJob(JOB, "app"),
        [
            QuerySource(
                "counts",
                str(root),
                run_id="run-1",
                source=[dict(source) for source in facts.sources],
                sink=facts.sink,
                operators=tuple(
                    OperatorFacts(
                        record["ordinal"],
                        record["kind"],
                        OperatorIdentity(
                            record["uid"], "a" * 32, "a" * 32, record["operator_id_v3"]
                        ),
                        meaning=MEANING,
                    )
                    for record in facts.operators
                ),
            )
        ],
        trigger="savepoint",
        reporter=SilentSavepointReporter(),
    )
    document = cli.ok("savepoint", JOB, "sp", "--json").json()
    assert (document["job_state"], document["state"]) == ("FAILED", "COMPLETED")
    offline = open_savepoint(document["savepoint"]["path"])
    assert offline.queries == open_savepoint(online.path).queries


def test_facts_survive_the_registry(tmp_path: Path) -> None:
    facts = facts_for(unpack("spark43-changelog-agg", tmp_path))
    stored = json.loads(json.dumps(encode(facts)))
    source = query_source(QueryStatus("q", "id", "r", "/c"), decode(QueryFacts, stored))
    assert source.operators[0].meaning == MEANING
    assert (source.checkpoint, source.operators[0].rows) == ("/c", None)


def test_a_job_whose_driver_kept_no_facts(
    cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A purge leaves its checkpoints while they are read."""
    own = tmp_path / "cp" / JOB
    own.mkdir(parents=True)
    root = unpack("spark35-rocksdb-agg", own)
    register(cli, root, None, job={"checkpoint_dir": str(own)})
    keepers: list[str | None] = []

    def write(*args: Any, **more: Any) -> SavepointSummary:
        keepers.extend(lease.job_id for lease in read_leases(str(own.parent)))
        return write_savepoint(*args, **more)

    monkeypatch.setattr(offline, "write_savepoint", write)
    result = cli.ok("savepoint", JOB, "sp", "-q")
    assert keepers == [JOB]
    assert "ended before its driver recorded its operator ids" in result.err
    (query,) = open_savepoint(result.out.strip()).queries
    assert query.operators[0].uid is None


def test_a_job_found_dead_by_this_call(cli: Command, tmp_path: Path) -> None:
    """By its name, too: the registry has it running."""
    root = unpack("spark43-hdfs-agg", tmp_path)
    gone = subprocess.Popen(["true"])
    driver = process_ref(gone.pid)
    gone.wait()
    register(cli, root, facts_for(root), state=JobState.RUNNING, job={"driver": driver})
    result = cli.ok("savepoint", "app", "sp")
    assert "is FAILED: saving its checkpoint" in result.err
    assert cli.status(JOB)["state"] == "FAILED"


def test_what_cannot_be_saved(cli: Command, tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    problem = NotSavepointable("it writes to the memory sink", hint="use another").to_record()
    register(cli, root, replace(facts_for(root), problem=problem))
    refused = cli("savepoint", JOB, "sp")
    assert refused.code == 4
    assert "query 'counts': it writes to the memory sink" in refused.err
    other = register(cli, root, facts_for(root), job_id="b" * 32)
    assert cli("savepoint", other, "sp", "-detached").code == 2
    assert "from its checkpoint" in cli.ok("savepoint", other, "sp", "--dry-run").out
    (root / "state").rename(root / "gone")
    damaged = cli("savepoint", other, "sp")
    assert damaged.code == 15
    assert not list((tmp_path / "sp").glob("savepoint-*"))
    (request,) = cli.status(other)["requests"]  # the dry run is none
    assert (request["state"], request["error"]["id"]) == ("FAILED", "corrupt")
    shutil.rmtree(root)
    gone = cli("savepoint", other, "sp", "--json")
    assert gone.error()["id"] == "no-committed-batch"
    with cli.registry() as registry:
        registry.add_job(JobRecord("c" * 32, "batch", JobState.FINISHED, 1.0, Launch("/app.py")))
    nothing = cli("savepoint", "c" * 32, "sp")
    assert nothing.code == 13
    assert "never started a streaming query" in nothing.err


def test_stop_and_cancel_name_the_way_out(cli: Command, tmp_path: Path) -> None:
    register(cli, unpack("spark43-hdfs-agg", tmp_path), None)
    for words in (["stop", JOB, "-p", "sp"], ["cancel", "-s", "sp", JOB]):
        for more in ([], ["--dry-run"]):
            refused = cli(*words, *more)
            assert refused.code == 13
            assert f"flinkish savepoint {JOB} TARGET" in refused.err
    assert "flinkish list" in cli("cancel", JOB).err


def test_a_checkpoint_that_another_job_goes_on_with(cli: Command, tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    register(cli, root, facts_for(root))
    alive = {"driver": process_ref(), "heartbeat": time.time()}
    register(cli, root, facts_for(root), job_id="b" * 32, state=JobState.RUNNING, job=alive)
    for words in ([JOB, "sp"], ["--from-checkpoint", str(root), "sp", "--yes"]):
        refused = cli("savepoint", *words)
        assert refused.code == 13
        assert f"flinkish savepoint {'b' * 32} TARGET" in refused.err
    assert not (tmp_path / "sp").exists()
    # A copy of it is nobody's.
    shutil.copytree(root, tmp_path / "copy")
    cli.ok("savepoint", "--from-checkpoint", "copy", "sp", "--yes")


@pytest.mark.parametrize("name", NAMES)
def test_of_a_foreign_checkpoint(cli: Command, tmp_path: Path, name: str) -> None:
    root = unpack(name, tmp_path)
    age(root)
    document = cli.ok("savepoint", "--from-checkpoint", f"file://{root}", "sp", "--json").json()
    cut = read_cut(str(root))
    assert document["job_id"] == job_id_of([cut.query_id])
    assert (document["request_id"], document["job_state"]) == (None, None)
    savepoint = open_savepoint(document["savepoint"]["path"])
    check_files(savepoint, FULL)
    (query,) = savepoint.queries
    assert (query.name, query.query_id, query.batch_id) == (name, cut.query_id, cut.batch_id)
    assert (savepoint.header.job.name, savepoint.header.trigger) == (name, "offline")
    assert savepoint.header.job.spark_version is None
    with cli.registry() as registry:
        (record,) = registry.savepoints(document["job_id"])
    assert record.path == savepoint.path


def test_of_a_directory_of_checkpoints(cli: Command, tmp_path: Path) -> None:
    roots = [unpack(name, tmp_path / "all") for name in NAMES[:2]]
    for root in roots:
        age(root)
    words = ["savepoint", "--from-checkpoint", "all", "sp", "--name", "rides"]
    assert "Would take a savepoint of the checkpoint all" in cli.ok(*words, "--dry-run").out
    assert not (tmp_path / "sp").exists()
    path = cli.ok(*words, "-q").out.strip()
    savepoint = open_savepoint(path)
    queries: dict[str, QueryRecord] = {query.name: query for query in savepoint.queries}
    assert list(queries) == NAMES[:2]
    assert savepoint.header.job.name == "rides"
    assert savepoint.header.job.job_id == job_id_of(q.query_id for q in queries.values())


def test_a_checkpoint_written_a_moment_ago_needs_consent(cli: Command, tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    age(root)
    os.utime(max((root / "commits").iterdir()))
    refused = cli("savepoint", "--from-checkpoint", str(root), "sp", "--json")
    assert refused.error()["id"] == "consent-needed"
    assert refused.code == 5
    assert not (tmp_path / "sp").exists()
    cli.ok("savepoint", "--from-checkpoint", str(root), "sp", "--dry-run")
    cli.ok("savepoint", "--from-checkpoint", str(root), "sp", "--yes")


@pytest.mark.parametrize("dead", [False, True], ids=["a checkpoint", "a dead job"])
def test_the_newest_batch_that_is_whole(cli: Command, tmp_path: Path, dead: bool) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    register(cli, root, facts_for(root))
    words = ["savepoint", JOB, "sp"]
    if not dead:
        words = ["savepoint", "--from-checkpoint", str(root), "sp", "--yes"]
    (root / "state/0/1/7.delta").write_bytes(b"")
    for more in ([], ["--dry-run"]):
        refused = cli(*words, *more)
        assert refused.code == 15
        assert "state/0/1/7.delta is empty" in refused.err
        assert "--batch newest-whole or --batch 5" in refused.err
    assert not list((tmp_path / "sp").glob("savepoint-*"))
    found = cli.ok(*words, "--batch", "newest-whole", "-q")
    assert "7.delta is empty" in found.err
    by_number = cli.ok(*words, "--batch", "4", "-q")
    for batch, result in ((5, found), (4, by_number)):
        [query] = open_savepoint(result.out.strip()).queries
        assert (query.batch_id, query.planned_batch) == (batch, batch + 1)
        assert (query.operators[0].uid is not None) == dead
    assert cli(*words, "--batch", "all").code == 2


def test_a_batch_is_not_chosen_of_a_job_that_has_a_driver(cli: Command, tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    alive = {"driver": process_ref(), "heartbeat": time.time()}
    register(cli, root, facts_for(root), state=JobState.CREATED, job=alive)
    refused = cli("savepoint", JOB, "sp", "--batch", "4")
    assert refused.code == 2
    assert f"job app ({JOB}) is CREATED: its driver takes savepoints at the ne" in refused.err


def test_a_damaged_planned_batch_is_left_out_with_a_warning(cli: Command, tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    (root / "offsets/7").write_bytes(b"")
    result = cli.ok("savepoint", "--from-checkpoint", str(root), "sp", "--yes", "-q")
    assert "offsets/7" in result.err
    assert "it is empty" in result.err
    [query] = open_savepoint(result.out.strip()).queries
    assert (query.batch_id, query.planned_batch) == (6, None)


def test_no_checkpoint_there(cli: Command, tmp_path: Path) -> None:
    assert cli("savepoint", "--from-checkpoint", str(tmp_path / "none"), "sp").code == 11
    root = unpack("spark43-hdfs-agg", tmp_path)
    shutil.rmtree(root / "commits")
    lost = cli("savepoint", "--from-checkpoint", str(root), "sp", "--yes")
    assert (lost.code, "commits has no entry" in lost.err) == (15, True)
    for entry in (root / "offsets").iterdir():
        entry.unlink()
    (root / "offsets/0").touch()
    assert cli("savepoint", "--from-checkpoint", str(root), "sp", "--yes").code == 13
    (root / "metadata").write_text("no json")
    assert cli("savepoint", "--from-checkpoint", str(root), "sp", "--yes").code == 15


def test_old_ones_of_a_dead_job_are_removed(cli: Command, tmp_path: Path) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    register(cli, root, facts_for(root))
    paths = [cli.ok("savepoint", JOB, "sp", "-q").out.strip() for _ in range(2)]
    paths.append(cli.ok("savepoint", JOB, "sp", "-q", "--keep-last", "2").out.strip())
    left = {str(path.parent) for path in (tmp_path / "sp").glob("*/_metadata")}
    assert left == set(paths[1:])
    assert {s["path"] for s in cli.status(JOB)["savepoints"]} == left


def test_when_somebody_may_be_writing() -> None:
    assert may_be_running(1000.0, 1299.0)
    assert not may_be_running(1000.0, 1301.0)
    assert may_be_running(2000.0, 1000.0)  # a clock that is ahead of ours
    assert job_id_of(["b", "a"]) == job_id_of(["a", "b"])
    assert len(job_id_of(["a"])) == 32


@pytest.fixture
def rewriting(cli: Command, monkeypatch: pytest.MonkeyPatch) -> list[Launch]:
    """The launches of the drivers that would rewrite a savepoint; each is refused."""
    monkeypatch.setenv("SPARK_HOME", str(cli.spark_home))
    launches: list[Launch] = []

    def rewrite(_context: object, _migration: object, launch: Launch, _spark: object) -> None:
        launches.append(launch)
        raise NotSavepointable("seen")

    monkeypatch.setattr("flinkish.client.offline.rewrite", rewrite)
    return launches


def test_the_rewrite_of_a_foreign_checkpoint_gets_the_configured_settings_of_spark(
    cli: Command, tmp_path: Path, rewriting: list[Launch]
) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    age(root)
    refused = cli(
        *("savepoint", "-D", "spark.driver.memory=4g", "sp"),
        *("--from-checkpoint", str(root), "--type", "canonical"),
    )
    assert refused.code == NotSavepointable.code, refused.err
    assert rewriting[0].conf["spark.driver.memory"] == "4g"


def test_the_rewrite_of_a_dead_job_gets_no_masked_setting_or_argument(
    cli: Command, tmp_path: Path, rewriting: list[Launch]
) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    key, other = "spark.hadoop.fs.s3a.secret.key", "spark.ssl.keyPassword"
    conf = {key: "abc", other: "def", "spark.driver.memory": "4g"}
    launch = Launch("/app.py", conf=conf, secret_arguments=("ghi",))
    register(cli, root, facts_for(root), job={"launch": without_secrets(launch)})
    refused = cli("savepoint", JOB, "-D", f"{key}=new", "sp", "--type", "canonical")
    assert refused.code == NotSavepointable.code, refused.err
    given = rewriting[0]
    assert given.conf == {key: "new", "spark.driver.memory": "4g"}
    assert given.secret_arguments == ()


def test_what_the_registry_refuses_is_named(
    cli: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = unpack("spark43-hdfs-agg", tmp_path)
    register(cli, root, facts_for(root))

    def refuse(*_: object) -> None:
        raise RegistryError("it is read-only")

    monkeypatch.setattr(Registry, "add_savepoint", refuse)
    monkeypatch.setattr(Registry, "record_request", refuse)
    result = cli.ok("savepoint", JOB, "sp", "-q")
    refused = "could not be added to the registry: it is read-only"
    assert f"{result.out.strip()} {refused}" in result.err
    named = re.findall(f"(the request [0-9a-f]+) {refused}", result.err)
    assert len(named) == 1
