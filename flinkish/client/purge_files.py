"""Files that a purge finds outside the registry: checkpoints, and leftovers of rehearsals.

A rehearsal writes to its own directory next to the checkpoints of jobs. Its driver or its command
removes that directory at the end. If both are killed, the directory remains, and no record mentions
it. While the driver lives, it holds a lease there.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from flinkish import storage
from flinkish.client.reporter import Reporter
from flinkish.errors import FlinkishError, StorageError
from flinkish.registry.purge_plan import Found
from flinkish.savepoint.directory.leases import STALE, FoundLease, find_leases
from flinkish.savepoint.format.metadata import FILE_NAME

_REHEARSAL = re.compile(r"\.rehearsal-[0-9a-f]{32}")
LINK = "it is a link to another place"


@dataclass(frozen=True)
class Leftover:
    """The directory of a rehearsal.

    ``written``: when something was last written there, in seconds since the epoch. ``stays``: why
    it is not removed.
    """

    location: str
    written: float = 0.0
    bytes: int = 0
    stays: str | None = None
    removed: bool = False
    error: FlinkishError | None = None


def new_rehearsal_directory(checkpoints: str) -> str:
    """Return the location of a new rehearsal next to the checkpoints of jobs; creates nothing."""
    return storage.join(checkpoints, f".rehearsal-{uuid.uuid4().hex}")


def found_below(path: str) -> Found | None:
    """Return what a directory contains, or why it must stay; None if it does not exist."""
    try:
        if not storage.exists(path):
            return None
        if storage.is_local(path) and os.path.islink(path):
            return Found(stays=LINK)
        files, size, modified = 0, 0, 0.0
        for name, entry in storage.walk_files(path):
            if storage.base_name(f"/{name}") == FILE_NAME:
                return Found(stays=f"it contains a savepoint: {storage.join(path, name)}")
            try:
                files, size = files + 1, size + entry.size()
                modified = max(modified, entry.modified())
            except FileNotFoundError:
                continue  # removed in the meantime
    except FileNotFoundError:
        return None
    except FlinkishError as error:
        return Found(stays=f"it cannot be read: {error.message}")
    return Found(files, size, modified=modified)


def find_leftovers(
    directories: Iterable[str], ended_before: float, reporter: Reporter
) -> tuple[Leftover, ...]:
    """Return the directories of rehearsals, each with the reason why it stays if it does.

    ``directories``: where the checkpoints of jobs are. ``ended_before``: in seconds since the
    epoch; a directory that was written to later stays. ``reporter``: told of directories that
    cannot be listed.
    """
    return tuple(
        leftover
        for directory in directories
        for location in _rehearsals(directory, reporter)
        if (leftover := _looked_at(location, ended_before)) is not None
    )


def remove_leftover(leftover: Leftover) -> Leftover:
    """Remove the directory of a rehearsal; return it with the outcome."""
    try:
        if not storage.remove_tree(*storage.split(leftover.location)):
            raise StorageError(
                f"{leftover.location} could not be removed completely",
                hint="check who owns the remaining files; you can run purge again",
            )
    except FlinkishError as error:
        return replace(leftover, error=error)
    return replace(leftover, removed=True)


def why_it_stays(
    leases: Iterable[FoundLease], written: float, ended_before: float, now: float
) -> str | None:
    """Return why the directory of a rehearsal is kept; None if nobody needs it. Pure.

    ``leases``: the leases in the directory. Without a lease, the rehearsal's driver may be about to
    start or to end, unless the directory is old. ``written``: when something was last written
    there.
    """
    own_leases = [lease for lease in leases if not lease.is_foreign]
    for lease in own_leases:
        if not lease.is_stale(now):
            record = lease.record
            who = "" if record is None else f" (pid {record.pid} on {record.host})"
            return f"its rehearsal is still running{who}"
    if written >= ended_before:
        return "it was changed too recently"
    if not own_leases and now - written <= STALE:
        return "its rehearsal may still be running: it was written to just now"
    return None


def _rehearsals(directory: str, reporter: Reporter) -> Iterator[str]:
    try:
        names = storage.list_names(directory, hidden=True)
    except FlinkishError as error:
        reporter.warning(f"{directory} was not checked: {error.message}")
        return
    for name in sorted(names):
        if _REHEARSAL.fullmatch(name):
            yield storage.join(directory, name)


def _looked_at(location: str, ended_before: float) -> Leftover | None:
    try:
        own_time = os.lstat(location).st_mtime if storage.is_local(location) else 0.0
    except FileNotFoundError:
        return None
    files = found_below(location)
    if files is None:
        return None
    stays, written = files.stays, max(own_time, files.modified)
    if stays is None:
        try:
            leases = find_leases(location)
        except FlinkishError as error:
            stays = f"it cannot be read: {error.message}"
        else:
            stays = why_it_stays(leases, written, ended_before, time.time())
    return Leftover(location, written, files.bytes, stays)
