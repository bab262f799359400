"""Disposal of a savepoint: its own files are removed, and foreign files in its directory stay."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice

from flinkish import storage
from flinkish.annotations import public_evolving
from flinkish.errors import FlinkishError, from_record
from flinkish.savepoint.directory import sharing
from flinkish.savepoint.directory.catalog import Catalog, Unreadable, read_paths
from flinkish.savepoint.format.metadata import FILE_NAME
from flinkish.savepoint.format.reader import OpenSavepoint, open_savepoint, savepoint_directory

Tell = Callable[[str], object]
#: Number of rows per statement or fetch.
_ROWS = 2000
#: What to do about a savepoint that cannot be read and may use files of others.
UNKNOWN_HINT = (
    "put its _metadata back from a copy; or, if nobody needs it, remove its directory by hand"
)


@public_evolving
@dataclass(frozen=True)
class Disposed:
    """The result of :func:`dispose`.

    ``removed`` files were removed, including ``_metadata`` and files of disposed savepoints that
    only this one used; ``missing`` files of its own did not exist. ``bytes`` is the size of removed
    data files (hard links elsewhere keep them on the disk). ``foreign`` are relative paths of files
    that are not the savepoint's own and stay. ``kept`` files stay because the savepoints ``users``
    use them; disposing of the last of these savepoints removes the files, unless it was renamed or
    copied: the files are then garbage, which a prune removes.
    """

    path: str
    removed: int
    missing: int
    bytes: int
    foreign: tuple[str, ...]
    #: True if the savepoint's directory itself is gone.
    gone: bool
    kept: int = 0
    kept_bytes: int = 0
    users: tuple[str, ...] = ()


def dispose(
    path: str,
    *,
    dry_run: bool = False,
    follow: bool = True,
    tell: Tell | None = None,
    gone: Collection[str] = (),
    siblings: Catalog | None = None,
) -> Disposed:
    """Delete the savepoint at ``path`` (its directory or ``_metadata`` file).

    ``_metadata`` is removed first, so that an interrupted disposal leaves no incomplete savepoint
    that can be opened. Then the files that it lists and no other savepoint uses are removed, and so
    are directories that become empty. Files of other savepoints that it used are released: disposal
    of the last user of a file of a disposed savepoint removes the file, if the user's reference
    list has the user's present name. Files that it does not list stay, and their paths are
    returned.

    With ``dry_run`` nothing changes, and ``gone`` are the locations that earlier dry runs have
    reported as removed. With ``follow``, ``path`` itself may be a link, which stays; links below it
    are never followed. ``tell`` is called with the location of each removed entry; directories end
    with a slash. ``siblings`` are the savepoints in the same directory, opened; None: they are
    read. Only its metadata tells which files a renamed or copied sibling uses, as no list has its
    present name; if that metadata cannot be read, the sibling may use any file.

    Raises SavepointNotFound; Corrupt or UnsupportedFormat if its ``_metadata`` or a reference list
    cannot be read, so that its files, or their users, are unknown; the error of a sibling that
    cannot be read and may use its files (nothing is removed in these cases); StorageError.
    """
    savepoint = open_savepoint(path)
    place = _Place.of(savepoint.path if follow else savepoint_directory(path), dry_run, tell, gone)
    if siblings is None:
        siblings = _siblings_of(savepoint.path)
    unknown = unknown_users(savepoint, siblings)
    if unknown:
        raise _may_be_used(savepoint.path, unknown[0])
    with closing(_Files(savepoint)) as files:
        _check_lists(savepoint)
        listed = sharing.users_of(savepoint.path)
        unlisted = _unlisted_users(savepoint.path, listed, siblings, gone)
        for each in unlisted:  # before anything is removed: reading their metadata may fail
            files.mark_used(_held_in(savepoint.path, each))
        foreign = files.mark_listed(_listed(savepoint))
        place.remove([FILE_NAME])
        if not dry_run and storage.is_local(savepoint.path):
            storage.sync_directory(savepoint.path)
        users = sharing.live_users(savepoint.path, time.time(), gone)
        for user in users:
            files.mark_used(sharing.read_references(savepoint.path, user))
        users = tuple(sorted({*users, *(storage.base_name(each.path) for each in unlisted)}))
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
        place.remove(files.present())
        lists = () if users else _list_names(savepoint.path)
        place.remove(lists)
        of_lists = () if users else (f"{sharing.DIRECTORY}/",)
        place.remove_directories(
            chain(files.paths(), of_lists),
            lambda name: name == FILE_NAME or name in lists or files.goes(name),
        )
        for holder in savepoint.holders:
            freed = _release(
                storage.join(storage.parent(savepoint.path), holder),
                storage.base_name(savepoint.path),
                dry_run=dry_run,
                tell=tell,
                gone=gone,
                siblings=siblings,
            )
            result = replace(
                result,
                removed=result.removed + len(freed),
                bytes=result.bytes + files.held_bytes(f"{holder}/{path}" for path in freed),
            )
    if dry_run:
        return result
    return replace(result, gone=not storage.exists(savepoint.path))


def unknown_users(savepoint: OpenSavepoint, siblings: Catalog) -> tuple[Unreadable, ...]:
    """Return the unreadable siblings of a savepoint, any of which may use its files.

    On a local disk each savepoint has its own links, unless the directory was copied from another
    storage. The sign of such a copy is a savepoint that has holders or contains reference lists.
    """
    if not siblings.unreadable:
        return ()
    path = savepoint.path
    if storage.is_local(path) and not savepoint.holders and not sharing.users_of(path):
        return ()
    return siblings.unreadable


def _may_be_used(path: str, user: Unreadable) -> FlinkishError:
    error = user.error
    message = f"{path} is not removed, as {user.path} may use its files: {error.message}"
    hint = f"for {user.path}: {UNKNOWN_HINT}"
    return from_record({**error.to_record(), "message": message, "hint": hint})


def _siblings_of(path: str) -> Catalog:
    """Open the siblings of the savepoint at ``path``."""
    parent = storage.parent(path)
    names = sorted(storage.list_directory(parent).directories)
    others = [storage.join(parent, name) for name in names if name != storage.base_name(path)]
    return read_paths(others, whole=True)


def _unlisted_users(
    holder: str,
    listed: Collection[str],
    siblings: Catalog,
    gone: Collection[str],
    *,
    apart: str | None = None,
) -> tuple[OpenSavepoint, ...]:
    """Return the savepoints whose metadata has files in ``holder``, where they have no list.

    They were renamed or copied. Savepoints named in ``listed``, the savepoint named ``apart``, and
    savepoints that have been disposed of are left out.
    """
    name = storage.base_name(holder)
    return tuple(
        each
        for each in (entry.opened for entry in siblings.own)
        if each is not None
        and name in each.holders
        and storage.base_name(each.path) not in {*listed, apart}
        and sharing.is_whole(each.path, gone)
    )


def _held_in(holder: str, user: OpenSavepoint) -> Iterator[str]:
    """Return the files of ``holder``, relative to it, that the metadata of ``user`` lists."""
    name = storage.base_name(holder)
    held = (record.held for record in user.iter_files() if record.held is not None)
    return (path.partition("/")[2] for path in held if sharing.holder_of(path) == name)


@dataclass(frozen=True)
class _Place:
    """A savepoint's directory to remove from; names are relative to it.

    No link is followed, not even one in the place of the directory itself.
    """

    root: str
    prefix: str
    dry_run: bool
    tell: Tell | None
    gone: Collection[str]

    @staticmethod
    def of(location: str, dry_run: bool, tell: Tell | None, gone: Collection[str]) -> _Place:
        """Return the place at ``location``."""
        return _Place(*storage.prefixed(location), dry_run, tell, gone)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, or report them in a dry run."""
        below = (f"{self.prefix}{name}" for name in names)
        if not self.dry_run:
            storage.remove_files(self.root, below, self._tell)
            return
        for name in below:
            storage.parts_of(self.root, name)
            if storage.join(self.root, name) not in self.gone:
                self._tell(name)

    def remove_directories(
        self, files: Iterable[str], goes: Callable[[str], bool], *, top: bool = True
    ) -> None:
        """Remove the directories of these files if empty; with ``top``, also the topmost.

        For a dry run, ``goes`` returns whether a file would be removed by then.
        """
        inside = directories_of(files) if top else directories_of(files) - {""}
        own = {f"{self.prefix}{each}".rstrip("/") for each in inside} - {""}
        if not self.dry_run:
            storage.remove_empty_directories(self.root, own, self._tell)
            return

        def is_gone(name: str) -> bool:
            inside = name.removeprefix(self.prefix)
            return goes(inside) or storage.join(self.root, name) in self.gone

        for name in storage.plan_empty_directories(self.root, own, is_gone):
            if storage.join(self.root, name) not in self.gone:
                self._tell(name)

    def _tell(self, name: str) -> None:
        if self.tell is not None:
            self.tell(storage.join(self.root, name))


