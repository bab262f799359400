"""Disposing of a savepoint: its own files go, anything else in the directory stays."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice

from flinkish import storage
from flinkish.savepoint import sharing
from flinkish.savepoint.metadata import FILE_NAME
from flinkish.savepoint.reader import Savepoint, open_savepoint

#: Rows a statement is given, or gives, at a time.
_ROWS = 2000


@dataclass(frozen=True)
class Disposed:
    """What :func:`dispose` did; ``foreign`` are relative paths that were left where they are.

    ``bytes`` were freed (hard links elsewhere not counted). ``kept`` files of ``kept_bytes`` stay
    because the savepoints ``users`` use them; they go with the last of these.
    """

    path: str
    removed: int
    missing: int
    bytes: int
    foreign: tuple[str, ...]
    #: True when the savepoint's directory itself is gone.
    gone: bool
    kept: int = 0
    kept_bytes: int = 0
    users: tuple[str, ...] = ()


def dispose(path: str, *, dry_run: bool = False) -> Disposed:
    """Delete the savepoint at ``path`` (its directory or ``_metadata`` file).

    ``_metadata`` goes first, so that an interrupted disposal leaves no half savepoint that opens.
    Then the files it lists and no other savepoint uses, and the directories left empty. Files of
    other savepoints that it used are given back to them: the last one who used a file of a
    savepoint that is gone removes it. Files that nobody lists stay, and are returned. With
    ``dry_run`` nothing is touched.

    Raises SavepointNotFound for anything that is no savepoint, Corrupt or UnsupportedFormat when
    its ``_metadata`` cannot be read (then nobody knows which files are its own), StorageError.
    """
    savepoint = open_savepoint(path)
    with closing(_Files(savepoint)) as files:
        if not dry_run:
            storage.remove_file(storage.join(savepoint.path, FILE_NAME))
            if storage.is_local(savepoint.path):
                storage.sync_directory(savepoint.path)
        users = sharing.live_users(savepoint.path, time.time())
        for user in users:
            files.mark_used(sharing.read_references(savepoint.path, user))
        foreign = files.mark_listed(_listed(savepoint))
        counts = files.counts()
        result = Disposed(
            path=savepoint.path,
            removed=counts.present + 1,
            missing=counts.missing,
            bytes=counts.present_bytes,
            foreign=foreign,
            gone=False,
            kept=counts.kept,
            kept_bytes=counts.kept_bytes,
            users=users,
        )
        if dry_run:
            return result
        storage.remove_files(storage.join(savepoint.path, name) for name in files.present())
        if not users:
            _remove_references(savepoint.path)
        storage.remove_empty_directories(directories_of(savepoint.path, files.paths()))
    _give_back(savepoint)
    gone = not storage.exists(savepoint.path)
    return Disposed(**{**vars(result), "gone": gone})


@dataclass(frozen=True)
class _Counts:
    """The savepoint's own files: those that go, those that were gone before, those that stay."""

    present: int
    present_bytes: int
    missing: int
    kept: int
    kept_bytes: int


class _Files:
    """The savepoint's own files in a table on disk: there may be a million, and when ``_metadata``
    is gone nothing else names them."""

    def __init__(self, savepoint: Savepoint) -> None:
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.executescript(
            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; CREATE TABLE own"
            " (path TEXT PRIMARY KEY, size INTEGER, listed INTEGER, used INTEGER) WITHOUT ROWID;"
        )
        rows = (
            (f"{savepoint.queries[record.query].directory}/{record.path}", record.size)
            for record in savepoint.iter_files()
            if record.held is None
        )
        while some := list(islice(rows, _ROWS)):
            self._db.executemany("INSERT OR REPLACE INTO own VALUES (?, ?, 0, 0)", some)

    def close(self) -> None:
        """Give up the table."""
        self._db.close()

    def mark_used(self, paths: Iterable[str]) -> None:
        """Another savepoint uses these."""
        self._db.executemany("UPDATE own SET used = 1 WHERE path = ?", ((p,) for p in paths))

    def mark_listed(self, paths: Iterable[str]) -> tuple[str, ...]:
        """These are in the directory; returns those that are not the savepoint's own."""
        foreign = []
        for path in paths:
            cursor = self._db.execute("UPDATE own SET listed = 1 WHERE path = ?", (path,))
            if not cursor.rowcount and path != FILE_NAME and not _is_reference(path):
                foreign.append(path)
        return tuple(sorted(foreign))

    def counts(self) -> _Counts:
        """How many there are of each kind."""
        goes = "listed AND NOT used"
        row = self._db.execute(
            f"SELECT total({goes}), total(CASE WHEN {goes} THEN size ELSE 0 END),"
            " total(NOT listed), total(used), total(CASE WHEN used THEN size ELSE 0 END) FROM own"
        ).fetchone()
        return _Counts(*(int(value) for value in row))

    def present(self) -> Iterator[str]:
        """Paths of the files that go."""
        return self._paths("WHERE listed AND NOT used")

    def paths(self) -> Iterator[str]:
        """Paths of all."""
        return self._paths("")

    def _paths(self, where: str) -> Iterator[str]:
        cursor = self._db.execute(f"SELECT path FROM own {where}")
        while rows := cursor.fetchmany(_ROWS):
            yield from (row[0] for row in rows)


def release_holder(holder: str, user: str) -> bool:
    """``user`` is gone: remove its list, and what is left of a disposed ``holder`` that it used.

    Returns whether the holder's directory is gone. A holder that is whole loses nothing.
    """
    mine = set(sharing.read_references(holder, user))
    sharing.forget_references(holder, user)
    if sharing.is_whole(holder):
        return False
    others = sharing.live_users(holder, time.time())
    used = {path for other in others for path in sharing.read_references(holder, other)}
    free = sorted(mine - used)
    storage.remove_files(storage.join(holder, path) for path in free)
    if not others:
        _remove_references(holder)
    storage.remove_empty_directories(directories_of(holder, mine))
    return not storage.exists(holder)


def _give_back(savepoint: Savepoint) -> None:
    parent, name = storage.parent(savepoint.path), storage.base_name(savepoint.path)
    for holder in savepoint.holders:
        release_holder(storage.join(parent, holder), name)


def _remove_references(holder: str) -> None:
    directory = storage.join(holder, sharing.DIRECTORY)
    storage.remove_files(storage.join(directory, name) for name in sharing.users_of(holder))
    storage.remove_empty_directories([directory])


def _is_reference(path: str) -> bool:
    return path.startswith(f"{sharing.DIRECTORY}/")


def _listed(savepoint: Savepoint) -> Iterator[str]:
    """Every file in the savepoint's directory, hidden ones too where it is local."""
    if storage.is_local(savepoint.path):
        return _walk_all(savepoint.path)
    return (path for path, _ in storage.walk_files(savepoint.path))


def _walk_all(root: str) -> Iterator[str]:
    import os

    for directory, directories, names in os.walk(root):
        relative = os.path.relpath(directory, root)
        links = [n for n in directories if os.path.islink(os.path.join(directory, n))]
        for name in [*names, *links]:
            yield name if relative == "." else f"{relative}/{name}"


def directories_of(root: str, files: Iterable[str]) -> set[str]:
    """The savepoint's directory and every directory its files lie in, however deep."""
    found = {root}
    for name in files:
        parent = name.rpartition("/")[0]
        while parent and storage.join(root, parent) not in found:
            found.add(storage.join(root, parent))
            parent = parent.rpartition("/")[0]
    return found
