"""Savepoints of all jobs, and old ones removed, from Python."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from flinkish import Client, Savepoint
from flinkish.client import prune
from flinkish.client.pruning import remove_old
from flinkish.errors import (
    ConsentNeeded,
    Locked,
    NotSavepointable,
    RegistryError,
    SavepointNotFound,
    UsageError,
)
from flinkish.messages.launch import Program
from flinkish.messages.requests import SavepointSummary
from flinkish.savepoint.manage.retention import Policy
from tests.cli.conftest import Command
from tests.client.conftest import Told
from tests.support.checkpoints.recorded import unpack
from tests.support.savepoint.small_savepoints import make_savepoint

JOB = "0123456789abcdef" * 2


def test_prune(client: Client, private: Path) -> None:
    now = time.time()
    paths = [make_savepoint(str(private / "sp"), now - 86400 * age) for age in range(4)]
    client._context.registry.add_savepoint(
        SavepointSummary(paths[3], JOB, now, "native", bytes=10, files=1, duration=0.1)
    )
    planned = client.prune("sp", keep_last=2, dry_run=True)
    assert [each.savepoint.path for each in planned.going] == paths[2:]
    assert all(Path(path).exists() for path in paths)
    done = client.prune("sp", keep_last=2)
    assert (set(done.removed), done.errors) == (set(paths[2:]), ())
    assert [Path(path).exists() for path in paths] == [True, True, False, False]
    assert client._context.registry.savepoints(JOB) == []  # it is told what is gone
    kept = {each.savepoint.path: each.reasons for each in done.savepoints if each.keep}
    assert kept == {paths[0]: ("newest", "last 2"), paths[1]: ("last 2",)}
    assert prune("sp", keep_within=86400 * 0.5).removed == (paths[1],)
    with pytest.raises(UsageError, match="the retention policy is empty"):
        client.prune("sp")
    with pytest.raises(SavepointNotFound, match="does not exist"):
        client.prune("elsewhere", garbage=True)


def test_what_has_just_been_taken_is_not_removed(client: Client, private: Path) -> None:
    """By a host whose clock is behind; and nothing of a job that only has the same name."""
    place, now = str(private / "sp"), time.time()
    wrong = make_savepoint(place, now + 1e7, batch_id=1)
    os.utime(f"{wrong}/_metadata", (now - 3600, now - 3600))
    old = make_savepoint(place, now - 60, batch_id=2)
    new = make_savepoint(place, now - 1e7, batch_id=2)
    namesake = make_savepoint(place, 1, job_id="f" * 32, query_id="another")
    (private / "way").symlink_to(place)
    taken = f"file:{private}/way/{Path(new).name}"
    removal = remove_old(client._context, place, Policy(keep_last=1), [JOB], [taken])
    assert (removal.removed, removal.error) == ((wrong,), None)
    assert [Path(path).exists() for path in (old, new, namesake)] == [True, True, True]
    assert "in the future" in removal.warnings[0]


def test_what_was_removed_is_recorded_although_the_garbage_is_refused(
    client: Client, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    new, old = (make_savepoint(str(private / "sp"), now - age) for age in (0, 1))
    registry = client._context.writable_registry
    for path in (new, old):
        registry.add_savepoint(
            SavepointSummary(path, JOB, now, "native", bytes=10, files=1, duration=0.1)
        )

    def refuse(_location: str, _writing: object, dry_run: bool, **_named: object) -> tuple[()]:
        if not dry_run:
            raise Locked("a savepoint is being written")
        return ()

    monkeypatch.setattr("flinkish.savepoint.manage.prune.collect_garbage", refuse)
    with pytest.raises(Locked):
        client.prune("sp", keep_last=1, garbage=True)
    assert not Path(old).exists()
    assert [each.path for each in registry.savepoints(JOB)] == [new]


def test_the_removal_of_what_a_disposal_has_left_is_recorded(client: Client, private: Path) -> None:
    """The disposal was cut off after the removal of ``_metadata``, before it was recorded."""
    now = time.time()
    new, old = (make_savepoint(str(private / "sp"), now - age) for age in (0, 1))
    registry = client._context.writable_registry
    for path in (new, old):
        registry.add_savepoint(
            SavepointSummary(path, JOB, now, "native", bytes=10, files=1, duration=0.1)
        )
    Path(old, "_metadata").unlink()
    for each in (*Path(old).rglob("*"), Path(old)):
        os.utime(each, (now - 7200, now - 7200))
    assert [each.found.path for each in client.prune("sp", garbage=True, dry_run=True).trash]
    assert {each.path for each in registry.savepoints(JOB)} == {old, new}
    client.prune("sp", garbage=True)
    assert not Path(old).exists()
    assert [each.path for each in registry.savepoints(JOB)] == [new]


def test_old_savepoints_are_removed_although_the_registry_cannot_be_told(
    client: Client, told: Told, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    new, old = (make_savepoint(str(private / "sp"), now - age) for age in (0, 1))

    def locked(_registry: object, _path: str) -> bool:
        raise RegistryError("database is locked")

    client._context.writable_registry.savepoints()
    monkeypatch.setattr(type(client._context.registry), "mark_disposed", locked)
    removal = remove_old(client._context, str(private / "sp"), Policy(keep_last=1), [JOB], [new])
    assert (removal.removed, removal.error) == ((old,), None)
    assert told.warnings == ["the registry could not be updated: database is locked"]


def test_of_every_running_job(cli: Command, client: Client) -> None:
    spark = str(cli.spark_home)
    saving = client.run(Program(str(cli.program), ("saving",), spark_home=spark), name="one")
    refusing = client.run(Program(str(cli.program), ("refuse",), spark_home=spark), name="other")
    by_name = {outcome.job.name: outcome for outcome in client.save_all("sp")}
    assert set(by_name) == {"one", "other"}
    assert by_name["one"].savepoint is not None
    assert Savepoint.open(by_name["one"].savepoint.path).header.job.job_id == saving.job_id
    assert isinstance(by_name["other"].error, NotSavepointable)
    assert [outcome.job.name for outcome in client.save_all("sp", name="on?")] == ["one"]
    refusing.cancel()
    saving.cancel()
    assert client.save_all("sp") == []


def test_all_are_stopped_and_started_again(cli: Command, client: Client) -> None:
    spark = str(cli.spark_home)
    ran = [
        client.run(Program(str(cli.program), ("saving",), spark_home=spark), name=name)
        for name in ("one", "two")
    ]
    stopped = {outcome.job.name: outcome.savepoint for outcome in client.stop_all("sp")}
    assert [job.refresh().state.value for job in ran] == ["FINISHED", "FINISHED"]
    would = client.restart_all(name="o*", dry_run=True)
    assert [(each.job.job_id, each.started) for each in would] == [(ran[0].job_id, None)]
    started = client.restart_all(master="local[1]")
    for job, outcome in zip(ran, started, strict=True):
        saved = stopped[job.name]
        assert saved is not None
        assert (outcome.job.job_id, outcome.savepoint) == (job.job_id, saved.path)
        assert outcome.started is not None
        assert client.job(job.name).job_id == outcome.started.job_id
        assert outcome.started.launch.master == "local[1]"
    assert [each.skipped is None for each in client.restart_all()] == [False, False]


def test_of_a_foreign_checkpoint(client: Client, told: Told, private: Path) -> None:
    root = unpack("spark43-rocksdb-dedup", private)
    (root / "commits" / "0").touch()
    with pytest.raises(ConsentNeeded, match="may be running"):
        client.savepoint_of_checkpoint(root, "sp")
    assert not (private / "sp").exists()
    taken = client.savepoint_of_checkpoint(root, "sp", name="seen", may_be_running=True)
    assert (taken.header.job.name, taken.header.trigger) == ("seen", "offline")
    assert taken.verify().ok
    assert "after its directory" in told.notes[0]
