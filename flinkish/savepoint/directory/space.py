"""Space of a savepoint: its own bytes, which disposing of it frees, and the bytes it shares."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from flinkish import storage
from flinkish.savepoint.directory import sharing
from flinkish.savepoint.format.contents import FileRecord
from flinkish.savepoint.format.reader import OpenSavepoint


@dataclass(frozen=True)
class Space:
    """Bytes of a savepoint's data files, and the names of the savepoints it shares files with.

    Shared are files that an earlier savepoint holds for this one (``holders``), files that later
    ones use (``users``), and local files with other hard links (a checkpoint, or a savepoint of the
    same files): disposing of this savepoint alone does not free them.
    """

    own_bytes: int
    shared_bytes: int
    holders: tuple[str, ...]
    users: tuple[str, ...]


def measure(savepoint: OpenSavepoint) -> Space:
    """Measure all files of ``savepoint``; missing files count as own.

    Local files take one ``stat`` each. Raises Corrupt if the metadata or a reference list is
    damaged.
    """
    users = sharing.live_users(savepoint.path, time.time())
    used = {p for user in users for p in sharing.read_references(savepoint.path, user)}
    own = shared = 0
    for record in savepoint.iter_files():
        if (
            record.held is not None
            or _inside(savepoint, record) in used
            or _linked(savepoint, record)
        ):
            shared += record.size
        else:
            own += record.size
    return Space(own, shared, savepoint.holders, users)


def _inside(savepoint: OpenSavepoint, record: FileRecord) -> str:
    return f"{savepoint.queries[record.query].directory}/{record.path}"


def _linked(savepoint: OpenSavepoint, record: FileRecord) -> bool:
    location = savepoint.locate_file(record)
    if not storage.is_local(location):
        return False
    try:
        return os.stat(location).st_nlink > 1
    except OSError:
        return False
