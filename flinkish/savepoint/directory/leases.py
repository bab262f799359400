"""Leases: locks in a directory of savepoints, so that two hosts do not conflict.

A lease is a small file in ``<directory>/_locks/``, refreshed while its owner lives (like restic's
locks). A process writes its lease and then reads the others: of two processes that conflict, at
least one sees the other and withdraws. Two savepoints of one job conflict, and a prune conflicts
with every writer and other prune; savepoints of different jobs do not conflict. A rewrite of state
conflicts with nothing: its lease only shows that it is alive. Disposing of one savepoint takes no
lease (:mod:`flinkish.savepoint.directory.sharing`). The protocol assumes storage with
read-after-write consistency, which local disks, HDFS and S3 have.

A lease is stale (:meth:`LeaseRecord.is_stale`) if it has not been refreshed for :data:`STALE`
seconds, or if it is of this host and its process is gone. The next process that finds it removes it
by its file name. The content of a lease is checked, see :mod:`.lease_files`. An unreadable lease,
unless it is a rewrite's, locks until its file is :data:`STALE` seconds old; a file without a
lease's name never locks.
"""

from __future__ import annotations

import errno
import os
import secrets
import threading
import time
from contextlib import suppress
from dataclasses import replace
from types import TracebackType

from flinkish import storage
from flinkish.errors import Locked, StorageError, UnsafePath, quoted_path
from flinkish.savepoint.directory.lease_files import (
    STALE,
    FoundLease,
    Kind,
    LeaseRecord,
    look_at_lease,
)

__all__ = [
    "DIRECTORY",
    "REFRESH",
    "STALE",
    "FoundLease",
    "Kind",
    "Lease",
    "LeaseRecord",
    "conflicts",
    "find_leases",
    "read_leases",
    "remove",
]

DIRECTORY = "_locks"
#: Seconds between two refreshes.
REFRESH = 30.0
#: Attempts to take a lease, and to write its file, while other processes take or remove leases;
#: pause between two attempts to take one, in seconds.
_TRIES = 4
_PAUSE = 0.3


def conflicts(mine: LeaseRecord, other: LeaseRecord) -> bool:
    """Return whether two leases of one directory exclude each other. Pure."""
    if mine.lease_id == other.lease_id or Kind.REWRITE in (mine.kind, other.kind):
        return False
    if Kind.PRUNE in (mine.kind, other.kind):
        return True
    return mine.job_id == other.job_id


def find_leases(target: str) -> tuple[FoundLease, ...]:
    """Return all files among a directory's leases, oldest first, with damaged and foreign ones.

    Raises UnsafePath if the directory of leases is a link, and StorageError.
    """
    target = storage.locate(target)
    _refuse_link(target)
    listing = storage.list_directory(storage.join(target, DIRECTORY))
    looked = (look_at_lease(target, DIRECTORY, name, listing) for name in listing.files)
    leases = [each for each in looked if each is not None]
    return tuple(sorted(leases, key=lambda each: (each.since, each.name)))


def read_leases(target: str) -> tuple[LeaseRecord, ...]:
    """Return all readable leases of a directory, oldest first, including stale ones."""
    return tuple(lease.record for lease in find_leases(target) if lease.record is not None)


def remove(target: str, name: str) -> bool:
    """Remove a lease by its file name; return False if it did not exist (S3: always True)."""
    return storage.remove_file(storage.locate(target), f"{DIRECTORY}/{name}")


class Lease:
    """A held lease, refreshed by a thread until it is released; a context manager."""

    def __init__(self, target: str, record: LeaseRecord) -> None:
        self._target = target
        self.record = record
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._refresh, name="flinkish-lease", daemon=True)

    @staticmethod
    def take(
        target: str, kind: Kind, *, owner: str, job_id: str | None = None, path: str | None = None
    ) -> Lease:
        """Take a lease of the directory ``target``, which must exist.

        ``owner`` is ``user@host``; ``path`` is the savepoint being written, or the directory of a
        rewrite. Raises Locked if another process holds a lease that excludes this one, or an
        unreadable lease may do so; UnsafePath if the directory of leases is a link; StorageError.
        """
        target = storage.locate(target)
        now = time.time()
        host, pid = os.uname().nodename, os.getpid()
        record = LeaseRecord(
            f"{kind.value}-{secrets.token_hex(6)}", kind, owner, host, pid, now, now, job_id, path
        )
        other: FoundLease | None = None
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
        assert other is not None  # else the lease was returned above
        raise _locked(target, other)

    def _refresh(self) -> None:
        while not self._released.wait(REFRESH):
            self.record = replace(self.record, refreshed=time.time())
            try:
                _write(self._target, self.record)
            except (StorageError, UnsafePath):
                continue  # the next refresh retries; the work itself reports the same failure
            if self._released.is_set():
                remove(self._target, self.record.lease_id)

    def release(self) -> None:
        """Stop refreshing and remove the lease."""
        self._released.set()
        if self._thread.is_alive():
            self._thread.join()
        remove(self._target, self.record.lease_id)
        storage.remove_empty_directories(self._target, [DIRECTORY])

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        with suppress(StorageError, UnsafePath):  # the work is done; the lease expires by itself
            self.release()


def _first_conflict(target: str, mine: LeaseRecord) -> FoundLease | None:
    """Return the oldest lease that excludes ``mine``; remove stale ones found before it."""
    for other in find_leases(target):
        if other.is_foreign or other.name == mine.lease_id:
            continue
        if other.is_stale(time.time()):
            with suppress(StorageError):  # another user's file may not be removable
                remove(target, other.name)
        elif other.record is None:
            # Its owner is unknown; only its kind is known, from its name.
            if Kind.REWRITE not in (mine.kind, other.kind):
                return other
        elif conflicts(mine, other.record):
            return other
    return None


def _locked(target: str, other: FoundLease) -> Locked:
    file = storage.join(target, DIRECTORY, other.name)
    if other.record is None:
        return Locked(
            f"{target} is locked: {file} is damaged ({other.damage})",
            hint=f"it is ignored {STALE:.0f} s after it was last written; if no process works "
            f"there, remove it: flinkish savepoint unlock --force --yes {quoted_path(target)}",
            path=target,
            file=file,
        )
    record = other.record
    return Locked(
        f"{target} is locked: {record.describe()} ({file})",
        hint="wait for it to end; if its process is certainly gone: "
        f"flinkish savepoint unlock {quoted_path(target)}",
        path=target,
        file=file,
        owner=record.owner,
        host=record.host,
        since=record.created,
        lease_id=other.name,
    )


def _refuse_link(target: str) -> None:
    """Raise UnsafePath if the directory of leases is a link: its files would be elsewhere."""
    directory = storage.join(target, DIRECTORY)
    if storage.is_local(target) and os.path.islink(directory):
        raise UnsafePath(
            f"{directory} is a link, and locks are not followed to another place",
            hint="remove the link; see who can write in that directory",
            path=directory,
        )


def _write(target: str, record: LeaseRecord) -> None:
    _refuse_link(target)
    data = record.to_bytes()
    for left in reversed(range(_TRIES)):
        storage.make_directory(storage.join(target, DIRECTORY))
        try:
            storage.write_atomically(storage.join(target, DIRECTORY, record.lease_id), data)
            return
        except StorageError as error:
            # Another process has just removed the directory, which was empty.
            if not left or error.data.get("errno") != errno.ENOENT:
                raise
