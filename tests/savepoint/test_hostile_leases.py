"""Lease files that somebody else has made: nothing outside goes, nothing locks for good."""

from __future__ import annotations

import errno
import json
import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinkish import storage
from flinkish.cli.entry import main
from flinkish.errors import Locked, StorageError, UnsafePath
from flinkish.savepoint.directory.lease_files import MAX_BYTES, STALE
from flinkish.savepoint.directory.leases import Kind, Lease, find_leases, read_leases
from flinkish.savepoint.format.contents import QuerySource, SavepointJob
from flinkish.savepoint.format.reader import FULL, check_files, open_savepoint
from flinkish.savepoint.manage.prune import collect_garbage, prune
from flinkish.savepoint.manage.retention import Policy
from flinkish.savepoint.reporter import SilentSavepointReporter
from flinkish.savepoint.write.writer import write_savepoint
from tests.support.checkpoints.handwritten import CheckpointLikeness
from tests.support.savepoint.bait import put_bait, snapshot, untouched
from tests.support.savepoint.small_savepoints import JOB_ID, make_savepoint
from tests.support.servers.s3 import S3Server

NAME = "write-0123456789ab"
OLD = STALE + 100


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command has a registry and a configuration of its own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory of savepoints, two levels below one with bait in it."""
    path = tmp_path / "a/savepoints"
    (path / "_locks").mkdir(parents=True)
    return path


def lease(**changes: Any) -> bytes:
    """The content of a lease that is refreshed just now, on another host."""
    now = time.time()
    record = {
        "lease_id": NAME,
        "kind": "write",
        "owner": "eve@h",
        "host": "elsewhere",
        "pid": 1,
        "created": now,
        "refreshed": now,
        "job_id": JOB_ID,
        "path": None,
        **changes,
    }
    return json.dumps(record).encode()


def plant(place: Path, data: bytes, name: str = NAME, age: float = 0.0) -> Path:
    path = place / "_locks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (time.time() - age,) * 2)
    return path


def take(place: Path, checkpoint: Path) -> None:
    """What the driver does."""
    CheckpointLikeness(checkpoint, partitions=1, sidecars=False).run_to(1)
    write_savepoint(
        str(place),
        SavepointJob(JOB_ID, "job"),
        [QuerySource("q", str(checkpoint))],
        trigger="savepoint",
        reporter=SilentSavepointReporter(),
    )


ACTIONS: dict[str, Callable[[Path], object]] = {
    "savepoint": lambda place: take(place, place.parent / "checkpoint"),
    "prune": lambda place: prune(str(place), Policy(keep_last=1), {}),
    "garbage": lambda place: collect_garbage(str(place), ()),
    "prune command": lambda place: main(["savepoint", "prune", "--garbage", "--yes", str(place)]),
    "unlock": lambda place: main(["savepoint", "unlock", str(place)]),
    "unlock --force": lambda place: main(["savepoint", "unlock", "--force", "--yes", str(place)]),
}


@pytest.mark.parametrize("name", ["x", NAME])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_lease_does_not_say_what_is_removed(
    place: Path, tmp_path: Path, action: str, name: str
) -> None:
    outside = put_bait(place.parent)
    (place / "beside").write_text("mine")
    unfinished = place / "savepoint-fedcba-0123456789ab"  # so that there is something to prune
    unfinished.mkdir()
    os.utime(unfinished, (time.time() - 7200,) * 2)
    victims = ["../../outside/victim", str(outside / "victim"), "../beside", ".", "..", "", "a\0b"]
    for number, victim in enumerate(victims):
        file = name if name == "x" else f"write-{number:012x}"
        # As stale as can be, by what it says and by its file: the next one removes it.
        data = lease(lease_id=victim, refreshed=5.0, created=5.0)
        plant(place, data, f"{file}{number}"[:18], OLD)
    with untouched(outside):
        ACTIONS[action](place)
    assert (place / "beside").read_text() == "mine"
    left = len(os.listdir(place / "_locks")) if (place / "_locks").exists() else 0
    # What has not even the name of a lease is nobody's business, until it is forced.
    assert left == (len(victims) if name == "x" and action != "unlock --force" else 0)


DAMAGED: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"{",
    "no object": b"[1]",
    "no fields": b"{}",
    "not UTF-8": b"\xff\xfe\xfd",
    "nested": b"[" * 60_000,
    "nested in a field": lease().replace(b"null", b"[" * 50_000 + b"]" * 50_000)[:MAX_BYTES],
    "large": lease(owner="e" * MAX_BYTES),
    "another's id": lease(lease_id="write-ba9876543210"),
    "an unknown kind": lease(kind="steal"),
    "a list as kind": lease(kind=["write"]),
    "refreshed: text": lease(refreshed="now"),
    "refreshed: list": lease(refreshed=[1]),
    "refreshed: true": lease(refreshed=True),
    "refreshed: null": lease(refreshed=None),
    "refreshed: 1e300": lease(refreshed=1e300),
    "refreshed: integer of 1,000 digits": lease(refreshed=10**1000),
    "refreshed: NaN": lease(refreshed=float("nan")),
    "refreshed: Infinity": lease(refreshed=float("inf")),
    "refreshed: negative": lease(refreshed=-1.0),
    "created: text": lease(created="now"),
    "created: 1e300": lease(created=1e300),
    "pid: text": lease(pid="1"),
    "pid: 0": lease(pid=0),
    "pid: huge": lease(pid=1 << 80, host=os.uname().nodename),
    "owner: number": lease(owner=1),
    "owner: a lone surrogate": lease(owner="\ud800"),
    "host: null": lease(host=None),
    "job_id: object": lease(job_id={}),
    "path: number": lease(path=1),
}


def check_damaged(place: Path, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It locks while its file is young, says what to do, and then counts for nothing."""
    target = str(place)
    [found] = find_leases(target)
    assert (found.name, found.record) == (file.name, None)
    assert read_leases(target) == ()
    with pytest.raises(Locked, match="is damaged") as caught:
        Lease.take(target, Kind.WRITE, owner="me@h", job_id="cd" * 16)
    assert str(file) in caught.value.message
    assert f"flinkish savepoint unlock --force --yes {target}" in caught.value.hint
    with pytest.raises(Locked):
        prune(target, Policy(keep_last=1), {})
    with Lease.take(target, Kind.REWRITE, owner="me@h"):
        pass
    capsys.readouterr()
    assert main(["savepoint", "unlock", target]) == 0
    said = capsys.readouterr()
    assert "damaged" in said.out
    assert "stays" in said.out
    assert str(file) in said.err
    assert "--force --yes" in said.err
    assert os.path.lexists(file)
    assert main(["savepoint", "unlock", "--force", target]) == 5
    os.utime(file, (time.time() - OLD,) * 2, follow_symlinks=False)
    with Lease.take(target, Kind.WRITE, owner="me@h", job_id=JOB_ID):
        assert not os.path.lexists(file), "removed by the one who met it"


