"""Directory trees on any storage, which state is read from and written to.

Spark's workers receive such objects, so they must be picklable. They must not hold credentials that
the workers do not have anyway.
"""

from __future__ import annotations

import os
from typing import BinaryIO, Protocol

from flinkish.engine.bounds import MAX_SMALL, read_up_to
from flinkish.engine.errors import StateFormatError
from flinkish.storage.deletion import remove_tree
from flinkish.storage.directory import StorageDirectory
from flinkish.storage.errors import NotRegular


class StateSource(Protocol):
    """Files below a root. Paths are relative to it, with slashes."""

    def names(self, path: str) -> list[str]:
        """Return the names of the files and directories in a directory; [] if it does not exist."""
        ...

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading; raise FileNotFoundError if it does not exist."""
        ...

    def local_path(self, path: str) -> str | None:
        """Return the file's path on this machine, or None if it has none."""
        ...


class StateTarget(StateSource, Protocol):
    """A source that can be written to."""

    def create(self, path: str) -> BinaryIO:
        """Create or replace a file, and create its directories. Closing the file completes it."""
        ...

    def move(self, path: str, target: str) -> None:
        """Move a file, or a directory with its content; the target must not exist."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with its content; do nothing if it does not exist."""
        ...


class LocalDirectory(StorageDirectory):
    """A directory that all workers reach by the same path, which may be a relative one."""

    def _at(self, path: str) -> str:
        return StorageDirectory(os.path.abspath(self.root))._at(path)

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with its content; do nothing if it does not exist."""
        remove_tree(os.path.abspath(self.root), path)


def read_bytes(source: StateSource, path: str) -> bytes:
    """Return the content of a small file.

    Raises FileNotFoundError, and StateFormatError if the file is not a regular file or has more
    than ``MAX_SMALL`` bytes.
    """
    try:
        with source.open(path) as file:
            data = read_up_to(file, MAX_SMALL)
    except (NotRegular, IsADirectoryError) as error:
        raise StateFormatError(path, None, "it is not a regular file") from error
    if data is None:
        raise StateFormatError(path, None, f"it has more than {MAX_SMALL} bytes")
    return data
