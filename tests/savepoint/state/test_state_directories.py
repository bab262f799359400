"""What is read of a savepoint's files is what was recorded of them."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import time
import uuid
from pathlib import Path

import pytest

from flinkish.engine.errors import StateFormatError
from flinkish.restore.materialize.state_files import empty_snapshot
from flinkish.savepoint.directory.catalog import read_catalog
from flinkish.savepoint.directory.leases import DIRECTORY, Kind, Lease, read_leases
from flinkish.savepoint.format.digests import FileTable
from flinkish.savepoint.format.reader import OpenSavepoint, open_savepoint
from flinkish.savepoint.manage.prune import GARBAGE_AGE, collect_garbage
from flinkish.savepoint.state.state_directories import (
    SavedDirectory,
    saved_directory,
    scratch_directory,
)
from flinkish.savepoint.state.state_rows import open_state, show_rows
from tests.savepoint.conftest import Taking
from tests.support.checkpoints.recorded import unpack
from tests.support.savepoint.places import put_tree
from tests.support.savepoint.small_savepoints import JOB_ID, make_savepoint


@pytest.fixture
def savepoint(take: Taking, tmp_path: Path) -> OpenSavepoint:
    return open_savepoint(take(unpack("spark43-rocksdb-dedup", tmp_path)).path)


def damage(savepoint: OpenSavepoint, path: str) -> None:
    """Change one byte of a file, which is a link to the checkpoint's."""
    file = Path(savepoint.query_root(savepoint.queries[0])) / path
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.unlink()
    file.write_bytes(bytes(data))


def test_other_bytes_of_the_same_size_are_refused(savepoint: OpenSavepoint) -> None:
    [sst, log] = [
        next(r.path for r in savepoint.iter_files() if part in r.path)
        for part in ("/SSTs/", "offsets/")
    ]
    found = saved_directory(savepoint, savepoint.queries[0])
    for path in (sst, log):
        with found.open(path) as file:
            assert file.read()
    damage(savepoint, sst)
    damage(savepoint, log)
    with pytest.raises(StateFormatError, match="does not have its recorded digest"):
        found.open(log)
    with pytest.raises(StateFormatError, match="does not have its recorded digest"):
        found.local_path(sst)


def test_a_file_that_the_savepoint_does_not_have_is_not_read(take: Taking, tmp_path: Path) -> None:
    savepoint = open_savepoint(take(unpack("spark43-hdfs-agg", tmp_path)).path)
    before = show_rows(open_state(savepoint, "0"), 100).rows
    root = Path(savepoint.query_root(savepoint.queries[0]))
    for partition in (root / "state" / "0").glob("[0-9]"):
        (partition / "7.snapshot").write_bytes(empty_snapshot("lz4"))
    (root / "state" / "0" / "2").mkdir()
    shutil.copy(root / "offsets" / "6", root / "offsets" / "7")
    assert before
    assert show_rows(open_state(savepoint, "0"), 100).rows == before
    found = saved_directory(savepoint, savepoint.queries[0])
    assert found.names("offsets") == ["5", "6"]
    assert found.local_path("offsets/7") is None
    with pytest.raises(FileNotFoundError, match="not in the savepoint"):
        found.open("offsets/7")


def test_a_remote_file_is_fetched_no_further_than_its_recorded_size(
    savepoint: OpenSavepoint,
) -> None:
    local = Path(savepoint.query_root(savepoint.queries[0]))
    far = put_tree(local, f"memory://recorded/{uuid.uuid4().hex}")
    with SavedDirectory(far, {}, savepoint.recorded_files(0)).open("metadata") as file:
        assert file.read() == (local / "metadata").read_bytes()
    short = SavedDirectory(far, {}, FileTable.of([("metadata", 3, "md5:" + "0" * 32)]))
    with pytest.raises(StateFormatError, match="4 bytes instead of the 3 recorded"):
        short.open("metadata")


def rewrite_and_die(place: str) -> None:
    """What a killed driver leaves: the cut, itself a savepoint, and some of the new state."""
    with scratch_directory(place, JOB_ID, "me@host") as scratch:
        make_savepoint(f"{scratch}/native", 1)
        attempt = Path(scratch, "0", "_attempts-1")
        attempt.mkdir(parents=True)
        (attempt / "part.avro").write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "sp")


def test_it_is_gone_at_the_end(place: str) -> None:
    def fail() -> None:
        with scratch_directory(place, JOB_ID, None) as scratch:
            make_savepoint(f"{scratch}/native", 1)
            raise ValueError("why")

    with pytest.raises(ValueError, match="why"):
        fail()
    assert os.listdir(place) == []


def test_it_keeps_nobody_out_and_is_nobodys_garbage(place: str) -> None:
    with scratch_directory(place, JOB_ID, "me@host") as scratch:
        kept = make_savepoint(place, 2)
        assert [entry.path for entry in read_catalog(place).savepoints] == [kept]
        [lease] = read_leases(place)
        assert (lease.kind, lease.path) == (Kind.REWRITE, scratch)
        assert lease.describe().startswith("state is being copied or rewritten by me@host")
        later = time.time() + 100
        with Lease.take(place, Kind.PRUNE, owner="other@host"):
            pass
        [found] = collect_garbage(place, (), now=later)
        assert (found.found.path, found.reason) == (scratch, "it is being written")


def test_what_a_killed_one_left_is_garbage_when_it_is_old(place: str) -> None:
    process = multiprocessing.get_context("spawn").Process(target=rewrite_and_die, args=(place,))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert read_catalog(place).savepoints == ()
    [left] = read_catalog(place).unfinished
    [young] = collect_garbage(place, ())
    assert young.reason == "it was changed within the last hour"
    old = time.time() + GARBAGE_AGE + 60
    [busy] = collect_garbage(place, [(place, JOB_ID)], now=old)
    assert busy.reason == "it is being written"
    [gone] = collect_garbage(place, (), now=old)
    assert (gone.found.path, gone.removed) == (left, True)
    assert not os.path.exists(left)
    assert not os.path.exists(f"{place}/{DIRECTORY}"), "and neither is its lease"
