"""Which savepoints there are: those directly below a directory, or at given paths.

A savepoint's directory is the truth about it: its time, job and queries are read from its
``_metadata``, never from the directory's name or the files' times. What cannot be read is reported
beside what can, so one damaged savepoint does not hide the others.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from flinkish import storage
from flinkish.errors import Corrupt, FlinkishError, SavepointNotFound, UsageError
from flinkish.savepoint.directory import sharing
from flinkish.savepoint.format.contents import Header, QueryRecord
from flinkish.savepoint.format.metadata import FILE_NAME, Metadata
from flinkish.savepoint.format.reader import OpenSavepoint, open_savepoint

_Found = TypeVar("_Found")
#: What :func:`new_name` makes: ``savepoint-<6 hex of the job id>-<12 hex>``.
_NAME = re.compile(r"savepoint-([0-9a-f]{6})-[0-9a-f]{12}")


@dataclass(frozen=True)
class CatalogEntry:
    """One complete savepoint; ``opened`` where its whole ``_metadata`` was asked for."""

    path: str
    header: Header
    queries: tuple[QueryRecord, ...]
    opened: OpenSavepoint | None = None

    @property
    def files(self) -> int:
        """Number of its data files."""
        return sum(query.files for query in self.queries)

    @property
    def bytes(self) -> int:
        """Bytes of its data files, those that others hold as well."""
        return sum(query.bytes for query in self.queries)


@dataclass(frozen=True)
class Unreadable:
    """A directory with a ``_metadata`` that cannot be read, and why."""

    path: str
    error: FlinkishError


@dataclass(frozen=True)
class Catalog:
    """What was found: ``savepoints`` newest first, the others by path.

    ``unfinished`` are directories named like a savepoint without ``_metadata``: being written,
    left by a writer or a rewrite that died, or disposed while others use their files. ``missing``
    are paths asked for by name at which there is no savepoint.
    """

    savepoints: tuple[CatalogEntry, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    unfinished: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found at all."""
        return not (self.savepoints or self.unreadable or self.unfinished or self.missing)


@dataclass(frozen=True)
class Unfinished:
    """A directory without ``_metadata``, looked at.

    ``modified`` is when the newest file of its own was written, in seconds since the epoch (None:
    the storage does not tell), ``users`` the savepoints that use its files according to it,
    ``bytes`` what lies there.
    """

    path: str
    modified: float | None
    users: tuple[str, ...]
    files: int
    bytes: int


def new_name(job_id: str) -> str:
    """A name for a new savepoint's directory."""
    return f"savepoint-{job_id[:6]}-{secrets.token_hex(6)}"


def job_prefix(path: str) -> str | None:
    """The first six digits of the job id in a savepoint directory's name; None for other names."""
    match = _NAME.fullmatch(storage.base_name(path))
    return match.group(1) if match else None


def read_catalog(directory: str, *, whole: bool = False) -> Catalog:
    """Every savepoint directly below ``directory``, by one listing and their ``_metadata`` files.

    Parameters
    ----------
    whole: check all of each ``_metadata``, and open the savepoint; otherwise only its beginning is
        read (header and queries), which is cheap however many files it has.

    A directory that is not there has none. Raises UsageError when ``directory`` is itself a
    savepoint, StorageError when it cannot be listed.
    """
    location = storage.locate(directory)
    listing = storage.list_directory(location)
    if FILE_NAME in listing.files:
        raise UsageError(
            f"{location} is itself a savepoint, not a directory of savepoints",
            hint=f"see what is inside with: flinkish savepoint show {location}",
        )
    paths = [storage.join(location, name) for name in sorted(listing.directories)]
    found = read_paths(paths, whole=whole)
    return Catalog(
        savepoints=found.savepoints,
        unreadable=found.unreadable,
        unfinished=tuple(path for path in found.missing if job_prefix(path)),
    )


def read_paths(paths: Sequence[str], *, whole: bool = False) -> Catalog:
    """The savepoints at ``paths`` (locations), on one storage or on several."""
    entries: list[CatalogEntry] = []
    unreadable: list[Unreadable] = []
    missing: list[str] = []
    for path, outcome in _by_storage(_open if whole else _peek, paths):
        if isinstance(outcome, CatalogEntry):
            entries.append(outcome)
        elif isinstance(outcome, SavepointNotFound):
            missing.append(path)
        else:
            unreadable.append(Unreadable(path, outcome))
    entries.sort(key=lambda entry: (-entry.header.created, entry.path))
    return Catalog(
        tuple(entries),
        tuple(sorted(unreadable, key=lambda found: found.path)),
        missing=tuple(sorted(missing)),
    )


def look_at(paths: Sequence[str]) -> tuple[Unfinished, ...]:
    """What lies in directories without ``_metadata``; every file of them is listed."""
    return tuple(found for _, found in _by_storage(_look, paths))


def _by_storage(
    function: Callable[[str], _Found], paths: Sequence[str]
) -> Iterator[tuple[str, _Found]]:
    """``function`` of each path, many at once on remote storage; one storage after the other."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        groups.setdefault(storage.scheme_of(path), []).append(path)
    for group in groups.values():
        yield from zip(group, storage.in_flight(group[0], function, group), strict=True)


def _open(path: str) -> CatalogEntry | FlinkishError:
    def whole() -> CatalogEntry:
        savepoint = open_savepoint(path)
        return CatalogEntry(path, savepoint.header, savepoint.queries, savepoint)

    return _or_error(path, whole)


def _peek(path: str) -> CatalogEntry | FlinkishError:
    return _or_error(
        path, lambda: CatalogEntry(path, *Metadata.peek(storage.join(path, FILE_NAME)))
    )


def _or_error(path: str, read: Callable[[], CatalogEntry]) -> CatalogEntry | FlinkishError:
    """What reading one savepoint comes to: no single one may hide the others."""
    try:
        return read()
    except FlinkishError as error:
        return error
    except (MemoryError, RecursionError, OSError) as error:
        return Corrupt(f"{path} cannot be read: {str(error) or type(error).__name__}", path=path)


def _look(path: str) -> Unfinished:
    if storage.is_local(path) and os.path.islink(path):
        # The link is all there is here; where it leads is another place.
        return Unfinished(path, os.lstat(path).st_mtime, (), 1, 0)
    newest = _directory_time(path)
    newest_list = 0.0
    users: list[str] = []
    files = total = 0
    for relative, entry in storage.walk_files(path):
        try:
            written, size = entry.modified(), entry.size()
        except FileNotFoundError:
            continue  # its writer is at work
        files += 1
        total += size
        head, _, name = relative.rpartition("/")
        if head == sharing.DIRECTORY:
            # Others write these, also long after the directory's own savepoint is gone.
            users.append(name)
            newest_list = max(newest_list, written)
        else:
            newest = max(newest or 0.0, written)
    return Unfinished(path, newest or newest_list or None, tuple(sorted(users)), files, total)


def _directory_time(path: str) -> float | None:
    """When a directory was changed (it may be empty); None where there is none, as on S3."""
    try:
        if storage.is_local(path):
            return os.stat(path).st_mtime
        if storage.is_flat(path):
            return None
        from flinkish.storage.remote import store_of

        return store_of(path).entry(path).modified() or None
    except OSError:
        return None
