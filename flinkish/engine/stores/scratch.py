"""Creation and removal of the engine's own directories on the local disk."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile


def make_scratch(prefix: str = "state-", parent: str | None = None) -> str:
    """Create a directory that only this user can enter, and return its path.

    If ``parent`` is None, it is created in the system's temporary directory.
    """
    return tempfile.mkdtemp(prefix=prefix, dir=parent)


def remove_scratch(directory: str) -> None:
    """Remove a directory of :func:`make_scratch` as far as possible, without following links."""
    shutil.rmtree(directory, ignore_errors=True)


def remove_below(root: str, path: str) -> None:
    """Remove a file, or a directory with its content, below ``root``, if it exists.

    No link is followed: a link to a directory is removed itself.

    Raises
    ------
    ValueError
        The path is absolute, has dots or empty parts, or goes through a link.
    """
    parts = path.split("/")
    if "\0" in path or not {"", ".", ".."}.isdisjoint(parts):
        raise ValueError(f"{path!r} is no path below {root}")
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return
    try:
        for part in parts[:-1]:
            try:
                inside = os.open(
                    part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor
                )
            except FileNotFoundError:
                return
            except NotADirectoryError as error:
                raise ValueError(f"{path!r} leads through {part!r}, no directory") from error
            os.close(descriptor)
            descriptor = inside
        _remove_entry(descriptor, parts[-1])
    finally:
        os.close(descriptor)


def _remove_entry(directory: int, name: str) -> None:
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(name, dir_fd=directory)
        return
    inside = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory)
    try:
        for entry in os.listdir(inside):
            _remove_entry(inside, entry)
    finally:
        os.close(inside)
    os.rmdir(name, dir_fd=directory)