def _check_lists(savepoint: OpenSavepoint) -> None:
    """Raise Corrupt if a list that the disposal needs is damaged, before anything is removed."""
    now = time.time()
    for user in sharing.live_users(savepoint.path, now):
        sharing.read_references(savepoint.path, user)
    name = storage.base_name(savepoint.path)
    for each in savepoint.holders:
        holder = storage.join(storage.parent(savepoint.path), each)
        sharing.read_references(holder, name)
        if not sharing.is_whole(holder):
            for user in sharing.live_users(holder, now):
                sharing.read_references(holder, user)


@dataclass(frozen=True)
class _Counts:
    """Numbers and bytes of the savepoint's own files: to be removed, missing, and kept."""

    present: int
    present_bytes: int
    missing: int
    kept: int
    kept_bytes: int


class _Files:
    """The savepoint's own files, and those that others hold for it, in tables on disk.

    There may be a million, and after the removal of ``_metadata`` nothing else lists them.
    """

    def __init__(self, savepoint: OpenSavepoint) -> None:
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.executescript(
            "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; CREATE TABLE own"
            " (path TEXT PRIMARY KEY, size INTEGER, listed INTEGER, used INTEGER) WITHOUT ROWID;"
            " CREATE TABLE held (path TEXT PRIMARY KEY, size INTEGER) WITHOUT ROWID;"
        )
        held = ((each.held, each.size) for each in savepoint.iter_files() if each.held is not None)
        if savepoint.holders:
            self._db.executemany("INSERT OR REPLACE INTO held VALUES (?, ?)", held)
        rows = (
            (f"{savepoint.queries[record.query].directory}/{record.path}", record.size)
            for record in savepoint.iter_files()
            if record.held is None
        )
        while some := list(islice(rows, _ROWS)):
            for path, _ in some:
                storage.parts_of(savepoint.path, path)  # before anything is removed
            self._db.executemany("INSERT OR REPLACE INTO own VALUES (?, ?, 0, 0)", some)

    def close(self) -> None:
        """Close the database, which removes the tables."""
        self._db.close()

    def mark_used(self, paths: Iterable[str]) -> None:
        """Mark files that another savepoint uses."""
        self._db.executemany("UPDATE own SET used = 1 WHERE path = ?", ((p,) for p in paths))

    def mark_listed(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Mark files that are in the directory; return those that are not the savepoint's own."""
        foreign = []
        for path in paths:
            if not _is_text(path):  # neither flinkish nor Spark creates such names
                foreign.append(path)
                continue
            cursor = self._db.execute("UPDATE own SET listed = 1 WHERE path = ?", (path,))
            if not cursor.rowcount and path != FILE_NAME and not _is_reference(path):
                foreign.append(path)
        return tuple(sorted(foreign))

    def counts(self) -> _Counts:
        """Count the files of each kind."""
        goes, stays = "listed AND NOT used", "listed AND used"
        row = self._db.execute(
            f"SELECT total({goes}), total(CASE WHEN {goes} THEN size ELSE 0 END),"
            f" total(NOT listed), total({stays}), total(CASE WHEN {stays} THEN size ELSE 0 END)"
            " FROM own"
        ).fetchone()
        return _Counts(*(int(value) for value in row))

    def held_bytes(self, paths: Iterable[str]) -> int:
        """Return the size of files that others hold; paths are relative to the parent directory."""
        query = "SELECT total(size) FROM held WHERE path = ?"
        return sum(int(self._db.execute(query, (path,)).fetchone()[0]) for path in paths)

    def present(self) -> Iterator[str]:
        """Return the paths of the files to remove."""
        return self._paths("WHERE listed AND NOT used")

    def goes(self, path: str) -> bool:
        """Return whether a file is to be removed."""
        query = "SELECT 1 FROM own WHERE path = ? AND listed AND NOT used"
        return self._db.execute(query, (path,)).fetchone() is not None

    def paths(self) -> Iterator[str]:
        """Return the paths of all own files."""
        return self._paths("")

    def _paths(self, where: str) -> Iterator[str]:
        cursor = self._db.execute(f"SELECT path FROM own {where}")
        while rows := cursor.fetchmany(_ROWS):
            yield from (row[0] for row in rows)


def release_holder(holder: str, user: str) -> None:
    """Remove the list of a vanished ``user``, and the files of ``holder`` that only it used.

    A complete holder loses no files. Raises Corrupt if a list is damaged (nothing is removed), and
    StorageError.
    """
    _release(holder, user, dry_run=False, tell=None, gone=(), siblings=None)


def _release(
    holder: str,
    user: str,
    *,
    dry_run: bool,
    tell: Tell | None,
    gone: Collection[str],
    siblings: Catalog | None,
) -> Collection[str]:
    """Release the files that ``user`` has in ``holder``; return those that are removed."""
    place = _Place.of(holder, dry_run, tell, gone)
    mine = set(sharing.read_references(holder, user))
    own_list = f"{sharing.DIRECTORY}/{user}"
    gone = {*gone, sharing.list_of(holder, user)}
    whole = sharing.is_whole(holder, gone)
    others = sharing.live_users(holder, time.time(), gone)
    if not whole:  # report damaged lists before anything is removed
        for other in others:
            sharing.read_references(holder, other)
    if not dry_run or own_list in _list_names(holder):
        place.remove([own_list])
    if not dry_run:
        # Check again: a user that arrives from now on sees that the holder is not whole.
        whole = sharing.is_whole(holder)
        others = sharing.live_users(holder, time.time(), gone)
    going = {own_list}
    if not whole:
        used = {path for other in others for path in sharing.read_references(holder, other)}
        if siblings is None:
            siblings = _siblings_of(holder)
        unlisted = _unlisted_users(holder, others, siblings, gone, apart=user)
        used.update(path for each in unlisted for path in _held_in(holder, each))
        free = set() if siblings.unreadable else mine - used  # the rest is garbage later
        lists = () if others or unlisted or siblings.unreadable else _list_names(holder)
        place.remove(sorted(free))
        place.remove(name for name in lists if name != own_list)
        going |= {*free, *lists}
        place.remove_directories([own_list, *mine], going.__contains__)
        return free
    place.remove_directories([own_list], going.__contains__, top=False)
    return ()


def _list_names(holder: str) -> tuple[str, ...]:
    """Return the names of the reference lists in a directory, relative to it."""
    return tuple(f"{sharing.DIRECTORY}/{user}" for user in sharing.users_of(holder))


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_reference(path: str) -> bool:
    return path.startswith(f"{sharing.DIRECTORY}/")


def _listed(savepoint: OpenSavepoint) -> Iterator[str]:
    """Return every file in the savepoint's directory; on local storage also hidden ones."""
    if storage.is_local(savepoint.path):
        return _walk_all(savepoint.path)
    return (path for path, _ in storage.walk_files(savepoint.path))


def _walk_all(root: str) -> Iterator[str]:
    def refused(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise storage.storage_error("list", error.filename or root, error) from error

    for directory, directories, names in os.walk(root, onerror=refused):
        relative = os.path.relpath(directory, root)
        links = [n for n in directories if os.path.islink(os.path.join(directory, n))]
        for name in [*names, *links]:
            yield name if relative == "." else f"{relative}/{name}"


def directories_of(files: Iterable[str]) -> set[str]:
    """Return all directories above files, relative like the files; "" is the topmost."""
    directories = {""}
    for name in files:
        parent = name.rpartition("/")[0]
        while parent not in directories:
            directories.add(parent)
            parent = parent.rpartition("/")[0]
    return directories
