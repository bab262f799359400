"""Storage: read and write files on any storage. Other packages access storage through this one.

Unless a function says otherwise, a path is a *location* (see :mod:`flinkish.storage.locations`): an
absolute local path or a URL. A missing file raises ``FileNotFoundError``, and a replaced one
:class:`Replaced`, which callers interpret. Every other failure raises
:class:`~flinkish.errors.StorageError`, or Corrupt if a name or a file is not what it must be.
Libraries for remote storage are imported when the first remote location is used.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from flinkish.errors import UsageError
from flinkish.storage import local
from flinkish.storage.below import parts_of, read_below
from flinkish.storage.concurrency import requests_in_flight, set_connections
from flinkish.storage.deletion import (
    plan_empty_directories,
    plan_tree,
    remove_empty_directories,
    remove_file,
    remove_files,
    remove_tree,
)
from flinkish.storage.errors import Replaced, storage_error
from flinkish.storage.hashing import Hasher
from flinkish.storage.listing import FileEntry, Listing
from flinkish.storage.local import publish, sync_directory
from flinkish.storage.locations import (
    base_name,
    for_spark,
    is_local,
    join,
    locate,
    one_name,
    parent,
    prefixed,
    same_place,
    scheme_of,
    split,
    to_uri,
)
from flinkish.storage.placing import PlacedFile, Placing, batch_size, place, place_all

if TYPE_CHECKING:
    from flinkish.storage.remote import RemoteStore

__all__ = [
    "FileEntry",
    "Hasher",
    "Listing",
    "PlacedFile",
    "Placing",
    "Replaced",
    "base_name",
    "batch_size",
    "exists",
    "for_spark",
    "has_sizes",
    "in_flight",
    "is_directory",
    "is_flat",
    "is_local",
    "join",
    "list_directory",
    "list_names",
    "locate",
    "make_directory",
    "make_new_directory",
    "one_name",
    "open_file",
    "parent",
    "parts_of",
    "place",
    "place_all",
    "plan_empty_directories",
    "plan_tree",
    "prefixed",
    "publish",
    "publish_file",
    "read_below",
    "read_bytes",
    "read_head",
    "read_tail",
    "remove_empty_directories",
    "remove_file",
    "remove_files",
    "remove_tree",
    "same_place",
    "scheme_of",
    "set_connections",
    "size_of",
    "split",
    "storage_error",
    "sync_directory",
    "temporary_name",
    "to_uri",
    "walk_files",
    "write_atomically",
    "write_bytes",
    "write_output",
]

_DESCRIPTOR = re.compile(r"(?:/dev|/proc/self)/fd/(\d{1,9})")
#: Maximum number of links that are followed to a descriptor: Linux's own limit.
_MAX_LINKS = 40

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def _store(location: str) -> RemoteStore:
    from flinkish.storage.stores import store_of

    return store_of(location)


def is_flat(location: str) -> bool:
    """Return whether the storage has neither directories nor renames, like S3."""
    return not is_local(location) and _store(location).flat


def list_directory(location: str) -> Listing:
    """List a directory's visible entries, without a request for each; an absent one is empty."""
    if is_local(location):
        return local.list_directory(location)
    return _store(location).list_directory(location)


def list_names(location: str, *, hidden: bool = False) -> list[str]:
    """Return the visible names in a directory; an empty list if there is no such directory.

    With ``hidden``, names that begin with a dot are visible too.
    """
    if is_local(location):
        return local.list_names(location, hidden=hidden)
    listing = _store(location).list_directory(location, hidden=hidden)
    return [*listing.files, *listing.directories]


def walk_files(
    location: str, prefix: str = "", *, follow: bool = False
) -> Iterator[tuple[str, FileEntry]]:
    """Yield every visible file below a directory, with its relative path (separated by slashes).

    Hidden directories are not entered. A local symbolic link is yielded as a file with its own size
    and age, or with those of its target if ``follow`` is set; a link to a directory is not entered.
    """
    if is_local(location):
        yield from local.walk_files(location, prefix, follow=follow)
        return
    listing = list_directory(location)
    for name in sorted(listing.files):
        yield prefix + name, listing.files[name]
    for name in sorted(listing.directories):
        yield from walk_files(join(location, name), f"{prefix}{name}/")


def has_sizes(location: str, sizes: Mapping[str, int]) -> bool:
    """Return whether a cheap request finds files of these names and sizes (bytes) in a directory.

    False may only mean that there is no cheap request, so the caller must list the directory.
    """
    return not is_local(location) and _store(location).has_sizes(location, sizes)


def exists(location: str) -> bool:
    """Return whether there is a file, a directory, or a local link (even a broken one)."""
    if is_local(location):
        return local.status_of(location, follow=False) is not None
    return _store(location).exists(location)


def is_directory(location: str) -> bool:
    """Return whether a directory exists; on flat stores: whether any object lies below it."""
    if is_local(location):
        status = local.status_of(location, follow=True)
        return status is not None and stat.S_ISDIR(status.st_mode)
    return _store(location).is_directory(location)


