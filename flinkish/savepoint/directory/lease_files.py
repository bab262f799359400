"""The file of a lease: its content, and which parts of it are trusted.

Anyone who can write into a directory of savepoints can write such a file. So only the file's name
identifies it. It is read with a size limit, and only if it is a regular file. Every field must have
its type and range. The clock of another host may be wrong: a time in the future is replaced by the
file's time (by 0 if that is in the future), and so is a refresh time that is older than the file's.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import Enum
from typing import Any

from flinkish import storage
from flinkish.errors import Corrupt, StorageError

#: Seconds without a refresh after which a lease is ignored, and by which a time may be ahead of
#: this host's clock before it counts as in the future.
STALE = 300.0
#: Maximum bytes of a lease; flinkish writes about 300.
MAX_BYTES = 64 << 10
#: Names given by ``Lease.take``: the kind and 12 random hex digits.
_NAME = re.compile(r"([a-z]{1,20})-[0-9a-f]{12}")
_LATEST = 1e11
_LENGTHS = {"lease_id": 100, "owner": 1000, "host": 1000, "job_id": 1000, "path": 10_000}
_OPTIONAL = ("job_id", "path")


class Kind(str, Enum):
    """The purpose of a lease."""

    WRITE = "write"
    PRUNE = "prune"
    #: State is rewritten in a separate directory, from which a savepoint is then made; or state is
    #: copied there for a rehearsal; or the checkpoints of an ended job are read.
    REWRITE = "rewrite"


_WORDS = {
    Kind.WRITE: "a savepoint is being written",
    Kind.PRUNE: "files are being removed",
    Kind.REWRITE: "state is being copied or rewritten",
}


@dataclass(frozen=True)
class LeaseRecord:
    """A lease as stored; times are in seconds since the epoch.

    ``lease_id`` is the name of its file. ``path`` is the savepoint that is being written under the
    lease, or the directory of a rewrite.
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
        """Return whether its owner counts as gone; ``now`` is in seconds since the epoch."""
        if now - self.refreshed > STALE:
            return True
        return self.host == os.uname().nodename and not _runs(self.pid)

    def describe(self) -> str:
        """Describe the lease for messages."""
        seconds = max(0, round(time.time() - self.created))
        return (
            f"{_WORDS[self.kind]} by {self.owner} on {self.host} (pid {self.pid}) for {seconds} s"
        )

    def to_bytes(self) -> bytes:
        """Return the content of its file."""
        return json.dumps({**asdict(self), "kind": self.kind.value}).encode()


@dataclass(frozen=True)
class FoundLease:
    """A file among the leases; ``modified`` is in seconds since the epoch, 0.0 if unknown.

    ``record`` is None if the content cannot be trusted; ``damage`` is the reason.
    """

    name: str
    modified: float
    record: LeaseRecord | None
    damage: str | None = None

    @property
    def is_foreign(self) -> bool:
        """Whether its name is not that of a lease, so that it locks nothing."""
        return _NAME.fullmatch(self.name) is None

    @property
    def kind(self) -> Kind | None:
        """The lease's kind, from its name."""
        match = _NAME.fullmatch(self.name)
        return next((kind for kind in Kind if match and kind.value == match.group(1)), None)

    @property
    def since(self) -> float:
        """When it was taken, as far as known, in seconds since the epoch."""
        return self.modified if self.record is None else self.record.created

    def is_stale(self, now: float) -> bool:
        """Return whether it can be ignored; for a damaged one, by the age of its file."""
        if self.record is not None:
            return self.record.is_stale(now)
        return not -STALE <= now - self.modified <= STALE


def look_at_lease(
    target: str, directory: str, name: str, listing: storage.Listing
) -> FoundLease | None:
    """Examine a listed file in the ``directory`` of leases below ``target``; None if it is gone.

    It is opened only if it has a lease's name and is a regular file. Raises StorageError, but not
    for a local file that this user may not read.
    """
    try:
        if storage.is_local(target):
            modified = os.lstat(storage.join(target, directory, name)).st_mtime
        else:
            modified = listing.modified(name)
        if not 0 <= modified <= _LATEST:
            modified = 0.0
        if _NAME.fullmatch(name) is None:
            return FoundLease(name, modified, None, "it does not have the name of a lock")
        if listing.size(name) > MAX_BYTES:
            raise ValueError("it is too large")
        data = storage.read_below(target, f"{directory}/{name}", MAX_BYTES)
        return FoundLease(name, modified, _believed(parse_lease(data, name), modified, time.time()))
    except FileNotFoundError:
        if storage.is_local(target) and os.path.islink(storage.join(target, directory, name)):
            return FoundLease(name, modified, None, "it is not a regular file")
        return None
    except OSError as error:  # e.g. the directory may be listed, but not entered
        place = storage.join(target, directory, name)
        raise storage.storage_error("read", place, error) from error
    except Corrupt as error:
        return FoundLease(name, modified, None, error.message)
    except StorageError as error:
        if not storage.is_local(target):
            raise
        return FoundLease(name, modified, None, error.message)  # this user may not read it
    except ValueError as error:
        return FoundLease(name, modified, None, str(error))


def parse_lease(data: bytes, name: str) -> LeaseRecord:
    """Parse the bytes of a lease's file; raise ValueError with the reason if invalid. Pure."""
    try:
        record = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:
        raise ValueError("it is not JSON") from None
    if not isinstance(record, dict):
        raise ValueError("it is not a JSON object")
    values = {each.name: _field(record, each.name) for each in fields(LeaseRecord)}
    if values["lease_id"] != name:
        raise ValueError("its lease_id is not the name of the file")
    return LeaseRecord(**values)


def _field(record: Mapping[str, Any], name: str) -> Any:
    """Return a field's value; raise ValueError unless it has the required type and range."""
    value: Any = record.get(name)
    if name == "kind":
        if value not in [kind.value for kind in Kind]:
            raise ValueError("its kind is unknown")
        return Kind(value)
    if name == "pid":
        good = type(value) is int and 0 < value < 1 << 31
    elif name in ("created", "refreshed"):
        good = type(value) in (int, float) and 0 <= value <= _LATEST
    elif value is None:
        good = name in _OPTIONAL
    else:
        good = isinstance(value, str) and len(value) <= _LENGTHS[name] and _is_text(value)
    if not good:
        raise ValueError(f"its {name} is missing or invalid")
    return value


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _believed(record: LeaseRecord, modified: float, now: float) -> LeaseRecord:
    """Replace times in the future, and a refresh older than the file, by the file's time. Pure.

    The owner's clock may be wrong. Each refresh writes the file, with the time of the storage.
    """
    latest = now + STALE
    written = modified if modified <= latest else 0.0
    return replace(
        record,
        created=record.created if record.created <= latest else written,
        refreshed=max(record.refreshed if record.refreshed <= latest else 0.0, written),
    )


def _runs(pid: int) -> bool:
    """Return whether a process of this host runs; a zombie does not count as running."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            # The state follows the command in parentheses; the command may contain parentheses.
            return stream.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        pass  # no /proc, or it hides the processes of other users, or the process is gone
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # another user's
    return True
