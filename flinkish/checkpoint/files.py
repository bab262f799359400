"""Reading access to a checkpoint's files: the only place of this package that touches a disk.

Local paths only for now (a plain path, ``file:/p``, ``file:///p``). One listing a directory, no
stat of a file nobody asked for. A file that is not there raises ``FileNotFoundError`` (the callers
know whether Spark trimmed it); every other trouble is a :class:`~flinkish.errors.StorageError`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from flinkish.errors import StorageError

#: Schemes that mean the local file system.
_LOCAL = "file"


def local_path(location: str) -> str:
    """The absolute local path of ``location``.

    Accepts a plain path (relative ones are taken from the working directory), ``file:/path`` and
    ``file:///path``; raises StorageError for any other scheme or a host part.
    """
    scheme, colon, rest = location.partition(":")
    # A scheme has letters, digits, + - . and starts with a letter; "./a:b" is a path.
    if not colon or not scheme[:1].isalpha() or not _is_scheme(scheme):
        return os.path.abspath(os.path.expanduser(location))
    if scheme.lower() == _LOCAL and rest.startswith("/"):
        if rest.startswith("//"):
            host, _, path = rest[2:].partition("/")
            if host not in {"", "localhost"}:
                raise StorageError(
                    f"{location} names the host {host}",
                    hint="write a local path as file:///path or /path",
                )
            rest = "/" + path
        # No percent-decoding: Hadoop's and Flink's path strings carry none.
        return os.path.abspath(rest)
    if rest.startswith("/"):
        raise StorageError(
            f"{location} is not on the local file system",
            hint="only local paths (plain, file:/ or file:///) are supported so far",
        )
    return os.path.abspath(location)


def _is_scheme(text: str) -> bool:
    return all(c.isalnum() or c in "+-." for c in text)


@dataclass(frozen=True)
class Listing:
    """One directory's entries, hidden ones left out (Hadoop's ``.x.crc``, ``.x.<uuid>.tmp``)."""

    path: str
    files: dict[str, os.DirEntry[str]] = field(default_factory=dict)
    directories: tuple[str, ...] = ()

    def size(self, name: str) -> int:
        """Size of a listed file in bytes; FileNotFoundError when it is gone by now."""
        return self.files[name].stat().st_size


def list_directory(path: str) -> Listing:
    """List one directory without a stat per file; an absent directory is an empty listing."""
    files: dict[str, os.DirEntry[str]] = {}
    directories: list[str] = []
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir():
                    directories.append(entry.name)
                else:
                    files[entry.name] = entry
    except (FileNotFoundError, NotADirectoryError):
        return Listing(path)
    except OSError as error:
        raise storage_error("read", path, error) from error
    return Listing(path, files, tuple(directories))


def list_names(path: str) -> list[str]:
    """Names in one directory, hidden ones left out; empty when there is no such directory."""
    try:
        return [name for name in os.listdir(path) if not name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise storage_error("read", path, error) from error


def walk_files(path: str, prefix: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every visible file below ``path`` with its path relative to it, posix style."""
    listing = list_directory(path)
    for name in sorted(listing.files):
        yield prefix + name, listing.files[name]
    for name in sorted(listing.directories):
        yield from walk_files(os.path.join(path, name), f"{prefix}{name}/")


def open_file(path: str) -> BinaryIO:
    """Open a file for reading; FileNotFoundError when it is not there."""
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise storage_error("read", path, error) from error


def read_bytes(path: str) -> bytes:
    """The whole of a (small) file; FileNotFoundError when it is not there."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise storage_error("read", path, error) from error


def storage_error(verb: str, path: str, error: OSError) -> StorageError:
    """The error for a refused operation on ``path``: what was tried, where, and why not."""
    reason = error.strerror or str(error)
    return StorageError(
        f"cannot {verb} {path}: {reason}",
        hint="check that the path exists, its permissions and the storage below it",
        path=path,
        errno=error.errno,
    )