def size_of(location: str) -> int:
    """Return the size of a file in bytes; raise FileNotFoundError if it does not exist."""
    if is_local(location):
        return local.stat_of(location).st_size
    return _store(location).entry(location).size()


def open_file(location: str) -> BinaryIO:
    """Open a file for reading; raise FileNotFoundError if it does not exist."""
    if is_local(location):
        return local.open_file(location)
    return _store(location).open_file(location)


def read_bytes(location: str) -> bytes:
    """Read a whole (small) file; raise FileNotFoundError if it does not exist."""
    if is_local(location):
        return local.read_bytes(location)
    return _store(location).read_bytes(location)


def read_head(location: str, count: int) -> bytes:
    """Read at most ``count`` bytes from the start of a file; raise FileNotFoundError if missing."""
    if is_local(location):
        with local.open_file(location) as file:
            return file.read(count)
    return _store(location).read_head(location, count)


def read_tail(
    location: str, size: int, count: int, original: tuple[str, str] | None = None
) -> bytes:
    """Read at most the last ``count`` bytes of a file of ``size`` bytes.

    ``original`` is the location and stamp of the local file from which this file was copied, and
    which is read instead if it still has that stamp. Raises FileNotFoundError if there is no file.
    """
    start = max(size - count, 0)
    if original is not None:
        with suppress(FileNotFoundError, Replaced):
            return local.read_range(original[0], start, size, original[1])
    if is_local(location):
        return local.read_range(location, start, size)
    return _store(location).read_range(location, start, size)


def make_directory(location: str) -> None:
    """Create a directory and its parents; on flat storage, which has none, do nothing."""
    if is_local(location):
        local.make_directory(location)
    else:
        _store(location).make_directory(location)


def make_new_directory(location: str) -> None:
    """Create a directory that must not exist yet.

    On remote storage this is not checked, because the directory's name has a random part.
    """
    if is_local(location):
        local.make_new_directory(location)
    else:
        _store(location).make_directory(location)


def write_bytes(location: str, data: bytes) -> None:
    """Write a whole file, and flush a local file to the disk."""
    if is_local(location):
        local.write_bytes(location, data)
    else:
        _store(location).write_bytes(location, data)


def write_atomically(location: str, data: bytes) -> None:
    """Write a file so that it appears complete or not at all; replace an existing file."""
    if not is_local(location):
        _store(location).write_atomically(location, data)
        return
    temporary = temporary_name(location)
    try:
        local.write_bytes(temporary, data)
        local.publish(temporary, location)
    except BaseException:
        remove_file(*split(temporary))
        raise


def write_output(path: str, data: bytes) -> None:
    """Write a file of this host that a user has named: atomically, except for a pipe or a device.

    A link is followed. If the path leads to an open file of this process, as ``/dev/stdout`` does,
    the data is written at the current position of that file.

    Raises UsageError for a URL of another storage, StorageError if the file cannot be written.
    """
    location = locate(path)
    if not is_local(location):
        raise UsageError(
            f"{path} is not a file of this host",
            hint="name a local file, then copy it to that storage",
        )
    opened = _open_file_at(location)
    target = os.path.realpath(location)
    is_special = os.path.exists(target) and not (os.path.isfile(target) or os.path.isdir(target))
    if opened is None and not is_special:
        write_atomically(target, data)
        return
    try:
        with open(target if opened is None else os.dup(opened), "wb") as file:
            file.write(data)
    except OSError as error:
        raise storage_error("write", path, error) from error


def _open_file_at(path: str) -> int | None:
    """Return the descriptor of this process that a path leads to; None for other paths."""
    for _ in range(_MAX_LINKS):
        if descriptor := _DESCRIPTOR.fullmatch(path):
            return int(descriptor[1])
        if not os.path.islink(path):
            break
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    return None


def publish_file(temporary: str, location: str) -> None:
    """Put a finished local file in place, complete or not at all.

    A local target is reached by a rename, so ``temporary`` must be on the same file system. For a
    remote target the file is uploaded, and ``temporary`` remains.
    """
    if is_local(location):
        local.publish(temporary, location)
    else:
        _store(location).upload(temporary, location)


def temporary_name(path: str) -> str:
    """Return the name of a hidden sibling of ``path``, under which the file is built."""
    head, tail = os.path.split(path)
    return os.path.join(head, f".{tail}.{secrets.token_hex(6)}.tmp")


def in_flight(
    location: str,
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
    *,
    batch: int = 1,
) -> Iterator[_Result]:
    """Yield ``map(function, items)`` in order; run calls concurrently if ``location`` is remote.

    Both the number of concurrent calls (``execution.savepoint.transfers``) and the memory are
    bounded. A failed call's error is raised in its turn, once the running calls have ended; further
    calls may start until then. ``batch`` is the number of requests that each call has in flight.
    """
    if is_local(location):
        yield from map(function, items)
        return
    yield from requests_in_flight(function, items, batch)
