"""One directory's entries, the same for every kind of storage."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol


class FileEntry(Protocol):
    """A listed file. What needs a further look (a local ``stat``) is asked for only when used.

    All raise FileNotFoundError when the file is gone by now.
    """

    def size(self) -> int:
        """Its size in bytes."""

    def modified(self) -> float:
        """When it was written, seconds since the epoch by the storage's clock; 0.0: unknown."""

    def stamp(self) -> str:
        """Changes when the file is replaced: an ETag, or inode and time."""


@dataclass(frozen=True)
class LocalEntry:
    """A file of the local file system; ``follow``: where it is a link, what that leads to."""

    entry: os.DirEntry[str]
    follow: bool = True

    def _stat(self) -> os.stat_result:
        try:
            return self.entry.stat(follow_symlinks=self.follow)
        except OSError as error:
            if error.errno == errno.ELOOP:  # a link in a circle leads nowhere
                raise FileNotFoundError(errno.ENOENT, "No such file", self.entry.path) from error
            raise

    def size(self) -> int:
        """See :class:`FileEntry`."""
        return self._stat().st_size

    def modified(self) -> float:
        """See :class:`FileEntry`."""
        return self._stat().st_mtime

    def stamp(self) -> str:
        """See :class:`FileEntry`."""
        return local_stamp(self._stat())


def local_stamp(stat: os.stat_result) -> str:
    """The stamp of a local file. A hard link has that of its original."""
    return f"{stat.st_ino}-{stat.st_mtime_ns}"


@dataclass(frozen=True)
class RemoteEntry:
    """A file of a remote store, as its listing told it."""

    bytes: int
    time: float
    tag: str

    def size(self) -> int:
        """See :class:`FileEntry`."""
        return self.bytes

    def modified(self) -> float:
        """See :class:`FileEntry`."""
        return self.time

    def stamp(self) -> str:
        """See :class:`FileEntry`."""
        return self.tag


@dataclass(frozen=True)
class Listing:
    """One directory's entries, hidden ones left out (Hadoop's ``.x.crc``, ``.x.<uuid>.tmp``)."""

    path: str
    files: Mapping[str, FileEntry] = field(default_factory=dict)
    directories: tuple[str, ...] = ()

    def size(self, name: str) -> int:
        """Size of a listed file in bytes; FileNotFoundError when it is gone by now."""
        return self.files[name].size()

    def modified(self, name: str) -> float:
        """When a listed file was written, seconds since the epoch."""
        return self.files[name].modified()

    def stamp(self, name: str) -> str:
        """What changes when a listed file is replaced."""
        return self.files[name].stamp()


def remote_entry(info: Mapping[str, Any]) -> RemoteEntry:
    """The entry that an answer of fsspec describes, whichever of its file systems gave it. Pure."""
    size = int(info.get("size") or info.get("length") or 0)
    time = _modified(info)
    tag = str(info.get("ETag") or info.get("etag") or f"{time:.3f}-{size}").strip('"')
    return RemoteEntry(size, time, tag)


#: Under which names fsspec's file systems tell when a file was written.
_TIMES = ("LastModified", "modification_time", "modificationTime", "mtime", "modified", "created")


def _modified(info: Mapping[str, Any]) -> float:
    for name in _TIMES:
        value = info.get(name)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, int | float):
            return value / 1000 if value > 1e11 else float(value)  # Hadoop counts milliseconds
    return 0.0
