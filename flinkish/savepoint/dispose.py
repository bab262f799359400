"""Disposing of a savepoint: its own files go, anything else in the directory stays."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from flinkish import storage
from flinkish.savepoint import sharing
from flinkish.savepoint.metadata import FILE_NAME
from flinkish.savepoint.reader import Savepoint, open_savepoint


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
    own: dict[str, int] = {}
    held: list[str] = []
    for record in savepoint.iter_files():
        if record.held is None:
            own[f"{savepoint.queries[record.query].directory}/{record.path}"] = record.size
        else:
            held.append(record.held)
    if not dry_run:
        storage.remove_file(storage.join(savepoint.path, FILE_NAME))
        if storage.is_local(savepoint.path):
            storage.sync_directory(savepoint.path)
    users = sharing.live_users(savepoint.path, time.time())
    used = {p for user in users for p in sharing.read_references(savepoint.path, user)}
    listed = dict(_listed(savepoint))
    foreign = tuple(
        sorted(n for n in listed if n not in own and n != FILE_NAME and not _is_reference(n))
    )
    present = [name for name in own if name in listed and name not in used]
    kept = [name for name in own if name in used]
    result = Disposed(
        path=savepoint.path,
        removed=len(present) + 1,
        missing=sum(name not in listed for name in own),
        bytes=sum(own[name] for name in present),
        foreign=foreign,
        gone=False,
        kept=len(kept),
        kept_bytes=sum(own[name] for name in kept),
        users=users,
    )
    if dry_run:
        return result
    storage.remove_files(storage.join(savepoint.path, name) for name in present)
    if not users:
        _remove_references(savepoint.path)
    storage.remove_empty_directories(directories_of(savepoint.path, own))
    _give_back(savepoint, held)
    gone = not storage.exists(savepoint.path)
    return Disposed(**{**vars(result), "gone": gone})


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


def _give_back(savepoint: Savepoint, held: list[str]) -> None:
    parent, name = storage.parent(savepoint.path), storage.base_name(savepoint.path)
    for holder in sorted({sharing.holder_of(path) for path in held}):
        release_holder(storage.join(parent, holder), name)


def _remove_references(holder: str) -> None:
    directory = storage.join(holder, sharing.DIRECTORY)
    storage.remove_files(storage.join(directory, name) for name in sharing.users_of(holder))
    storage.remove_empty_directories([directory])


def _is_reference(path: str) -> bool:
    return path.startswith(f"{sharing.DIRECTORY}/")


def _listed(savepoint: Savepoint) -> Iterator[tuple[str, None]]:
    """Every file in the savepoint's directory, hidden ones too where it is local."""
    if storage.is_local(savepoint.path):
        yield from ((path, None) for path in _walk_all(savepoint.path))
        return
    yield from ((path, None) for path, _ in storage.walk_files(savepoint.path))


def _walk_all(root: str) -> Iterator[str]:
    import os

    for directory, directories, names in os.walk(root):
        relative = os.path.relpath(directory, root)
        links = [n for n in directories if os.path.islink(os.path.join(directory, n))]
        for name in [*names, *links]:
            yield name if relative == "." else f"{relative}/{name}"


def directories_of(root: str, files: Collection[str]) -> set[str]:
    """The savepoint's directory and every directory its files lie in, however deep."""
    found = {root}
    for name in files:
        parent = name.rpartition("/")[0]
        while parent and storage.join(root, parent) not in found:
            found.add(storage.join(root, parent))
            parent = parent.rpartition("/")[0]
    return found
