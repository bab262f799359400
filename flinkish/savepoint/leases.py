"""Leases: who is at work in a directory of savepoints, so that two hosts do not get in each
other's way.

A lease is a small file in ``<directory>/_locks/``, refreshed while its owner lives (as restic's
locks). Whoever wants one writes it, then looks at the others: of two that conflict at least one
sees the other, and steps back. Two savepoints of one job conflict, and whoever removes files
(prune, dispose) with everybody who writes; savepoints of different jobs do not. Whoever rewrites
state beside them conflicts with nobody: his lease only says that he lives. Storage with
read-after-write consistency is assumed, which local disks, HDFS and S3 have.

A lease is stale when it has not been refreshed for :data:`STALE` seconds, or when it is of this
host and its process is gone; the next one who meets it removes it.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from types import TracebackType

from flinkish import storage
from flinkish.errors import Locked, StorageError

DIRECTORY = "_locks"
#: Seconds between two refreshes, and without one until a lease counts for nothing.
REFRESH = 30.0
STALE = 300.0
#: How often a lease is tried for when another is met in the very act, and the pause, seconds.
_TRIES = 4
_PAUSE = 0.3


class Kind(str, Enum):
    """What a lease is for."""

    WRITE = "write"
    PRUNE = "prune"
    #: State is rewritten in a directory of its own, of which a savepoint will be made.
    REWRITE = "rewrite"


_WORDS = {
    Kind.WRITE: "a savepoint is being written",
    Kind.PRUNE: "files are removed",
    Kind.REWRITE: "state is rewritten",
}


@dataclass(frozen=True)
class LeaseRecord:
    """A lease as it stands in storage; times are seconds since the epoch.

    ``path`` is the savepoint that is being written under it, or the directory of a rewrite.
    """

    lease_id: str
    kind: Kind
    owner: str
    host: str
    pid: int
    created: float
    refreshed: float
    job_id: str | None = None
    path: str | None = None

    def is_stale(self, now: float) -> bool:
        """Whether its owner has surely gone."""
        if now - self.refreshed > STALE:
            return True
        return self.host == os.uname().nodename and not _runs(self.pid)

    def describe(self) -> str:
        """The lease in messages."""
        seconds = max(0, round(time.time() - self.created))
        return (
            f"{_WORDS[self.kind]} by {self.owner} on {self.host} (pid {self.pid}) since {seconds} s"
        )


def conflicts(mine: LeaseRecord, other: LeaseRecord) -> bool:
    """Whether two leases of one directory exclude each other. Pure."""
    if mine.lease_id == other.lease_id or Kind.REWRITE in (mine.kind, other.kind):
        return False
    if Kind.PRUNE in (mine.kind, other.kind):
        return True
    return mine.job_id == other.job_id


def read_leases(target: str) -> tuple[LeaseRecord, ...]:
    """All leases of a directory, stale ones too, oldest first."""
    directory = storage.join(storage.locate(target), DIRECTORY)
    found = []
    for name in storage.list_directory(directory).files:
        record = _read(storage.join(directory, name))
        if record is not None:
            found.append(record)
    return tuple(sorted(found, key=lambda record: (record.created, record.lease_id)))


def remove(target: str, lease_id: str) -> bool:
    """Remove a lease; False when it was not there."""
    return storage.remove_file(_location(storage.locate(target), lease_id))


class Lease:
    """A lease that is held, and refreshed by a thread until it is released; a context manager."""

    def __init__(self, target: str, record: LeaseRecord) -> None:
        self._target = target
        self.record = record
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._refresh, name="flinkish-lease", daemon=True)

    @staticmethod
    def take(
        target: str, kind: Kind, *, owner: str, job_id: str | None = None, path: str | None = None
    ) -> Lease:
        """Take a lease of the directory ``target``, which must be there.

        Raises Locked when another holds one that excludes it, StorageError.
        """
        target = storage.locate(target)
        now = time.time()
        host, pid = os.uname().nodename, os.getpid()
        record = LeaseRecord(
            f"{kind.value}-{secrets.token_hex(6)}", kind, owner, host, pid, now, now, job_id, path
        )
        other: LeaseRecord | None = None
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(_PAUSE * (1 + secrets.randbelow(100) / 100))
            _write(target, record)
            try:
                other = _first_conflict(target, record)
            except BaseException:
                remove(target, record.lease_id)
                raise
            if other is None:
                lease = Lease(target, record)
                lease._thread.start()
                return lease
            remove(target, record.lease_id)
        assert other is not None  # else it was returned above
        raise Locked(
            f"{target} is locked: {other.describe()}",
            hint="wait for it to end; if its process is surely gone: "
            f"flinkish savepoint unlock {target}",
            path=target,
            owner=other.owner,
            host=other.host,
            since=other.created,
            lease_id=other.lease_id,
        )

    def _refresh(self) -> None:
        while not self._released.wait(REFRESH):
            self.record = replace(self.record, refreshed=time.time())
            try:
                _write(self._target, self.record)
            except StorageError:
                continue  # tried again soon; the work itself meets the same trouble and tells it
            if self._released.is_set():
                remove(self._target, self.record.lease_id)

    def release(self) -> None:
        """Give it back."""
        self._released.set()
        if self._thread.is_alive():
            self._thread.join()
        remove(self._target, self.record.lease_id)
        storage.remove_empty_directories([storage.join(self._target, DIRECTORY)])

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            self.release()
        except StorageError:
            if error is None:
                raise  # else what went wrong first is what is to be told


def _first_conflict(target: str, mine: LeaseRecord) -> LeaseRecord | None:
    """The oldest lease that excludes ``mine``; stale ones met on the way are removed."""
    for other in read_leases(target):
        if other.lease_id == mine.lease_id:
            continue
        if other.is_stale(time.time()):
            remove(target, other.lease_id)
        elif conflicts(mine, other):
            return other
    return None


def live_paths(leases: Sequence[LeaseRecord], now: float) -> frozenset[str]:
    """Savepoints that somebody is writing. Pure but for the look at processes of this host."""
    return frozenset(
        lease.path for lease in leases if lease.path is not None and not lease.is_stale(now)
    )


def _location(target: str, lease_id: str) -> str:
    return storage.join(target, DIRECTORY, lease_id)


def _write(target: str, record: LeaseRecord) -> None:
    data = json.dumps({**asdict(record), "kind": record.kind.value}).encode()
    for left in reversed(range(_TRIES)):
        storage.make_directory(storage.join(target, DIRECTORY))
        try:
            storage.write_atomically(_location(target, record.lease_id), data)
            return
        except StorageError as error:
            # Another has removed the directory, which was empty, just now.
            if not left or error.data.get("errno") != errno.ENOENT:
                raise


def _read(location: str) -> LeaseRecord | None:
    """A lease; None when it is gone by now, or is none."""
    try:
        data = json.loads(storage.read_bytes(location))
        known = {k: v for k, v in data.items() if k in LeaseRecord.__dataclass_fields__}
        return LeaseRecord(**{**known, "kind": Kind(data["kind"])})
    except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _runs(pid: int) -> bool:
    """Whether a process of this host runs; one that ended and nobody has waited for does not."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            # The state stands behind the command in parentheses, which may hold some itself.
            return stream.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        pass  # there is no /proc, or it hides the processes of other users, or it is gone
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # another user's
    return True
