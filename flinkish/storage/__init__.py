"""Storage: reading and writing files wherever they are. The only room that touches a disk or a net.

Everything takes *locations* (see :mod:`flinkish.storage.locations`): absolute local paths or URLs.
A file that is not there raises ``FileNotFoundError`` (the callers know what that means); every
other trouble is a :class:`~flinkish.errors.StorageError`. Remote libraries are imported when the
first remote location is met.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from flinkish.storage import local
from flinkish.storage.below import parts_of, read_below
from flinkish.storage.deletion import (
    plan_empty_directories,
    plan_tree,
    remove_empty_directories,
    remove_file,
    remove_files,
    remove_tree,
)
from flinkish.storage.errors import Replaced, storage_error
from flinkish.storage.limits import set_connections
from flinkish.storage.listing import FileEntry, Listing
from flinkish.storage.local import publish, sync_directory
from flinkish.storage.locations import (
    base_name,
    for_spark,
    is_local,
    join,
    locate,
    parent,
    prefixed,
    scheme_of,
    split,
    to_uri,
)
from flinkish.storage.placing import PlacedFile, Placing, batch_size, place, place_all

if TYPE_CHECKING:
    from flinkish.storage.remote import RemoteStore

__all__ = [
    "FileEntry",
    "Listing",
    "PlacedFile",
    "Placing",
    "Replaced",
    "base_name",
    "batch_size",
    "exists",
    "for_spark",
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
    "remove_empty_directories",
    "remove_file",
    "remove_files",
    "remove_tree",
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
]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
#: Files the local disk is given at a time by :func:`in_flight`.
_LOCAL_WORKERS = 4


def _store(location: str) -> RemoteStore:
    from flinkish.storage.remote import store_of

    return store_of(location)


def is_flat(location: str) -> bool:
    """Whether the storage has no directories and no renaming, as S3."""
    return not is_local(location) and _store(location).flat


def list_directory(location: str) -> Listing:
    """One directory, hidden names left out, by one request; an absent one is an empty listing."""
    if is_local(location):
        return local.list_directory(location)
    return _store(location).list_directory(location)


def list_names(location: str) -> list[str]:
    """Names in one directory, hidden ones left out; empty when there is no such directory."""
    if is_local(location):
        return local.list_names(location)
    listing = _store(location).list_directory(location)
    return [*listing.files, *listing.directories]


def walk_files(location: str, prefix: str = "") -> Iterator[tuple[str, FileEntry]]:
    """Every visible file below a directory with its path relative to it, posix style.

    A link is one of them, with its own size and age; it is not gone into.
    """
    if is_local(location):
        yield from local.walk_files(location, prefix)
        return
    listing = list_directory(location)
    for name in sorted(listing.files):
        yield prefix + name, listing.files[name]
    for name in sorted(listing.directories):
        yield from walk_files(join(location, name), f"{prefix}{name}/")


def exists(location: str) -> bool:
    """Whether a file or directory is there."""
    if is_local(location):
        return os.path.lexists(location)
    return _store(location).exists(location)


def is_directory(location: str) -> bool:
    """Whether a directory is there; on stores without directories: anything below it."""
    if is_local(location):
        return os.path.isdir(location)
    return _store(location).is_directory(location)


def size_of(location: str) -> int:
    """A file's size in bytes; FileNotFoundError when it is not there."""
    if is_local(location):
        return os.stat(location).st_size
    return _store(location).entry(location).size()


def open_file(location: str) -> BinaryIO:
    """Open a file for reading; FileNotFoundError when it is not there."""
    if is_local(location):
        return local.open_file(location)
    return _store(location).open_file(location)


def read_bytes(location: str) -> bytes:
    """The whole of a (small) file; FileNotFoundError when it is not there."""
    if is_local(location):
        return local.read_bytes(location)
    return _store(location).read_bytes(location)


def read_head(location: str, count: int) -> bytes:
    """The first ``count`` bytes of a file, or all of them; FileNotFoundError without the file."""
    if is_local(location):
        with local.open_file(location) as file:
            return file.read(count)
    return _store(location).read_head(location, count)


def make_directory(location: str) -> None:
    """Create a directory and its parents; StorageError naming the path that was refused."""
    if is_local(location):
        local.make_directory(location)
    else:
        _store(location).make_directory(location)


def make_new_directory(location: str) -> None:
    """Create a directory that must not exist yet (remote names are random enough to be new)."""
    if is_local(location):
        local.make_new_directory(location)
    else:
        _store(location).make_directory(location)


def write_bytes(location: str, data: bytes) -> None:
    """Write a whole new file and bring it to the disk."""
    if is_local(location):
        local.write_bytes(location, data)
    else:
        _store(location).write_bytes(location, data)


def write_atomically(location: str, data: bytes) -> None:
    """Write a file so that it appears complete or not at all; what stands there is replaced."""
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


def publish_file(temporary: str, location: str) -> None:
    """Bring a finished local file into place, complete or not at all; the file may stay or go.

    To a local place it is renamed: ``temporary`` must be on the same file system.
    """
    if is_local(location):
        local.publish(temporary, location)
    else:
        _store(location).upload(temporary, location)


def temporary_name(path: str) -> str:
    """A hidden sibling of ``path`` to build it under."""
    head, tail = os.path.split(path)
    return os.path.join(head, f".{tail}.{secrets.token_hex(6)}.tmp")


def in_flight(
    location: str,
    function: Callable[[_Item], _Result],
    items: Iterable[_Item],
    *,
    batch: int = 1,
) -> Iterator[_Result]:
    """``map(function, items)`` in order, with many calls at once where ``location`` is remote.

    The number is bounded (``execution.savepoint.transfers``), and so is the memory. When a call
    fails no further one is begun, those that run are waited for, and its error is raised.
    ``batch`` is how many requests each call has in flight by itself.
    """
    if is_local(location):
        yield from map(function, items)
        return
    from flinkish.storage import remote

    yield from remote.in_flight(function, items, batch)