def take_patiently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flinkish.savepoint.directory.leases._PAUSE", 0.0)


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_lease(
    place: Path, what: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    take_patiently(monkeypatch)
    check_damaged(place, plant(place, DAMAGED[what]), capsys)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("what", ["pipe", "/dev/zero", "nowhere", NAME, "../precious"])
def test_a_lease_that_is_no_regular_file(
    place: Path, what: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    take_patiently(monkeypatch)
    (place / "precious").write_bytes(lease())
    file = place / "_locks" / NAME
    os.mkfifo(file) if what == "pipe" else os.symlink(what, file)
    check_damaged(place, file, capsys)
    assert (place / "precious").exists()


def test_a_lease_that_cannot_be_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user's, readable for him alone: root, who may run this, reads everything."""
    take_patiently(monkeypatch)
    plant(place, lease()).chmod(0)

    def refused(root: str, name: str, limit: int) -> bytes:
        raise StorageError(f"cannot read {root}/{name}: Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "read_below", refused)
        with pytest.raises(Locked, match=r"damaged .*Permission denied"):
            Lease.take(str(place), Kind.WRITE, owner="me@h", job_id=JOB_ID)


@pytest.mark.parametrize("number", [errno.EACCES, errno.ESTALE])
def test_a_directory_of_leases_that_can_only_be_listed(
    place: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Another user's with the mode 744; or of an NFS server that has lost its files."""
    file = str(plant(place, lease()))
    lstat = os.lstat

    def refused(path: Any, **options: Any) -> os.stat_result:
        if path == file:
            raise OSError(number, os.strerror(number), path)
        return lstat(path, **options)

    monkeypatch.setattr(os, "lstat", refused)
    with pytest.raises(StorageError, match=f"cannot read {file}: {os.strerror(number)}"):
        find_leases(str(place))


@pytest.mark.parametrize("what", DAMAGED)
def test_force_removes_it(place: Path, what: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = plant(place, DAMAGED[what])
    dry = ["savepoint", "unlock", "--force", "--dry-run", "--json", str(place)]
    assert main(dry) == 0
    (row,) = json.loads(capsys.readouterr().out)["leases"]
    assert (row["lease_id"], row["stale"], row["removed"]) == (NAME, False, False)
    assert row["damage"]
    assert file.exists()
    assert main(["savepoint", "unlock", "--force", "--yes", str(place)]) == 0
    assert "removed" in capsys.readouterr().out
    assert not (place / "_locks").exists()


def test_a_time_in_the_future_gives_way_to_that_of_the_file(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_patiently(monkeypatch)
    for future in (time.time() + 10 * STALE, 9e10):
        file = plant(place, lease(refreshed=future, created=future))
        with pytest.raises(Locked, match="a savepoint is being written by eve@h") as caught:
            Lease.take(str(place), Kind.WRITE, owner="me@h", job_id=JOB_ID)
        assert str(file) in caught.value.message
        os.utime(file, (time.time() - OLD,) * 2)
        with Lease.take(str(place), Kind.WRITE, owner="me@h", job_id=JOB_ID):
            assert not file.exists()


@pytest.mark.parametrize("time_", [None, 1e11 + 5, 0.0, -5.0], ids=["soon", "late", "0", "-5"])
@pytest.mark.parametrize("data", [lease(refreshed=9e10), b"damaged"], ids=["lease", "damaged"])
def test_a_file_of_the_future_does_not_lock_either(
    place: Path, data: bytes, time_: float | None
) -> None:
    file = plant(place, data)
    os.utime(file, (time.time() + 10 * STALE if time_ is None else time_,) * 2)
    with Lease.take(str(place), Kind.WRITE, owner="me@h", job_id=JOB_ID):
        assert not file.exists()


def test_a_clock_that_is_a_little_ahead_is_believed(place: Path) -> None:
    ahead = time.time() + STALE / 2
    plant(place, lease(refreshed=ahead, created=ahead))
    [record] = read_leases(str(place))
    assert (record.refreshed, record.is_stale(time.time())) == (ahead, False)


def test_a_clock_that_is_slow_does_not_make_a_lease_stale(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its refreshes are long ago by its own clock, and just now by that of the storage."""
    take_patiently(monkeypatch)
    slow = time.time() - OLD
    file = plant(place, lease(refreshed=slow, created=slow))
    with pytest.raises(Locked, match="a savepoint is being written by eve@h"):
        Lease.take(str(place), Kind.PRUNE, owner="me@h")
    os.utime(file, (slow, slow))
    with Lease.take(str(place), Kind.PRUNE, owner="me@h"):
        assert not file.exists()


@pytest.mark.timeout(30)
def test_other_files_among_the_leases_lock_nothing(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    locks = place / "_locks"
    os.mkfifo(locks / "pipe")
    os.symlink("/dev/zero", locks / "zero")
    os.symlink(put_bait(place.parent), locks / "write-00000000000a")  # to a directory
    (locks / os.fsdecode(b"not utf-8 \xff")).write_bytes(b"")
    (locks / "\x1b[31m\nred").write_bytes(lease())
    (locks / "prune-00000000000b").mkdir()
    before = snapshot(locks)
    take(place, tmp_path / "checkpoint")
    assert prune(str(place), Policy(keep_last=1), {}).errors == ()
    assert snapshot(locks) == before
    capsys.readouterr()
    assert main(["savepoint", "unlock", str(place)]) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert said.count("damaged") == 4
    with untouched(place.parent / "outside"):
        assert main(["savepoint", "unlock", "--force", "--yes", str(place)]) == 0
    assert sorted(os.listdir(locks)) == ["prune-00000000000b", "write-00000000000a"]


def test_leases_behind_a_link(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "savepoints"
    path = make_savepoint(str(place), 1.0)
    outside = put_bait(tmp_path)
    (outside / NAME).write_bytes(lease(refreshed=5.0))
    os.symlink(outside, place / "_locks")
    with untouched(outside, place):
        for action, call in ACTIONS.items():
            if action in ("savepoint", "prune", "garbage"):
                with pytest.raises(UnsafePath, match="_locks is a link"):
                    call(place)
            else:
                assert call(place) == 15, action
                assert "_locks is a link" in capsys.readouterr().err
    (place / "_locks").unlink()
    check_files(open_savepoint(path), FULL)


@pytest.mark.servers
def test_leases_on_s3(moto_s3: S3Server, capsys: pytest.CaptureFixture[str]) -> None:
    with moto_s3.configured():
        bucket = moto_s3.create_bucket("hostile")
        root = f"{bucket}/{uuid.uuid4().hex}"
        place, victim = f"{root}/savepoints", f"{root}/outside/victim"
        storage.write_bytes(victim, b"precious")
        make_savepoint(place, 1.0)
        for name in ("x", NAME):
            for outside in ("../../outside/victim", victim, "/outside/victim"):
                data = lease(lease_id=outside, refreshed=5.0, created=5.0)
                storage.write_bytes(f"{place}/_locks/{name}", data)
                if name == "x":  # the other one is damaged, and young: it locks
                    prune(place, Policy(keep_last=1), {})
                assert main(["savepoint", "unlock", "--force", "--yes", place]) == 0
                assert storage.list_names(f"{place}/_locks") == []
                assert storage.read_bytes(victim) == b"precious"
        storage.write_bytes(f"{place}/_locks/{NAME}", b"damaged")
        [found] = find_leases(place)
        assert not found.is_stale(time.time())
        assert found.is_stale(time.time() + OLD)
