"""The entries of one directory, in the same form for every kind of storage."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from flinkish.storage.errors import storage_error


class FileEntry(Protocol):
    """A listed file. Facts that need another request (a local ``stat``) are fetched only on use.

    The methods of a local entry raise FileNotFoundError if the file no longer exists.
    """

    def size(self) -> int:
        """Return the size in bytes."""

    def modified(self) -> float:
        """Return when it was written, in seconds since the epoch; 0.0 if unknown.

        The time is that of the storage's clock.
        """

    def changed(self) -> float:
        """Return when it was last written, or, in the local file system, renamed or linked."""

    def stamp(self) -> str:
        """Return a string that changes when the file is replaced: ETag, inode-time or time-size."""


@dataclass(frozen=True)
class LocalEntry:
    """A file of the local file system; with ``follow``, a link stands for its target."""

    entry: os.DirEntry[str]
    follow: bool = True

    def _stat(self) -> os.stat_result:
        try:
            return self.entry.stat(follow_symlinks=self.follow)
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno == errno.ELOOP:  # a circular link has no target
                raise FileNotFoundError(errno.ENOENT, "No such file", self.entry.path) from error
            raise storage_error("read", self.entry.path, error) from error

    def size(self) -> int:
        return self._stat().st_size

    def modified(self) -> float:
        return self._stat().st_mtime

    def changed(self) -> float:
        return self._stat().st_ctime

    def stamp(self) -> str:
        return local_stamp(self._stat())


def local_stamp(stat: os.stat_result) -> str:
    """Return the stamp of a local file. A hard link has the stamp of its original."""
    return f"{stat.st_ino}-{stat.st_mtime_ns}"


@dataclass(frozen=True)
class RemoteEntry:
    """A file of a remote store, as the store listed it."""

    bytes: int
    time: float
    tag: str

    def size(self) -> int:
        return self.bytes

    def modified(self) -> float:
        return self.time

    def changed(self) -> float:
        return self.time

    def stamp(self) -> str:
        return self.tag


@dataclass(frozen=True)
class Listing:
    """The entries of one directory, as a rule without the hidden ones (``.x.crc``, ``.x.tmp``)."""

    path: str
    files: Mapping[str, FileEntry] = field(default_factory=dict)
    directories: tuple[str, ...] = ()

    def size(self, name: str) -> int:
        """Return the size of a listed file in bytes; raise FileNotFoundError if it is gone."""
        return self.files[name].size()

    def size_if_there(self, name: str) -> int | None:
        """Return the size of a file in bytes; None if it is not listed, or gone since."""
        try:
            return self.size(name) if name in self.files else None
        except FileNotFoundError:
            return None

    def modified(self, name: str) -> float:
        """Return when a listed file was written, in seconds since the epoch (0.0 if unknown)."""
        return self.files[name].modified()

    def stamp(self, name: str) -> str:
        """Return a string that changes when the listed file is replaced."""
        return self.files[name].stamp()


def remote_entry(info: Mapping[str, Any]) -> RemoteEntry:
    """Convert an info record of any fsspec file system into an entry. Pure."""
    size = int(info.get("size") or info.get("length") or 0)
    time = _modified(info)
    tag = str(info.get("ETag") or info.get("etag") or f"{time:.3f}-{size}").strip('"')
    return RemoteEntry(size, time, tag)


#: Keys under which fsspec's file systems report the modification time.
_TIMES = (
    *("LastModified", "last_modified", "modification_time", "modificationTime", "mtime"),
    *("updated", "modified", "created"),
)


def _modified(info: Mapping[str, Any]) -> float:
    for name in _TIMES:
        value = info.get(name)
        if isinstance(value, str):  # Google's listings: 2026-01-15T08:00:00.123Z
            with suppress(ValueError):
                value = datetime.fromisoformat(value.replace("Z", "+00:00"))
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, int | float):
            return value / 1000 if value > 1e11 else float(value)  # Hadoop counts milliseconds
    return 0.0
