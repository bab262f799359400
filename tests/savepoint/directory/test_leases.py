from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from flinkish import storage
from flinkish.errors import Locked, StorageError
from flinkish.savepoint.directory import leases
from flinkish.savepoint.directory.leases import Kind, Lease, LeaseRecord, conflicts, read_leases
from tests.support.savepoint.places import KINDS, place

A, B = "a" * 32, "b" * 32


def record(kind: Kind, job_id: str | None, lease_id: str = "x") -> LeaseRecord:
    return LeaseRecord(lease_id, kind, "me@h", "h", 1, 0.0, 0.0, job_id)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (record(Kind.WRITE, A), record(Kind.WRITE, A, "y"), True),
        (record(Kind.WRITE, A), record(Kind.WRITE, B, "y"), False),
        (record(Kind.WRITE, A), record(Kind.PRUNE, None, "y"), True),
        (record(Kind.PRUNE, None), record(Kind.PRUNE, None, "y"), True),
        (record(Kind.WRITE, A), record(Kind.WRITE, A), False),
    ],
)
def test_what_excludes_what(one: LeaseRecord, other: LeaseRecord, expected: bool) -> None:
    assert conflicts(one, other) is expected
    assert conflicts(other, one) is expected


SLOW = (pytest.mark.servers, pytest.mark.deep)


@pytest.mark.parametrize(
    "kind",
    [
        "local",
        pytest.param("moto_s3", marks=pytest.mark.servers),
        *(pytest.param(kind, marks=SLOW) for kind in KINDS if kind not in ("local", "moto_s3")),
    ],
)
def test_two_writers(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    with place(kind, request, tmp_path) as root:
        first = Lease.take(root, Kind.WRITE, owner="ann@one", job_id=A, path=f"{root}/s")
        with pytest.raises(Locked, match="by ann@one on") as caught:
            Lease.take(root, Kind.WRITE, owner="bob@two", job_id=A)
        assert caught.value.data["owner"] == "ann@one"
        assert "savepoint unlock" in caught.value.hint
        with Lease.take(root, Kind.WRITE, owner="bob@two", job_id=B), pytest.raises(Locked):
            Lease.take(root, Kind.PRUNE, owner="eve@three")
        [held] = read_leases(root)
        assert (held.owner, held.path, held.is_stale(time.time())) == (
            "ann@one",
            f"{root}/s",
            False,
        )
        first.release()
        with Lease.take(root, Kind.PRUNE, owner="eve@three"):
            pass
        assert read_leases(root) == ()
        assert storage.list_names(root) == []


def test_a_stale_lease_is_broken(tmp_path: Path) -> None:
    root = str(tmp_path)
    lease = Lease.take(root, Kind.WRITE, owner="ann@one", job_id=A)
    before = time.time() - leases.STALE - 1
    leases._write(root, replace(lease.record, host="elsewhere", refreshed=before))
    os.utime(tmp_path / "_locks" / lease.record.lease_id, (before, before))
    with Lease.take(root, Kind.WRITE, owner="bob@two", job_id=A):
        assert [found.owner for found in read_leases(root)] == ["bob@two"]
    lease.release()


def test_a_dead_process_of_this_host_holds_nothing(tmp_path: Path) -> None:
    program = (
        "import sys, os\n"
        "from flinkish.savepoint.directory.leases import Kind, Lease\n"
        "Lease.take(sys.argv[1], Kind.WRITE, owner='ann@one', job_id='a' * 32)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    [left] = read_leases(str(tmp_path))
    assert left.is_stale(time.time())
    with Lease.take(str(tmp_path), Kind.WRITE, owner="bob@two", job_id=A):
        pass


def test_it_is_refreshed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "REFRESH", 0.05)

    def refreshed() -> float:
        """What the file says; its own time counts, too."""
        [file] = (tmp_path / "_locks").iterdir()
        return float(json.loads(file.read_bytes())["refreshed"])

    with Lease.take(str(tmp_path), Kind.WRITE, owner="ann@one", job_id=A) as lease:
        before = refreshed()
        deadline = time.monotonic() + 60
        while refreshed() == before:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert lease.record.created == before
    assert os.listdir(tmp_path) == []


def test_of_many_at_once_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_PAUSE", 0.05)
    inside, most, refused = 0, 0, 0
    lock = threading.Lock()

    def work(number: int) -> None:
        nonlocal inside, most, refused
        try:
            with Lease.take(str(tmp_path), Kind.PRUNE, owner=f"{number}@h"):
                with lock:
                    inside += 1
                    most = max(most, inside)
                time.sleep(0.1)
                with lock:
                    inside -= 1
        except Locked:
            with lock:
                refused += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most <= 1
    assert refused < 8 or most == 0


def test_garbage_among_the_leases_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "_locks").mkdir()
    for name, data in {"a": b"", "b": b"{}", "c": b"[1]", "d": b"\xff"}.items():
        (tmp_path / "_locks" / name).write_bytes(data)
    assert read_leases(str(tmp_path)) == ()
    with Lease.take(str(tmp_path), Kind.PRUNE, owner="ann@one"):
        pass


def test_work_that_is_done_does_not_fail_if_its_lease_cannot_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a storage that refuses deletions; the lease expires by itself."""

    def refused(target: str, name: str) -> bool:
        raise StorageError(f"cannot delete {target}/_locks/{name}: 503 Slow Down")

    with Lease.take(str(tmp_path), Kind.WRITE, owner="ann@one", job_id=A):
        monkeypatch.setattr(leases, "remove", refused)
    [left] = read_leases(str(tmp_path))
    assert left.is_stale(left.refreshed + leases.STALE + 1)
