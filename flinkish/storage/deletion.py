"""Deletion of files and directories by name; other modules remove only their temporary files.

All functions take a root and a name below it. A name that leaves the root is refused before that
name is touched, see :mod:`.below`. No link is followed: neither on the way to a name nor inside a
tree, where the link itself is removed as an entry. ``tell`` is called with the name, relative to
the root, of each removed entry; on remote storage :func:`remove_files` also names files that did
not exist. ``plan_tree`` and ``plan_empty_directories`` yield the names in advance.

Names of directories end with a slash in plans and in calls to ``tell``.
"""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING

from flinkish.storage.below import LocalRoot, enter, parts_of
from flinkish.storage.errors import storage_error
from flinkish.storage.locations import is_local, join

if TYPE_CHECKING:
    from flinkish.storage.remote import RemoteStore

Tell = Callable[[str], object]
#: Maximum depth of a local tree. Deeper entries stay, and :func:`remove_tree` then returns False.
MAX_DEPTH = 200
#: Number of files that are removed from a remote store together, before ``tell`` is called.
_BATCH = 1000
_STAYS = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR})


def remove_file(root: str, name: str, tell: Tell | None = None) -> bool:
    """Remove one file or link; return False if it did not exist (S3: always True)."""
    parts = parts_of(root, name)
    if is_local(root):
        with LocalRoot(root) as place:
            removed = _unlink(place, parts)
    else:
        removed = _store(root).delete_file(join(root, name))
    if removed and tell is not None:
        tell(name)
    return removed


def remove_files(root: str, names: Iterable[str], tell: Tell | None = None) -> None:
    """Remove many files and ignore those that do not exist (S3 does not report which).

    UnsafePath is raised at the first refused name, when earlier files may be removed already.
    """
    if is_local(root):
        with LocalRoot(root) as place:
            for name in names:
                if _unlink(place, parts_of(root, name)) and tell is not None:
                    tell(name)
        return
    rest = iter(names)
    while batch := list(itertools.islice(rest, _BATCH)):
        for name in batch:
            parts_of(root, name)
        _store(root).delete_files(join(root, name) for name in batch)
        if tell is not None:
            for name in batch:
                tell(name)


def remove_tree(root: str, name: str, tell: Tell | None = None) -> bool:
    """Remove a directory with its content, or any other entry; return whether nothing is left.

    Local entries stay if the file system refuses to remove them, or below :data:`MAX_DEPTH`.
    """
    parts = parts_of(root, name)
    if not is_local(root):
        return _store(root).delete_tree(root, name, tell)
    with LocalRoot(root) as place:
        directory = place.directory(parts[:-1])
        if directory is None:
            return True
        for removed in _visit(directory, parts[-1], name, remove=True):
            if tell is not None:
                tell(removed)
        return not _is_there(directory, parts[-1])


def plan_tree(root: str, name: str) -> Iterator[str]:
    """Yield the names that :func:`remove_tree` would remove, in its order.

    An entry is also yielded if the storage will refuse to remove it. Raises UnsafePath as that
    function does, and StorageError if the storage cannot be read.
    """
    parts = parts_of(root, name)
    if not is_local(root):
        yield from _store(root).find_all(root, name)
        return
    with LocalRoot(root) as place:
        directory = place.directory(parts[:-1])
        if directory is not None:
            yield from _visit(directory, parts[-1], name, remove=False)


def remove_empty_directories(root: str, names: Iterable[str], tell: Tell | None = None) -> None:
    """Remove the named directories that are empty, deepest first; the others stay.

    If a name itself is unsafe (UnsafePath), nothing is removed. A link on the way to a directory is
    found only at that directory's turn, when earlier directories may be removed already.
    """
    directories = sorted(
        {parts_of(root, name) for name in names}, key=lambda parts: (-len(parts), parts)
    )
    if not directories:
        return
    if not is_local(root):
        for parts in directories:
            if _store(root).delete_directory(join(root, *parts)) and tell is not None:
                tell("/".join(parts) + "/")
        return
    with LocalRoot(root) as place:
        for parts in directories:
            if _rmdir(place, parts) and tell is not None:
                tell("/".join(parts) + "/")


def plan_empty_directories(
    root: str, names: Iterable[str], goes: Callable[[str], bool]
) -> Iterator[str]:
    """Yield the directories that :func:`remove_empty_directories` would remove later.

    Assumes that the files whose names, relative to the root, satisfy ``goes`` are removed first.
    Raises UnsafePath as that function does, and StorageError if the storage cannot be read.
    """
    directories = sorted(
        {parts_of(root, name) for name in names}, key=lambda parts: (-len(parts), parts)
    )
    going: set[str] = set()
    place = LocalRoot(root) if is_local(root) else None
    try:
        for parts in directories:
            name = "/".join(parts)
            there = _names(place, parts) if place else _store(root).all_names(join(root, *parts))
            if there is None:
                continue
            inside = [f"{name}/{each}" for each in there]
            if all(each in going or goes(each) for each in inside):
                going.add(name)
                yield f"{name}/"
    finally:
        if place is not None:
            place.close()


def _names(place: LocalRoot, parts: tuple[str, ...]) -> list[str] | None:
    """Return all names in a directory; None if it is absent or cannot be listed."""
    directory = place.directory(parts[:-1])
    try:
        inside = None if directory is None else enter(directory, parts[-1], listed=True)
    except OSError:
        return None
    if inside is None:
        return None
    try:
        return os.listdir(inside)
    except OSError:
        return None
    finally:
        os.close(inside)


def _store(root: str) -> RemoteStore:
    from flinkish.storage.stores import store_of

    return store_of(root)


def _unlink(place: LocalRoot, parts: tuple[str, ...]) -> bool:
    directory = place.directory(parts[:-1])
    if directory is None:
        return False
    try:
        os.unlink(parts[-1], dir_fd=directory)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise storage_error("remove", join(place.path, *parts), error) from error
    return True


def _rmdir(place: LocalRoot, parts: tuple[str, ...]) -> bool:
    directory = place.directory(parts[:-1])
    if directory is None:
        return False
    try:
        os.rmdir(parts[-1], dir_fd=directory)
    except OSError as error:
        if error.errno in _STAYS:
            return False
        raise storage_error("remove", join(place.path, *parts), error) from error
    return True


def _visit(
    directory: int, entry: str, name: str, *, remove: bool, depth: int = 0
) -> Generator[str, None, bool]:
    """Yield the names of an entry and of everything below it; remove them if ``remove`` is set.

    What stays is not yielded. Returns whether the entry is gone, or would be.
    """
    try:
        inside = enter(directory, entry, listed=True)
        if inside is None:
            # A file, a link (possibly one that has just replaced a directory), or nothing.
            if remove:
                os.unlink(entry, dir_fd=directory)
            else:
                os.stat(entry, dir_fd=directory, follow_symlinks=False)
            yield name
            return True
        gone = True
        try:
            for below in sorted(os.listdir(inside)):
                if depth >= MAX_DEPTH:
                    gone = False
                    break
                path = f"{name}/{below}"
                gone &= yield from _visit(inside, below, path, remove=remove, depth=depth + 1)
        finally:
            os.close(inside)
        if gone and remove:
            os.rmdir(entry, dir_fd=directory)
    except FileNotFoundError:
        return True
    except OSError:
        return False  # it cannot be opened, listed or removed, so it stays
    if gone:
        yield f"{name}/"
    return gone


def _is_there(directory: int, entry: str) -> bool:
    try:
        os.stat(entry, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError:
        pass  # unknown, so the entry counts as present
    return True
