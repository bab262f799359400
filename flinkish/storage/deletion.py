"""Deleting: the one module of flinkish that removes files and directories.

Everything here takes (root, name below it); names that leave the root are refused before anything
is touched, see :mod:`flinkish.storage.below`. No link is followed: neither on the way to a name nor
in a tree, where the link itself goes as one of its entries. ``tell`` is called with the name, below
the root, of each thing that is gone now; :func:`plan_tree` gives the same names beforehand.

Names of directories end with a slash in plans and for ``tell``.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from flinkish.storage.below import LocalRoot, enter, parts_of
from flinkish.storage.errors import storage_error
from flinkish.storage.locations import is_local, join

if TYPE_CHECKING:
    from flinkish.storage.remote import RemoteStore

Tell = Callable[[str], object]
#: How deep a tree may be; what is deeper stays, and :func:`remove_tree` says that not all is gone.
MAX_DEPTH = 200
_STAYS = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR})


def remove_file(root: str, name: str, tell: Tell | None = None) -> bool:
    """Remove one file, or a link; False when it was not there (S3 does not say).

    Raises UnsafePath, StorageError.
    """
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
    """Remove many files; those that are not there do not matter (S3 does not say which).

    Raises UnsafePath at the first name that is refused, StorageError.
    """
    if is_local(root):
        with LocalRoot(root) as place:
            for name in names:
                if _unlink(place, parts_of(root, name)) and tell is not None:
                    tell(name)
        return

    def locations() -> Iterator[str]:
        for name in names:
            parts_of(root, name)
            yield join(root, name)
            if tell is not None:
                tell(name)

    _store(root).delete_files(locations())


def remove_tree(root: str, name: str, tell: Tell | None = None) -> bool:
    """Remove a directory and all below it, or what else has that name; True when nothing is left.

    What the local file system refuses to remove stays. Raises UnsafePath, StorageError.
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
    """What :func:`remove_tree` is going to remove, in its order.

    Raises UnsafePath, StorageError.
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
    """Remove those directories that are empty, deepest first; the others stay.

    Raises UnsafePath, StorageError.
    """
    found = sorted({parts_of(root, name) for name in names}, key=lambda parts: (-len(parts), parts))
    if not found:
        return
    if not is_local(root):
        for parts in found:
            if _store(root).delete_directory(join(root, *parts)) and tell is not None:
                tell("/".join(parts) + "/")
        return
    with LocalRoot(root) as place:
        for parts in found:
            if _rmdir(place, parts) and tell is not None:
                tell("/".join(parts) + "/")


def plan_empty_directories(
    root: str, names: Iterable[str], goes: Callable[[str], bool]
) -> Iterator[str]:
    """What :func:`remove_empty_directories` is going to remove once all that ``goes`` is gone.

    ``goes`` is asked for names of files below the root. Raises UnsafePath, StorageError.
    """
    found = sorted({parts_of(root, name) for name in names}, key=lambda parts: (-len(parts), parts))
    going: set[str] = set()
    place = LocalRoot(root) if is_local(root) else None
    try:
        for parts in found:
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
    """All names in a directory; None when it is not there or cannot be listed."""
    directory = place.directory(parts[:-1])
    try:
        inside = None if directory is None else enter(directory, parts[-1], listed=True)
    except OSError:
        return None
    if inside is None:
        return None
    try:
        return os.listdir(inside)
    finally:
        os.close(inside)


def _store(root: str) -> RemoteStore:
    from flinkish.storage.remote import store_of

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


def _visit(directory: int, entry: str, name: str, *, remove: bool, depth: int = 0) -> Iterator[str]:
    """Names of an entry of a directory and of all below it, removed or to be removed."""
    try:
        inside = enter(directory, entry, listed=True)
    except OSError:
        return  # it cannot be looked into, so it stays
    if inside is None:
        # A file, a link (also one that has taken a directory's place just now), or nothing.
        with suppress(OSError):
            if remove:
                os.unlink(entry, dir_fd=directory)
            else:
                os.stat(entry, dir_fd=directory, follow_symlinks=False)
            yield name
        return
    try:
        if depth < MAX_DEPTH:
            for below in sorted(os.listdir(inside)):
                yield from _visit(inside, below, f"{name}/{below}", remove=remove, depth=depth + 1)
    finally:
        os.close(inside)
    with suppress(OSError):
        if remove:
            os.rmdir(entry, dir_fd=directory)
        yield f"{name}/"


def _is_there(directory: int, entry: str) -> bool:
    try:
        os.stat(entry, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    return True
