"""Disposing of a savepoint: its own files go, anything else in the directory stays."""

from __future__ import annotations

import os
from dataclasses import dataclass

from flinkish.savepoint import storage
from flinkish.savepoint.metadata import FILE_NAME
from flinkish.savepoint.reader import Savepoint, open_savepoint


@dataclass(frozen=True)
class Disposed:
    """What :func:`dispose` did; ``foreign`` are relative paths that were left where they are."""

    path: str
    removed: int
    missing: int
    bytes: int
    foreign: tuple[str, ...]
    #: True when the savepoint's directory itself is gone.
    gone: bool


def dispose(path: str, *, dry_run: bool = False) -> Disposed:
    """Delete the savepoint at ``path`` (its directory or ``_metadata`` file).

    ``_metadata`` goes first, so that an interrupted disposal leaves no half savepoint that opens.
    Then the files it lists and the directories left empty. Files it does not list stay, and are
    returned. With ``dry_run`` nothing is touched.

    Raises SavepointNotFound for anything that is no savepoint, Corrupt or UnsupportedFormat when
    its ``_metadata`` cannot be read (then nobody knows which files are its own), StorageError.
    """
    savepoint = open_savepoint(path)
    own = [
        f"{savepoint.queries[record.query].directory}/{record.path}"
        for record in savepoint.iter_files()
    ]
    foreign = _foreign(savepoint, {FILE_NAME, *own})
    if dry_run:
        present = sum(os.path.lexists(os.path.join(savepoint.path, name)) for name in own)
        return Disposed(
            savepoint.path, present + 1, len(own) - present, savepoint.bytes, foreign, False
        )
    storage.remove_file(os.path.join(savepoint.path, FILE_NAME))
    storage.sync_directory(savepoint.path)
    removed = sum(storage.remove_file(os.path.join(savepoint.path, name)) for name in own)
    storage.remove_empty_directories(_directories(savepoint.path, own))
    return Disposed(
        savepoint.path,
        removed + 1,
        len(own) - removed,
        savepoint.bytes,
        foreign,
        not os.path.lexists(savepoint.path),
    )


def _directories(root: str, own: list[str]) -> set[str]:
    """The savepoint's directory and every directory its files lie in, however deep."""
    found = {root}
    for name in own:
        parent = os.path.dirname(name)
        while parent and os.path.join(root, parent) not in found:
            found.add(os.path.join(root, parent))
            parent = os.path.dirname(parent)
    return found


def _foreign(savepoint: Savepoint, own: set[str]) -> tuple[str, ...]:
    found: list[str] = []
    for directory, directories, names in os.walk(savepoint.path):
        relative = os.path.relpath(directory, savepoint.path)
        links = [n for n in directories if os.path.islink(os.path.join(directory, n))]
        for name in [*names, *links]:
            inside = name if relative == "." else f"{relative}/{name}"
            if inside not in own:
                found.append(inside)
    return tuple(sorted(found))
