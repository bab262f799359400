"""A directory tree on any storage as an object, which may be sent to other processes.

The object holds no credentials: each process connects to the storage by its own environment.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import IO, Any, BinaryIO, cast

from flinkish import storage
from flinkish.annotations import public_evolving
from flinkish.storage.placing import place


@public_evolving
@dataclass(frozen=True)
class StorageDirectory:
    """A directory at ``root``; paths are relative to it, with slashes, and cannot leave it."""

    root: str

    def _at(self, path: str) -> str:
        """Return the location of a path; UnsafePath if it is not below the root."""
        parts = storage.parts_of(self.root, path.rstrip("/")) if path else ()
        return storage.join(self.root, *parts)

    def names(self, path: str) -> list[str]:
        """Return the names of the files and directories in a directory; [] if it does not exist."""
        try:
            return sorted(storage.list_names(self._at(path)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading; raise FileNotFoundError if it does not exist."""
        return storage.open_file(self._at(path))

    def local_path(self, path: str) -> str | None:
        """Return the file's path on this machine, or None if it has none."""
        location = self._at(path)
        return location if storage.is_local(location) else None

    def create(self, path: str) -> BinaryIO:
        """Create or replace a file, and create its directories. Closing the file completes it."""
        location = self._at(path)
        storage.make_directory(storage.parent(location))
        if storage.is_local(location):
            return open(location, "wb")
        return cast("BinaryIO", _Upload(location))

    def move(self, path: str, target: str) -> None:
        """Move a file, or a directory with its content; the target must not exist."""
        old, new = self._at(path), self._at(target)
        storage.make_directory(storage.parent(new))
        if storage.is_local(old):
            os.rename(old, new)
            return
        if not storage.is_directory(old):
            place(old, new)
            storage.remove_file(self.root, path)
            return
        for name, _ in list(storage.walk_files(old)):
            goal = storage.join(new, name)
            storage.make_directory(storage.parent(goal))
            place(storage.join(old, name), goal)
        storage.remove_tree(self.root, path)

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with its content; do nothing if it does not exist."""
        storage.remove_tree(self.root, path)


class _Upload:
    """A file written locally, which is uploaded when it is closed without an error."""

    def __init__(self, location: str) -> None:
        self._location = location
        descriptor, self._path = tempfile.mkstemp(prefix="flinkish-state-")
        self._file: IO[bytes] = os.fdopen(descriptor, "wb")

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def close(self) -> None:
        if self._file.closed:
            return
        try:
            self._file.close()
            place(self._path, self._location)
        finally:
            storage.remove_file(*storage.split(self._path))

    def __enter__(self) -> _Upload:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._file.close()
            storage.remove_file(*storage.split(self._path))
