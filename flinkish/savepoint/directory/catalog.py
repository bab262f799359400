"""Catalog of savepoints: those directly below a directory, or at given paths.

The content of a savepoint's directory is authoritative: time, job and queries are read from its
``_metadata``, never from the directory's name. The file's time is only read if the recorded time is
in the future. Unreadable savepoints are reported with the others, so one damaged savepoint does not
hide the rest. Links to a savepoint, and further mounts of it, are marked, so that each savepoint
can be counted once.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from flinkish import storage
from flinkish.errors import Corrupt, FlinkishError, SavepointNotFound, UsageError, quoted_path
from flinkish.savepoint.directory import sharing
from flinkish.savepoint.directory.places import (
    credible_time,
    is_future,
    is_link,
    place_keys,
    written_at,
)
from flinkish.savepoint.format.contents import Header, QueryRecord
from flinkish.savepoint.format.metadata import FILE_NAME, Metadata
from flinkish.savepoint.format.reader import OpenSavepoint, check_files, open_savepoint

_Found = TypeVar("_Found")
#: Form of :func:`new_name`: ``savepoint-<6 hex of the job id>-<12 hex>``.
_NAME = re.compile(r"savepoint-([0-9a-f]{6})-[0-9a-f]{12}")


@dataclass(frozen=True)
class CatalogEntry:
    """One savepoint with a readable ``_metadata``.

    ``opened`` is set if its whole ``_metadata`` was requested. ``written`` is when its
    ``_metadata`` was written, by the storage's clock, read only if the recorded time is in the
    future. ``leads_to`` is the savepoint's own location if ``path`` is a link or another mount.
    """

    path: str
    header: Header
    queries: tuple[QueryRecord, ...]
    opened: OpenSavepoint | None = None
    written: float | None = None
    leads_to: str | None = None

    @property
    def files(self) -> int:
        """Number of its data files."""
        return sum(query.files for query in self.queries)

    @property
    def bytes(self) -> int:
        """Bytes of its data files, including those held by other savepoints."""
        return sum(query.bytes for query in self.queries)


@dataclass(frozen=True)
class Unreadable:
    """A directory with an unreadable ``_metadata``, and the error."""

    path: str
    error: FlinkishError


@dataclass(frozen=True)
class Catalog:
    """The savepoints found: ``savepoints`` sorted newest first, the other fields by path.

    ``unfinished`` are directories without ``_metadata`` that are named like savepoints: being
    written, left by a killed writer or rewrite, or disposed of while others use their files.
    ``missing`` are requested paths without a savepoint. ``links`` maps the location of a savepoint
    to the names of the links in the same directory that lead to it or to a file of it.
    """

    savepoints: tuple[CatalogEntry, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    unfinished: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    links: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def own(self) -> tuple[CatalogEntry, ...]:
        """The savepoints that are themselves in the directory: each once, and no link."""
        return tuple(entry for entry in self.savepoints if entry.leads_to is None)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was found."""
        return not (self.savepoints or self.unreadable or self.unfinished or self.missing)


@dataclass(frozen=True)
class Unfinished:
    """A directory without ``_metadata``, and its content.

    ``modified`` is the newest time of the directory and its own files, in seconds since the epoch,
    or else that of its reference lists; None if unknown. ``users`` are the savepoints that use its
    files, from its reference lists.
    """

    path: str
    modified: float | None
    users: tuple[str, ...]
    files: int
    bytes: int


def new_name(job_id: str) -> str:
    """Return a name for the directory of a new savepoint."""
    return f"savepoint-{job_id[:6]}-{secrets.token_hex(6)}"


def job_prefix(path: str) -> str | None:
    """Return the first six digits of the job id in a directory's name; None for other names."""
    match = _NAME.fullmatch(storage.base_name(path))
    return match.group(1) if match else None


def read_catalog(directory: str, *, whole: bool = False) -> Catalog:
    """Read every savepoint directly in ``directory``: one listing and their ``_metadata`` files.

    A directory that does not exist gives an empty catalog; one that is itself a savepoint is a
    UsageError. With ``whole``, each ``_metadata`` is checked completely and the savepoint opened;
    otherwise only its start is read (header and queries), which is cheap for any number of files.
    """
    location = storage.locate(directory)
    listing = storage.list_directory(location)
    if FILE_NAME in listing.files:
        raise UsageError(
            f"{location} is itself a savepoint, not a directory of savepoints",
            hint=f"see what is inside with: flinkish savepoint show {quoted_path(location)}",
        )
    paths = [storage.join(location, name) for name in sorted(listing.directories)]
    catalog = read_paths(paths, whole=whole)
    return Catalog(
        savepoints=catalog.savepoints,
        unreadable=catalog.unreadable,
        unfinished=tuple(path for path in catalog.missing if job_prefix(path)),
        links=_links(location, catalog.savepoints),
    )


def read_paths(paths: Sequence[str], *, whole: bool = False) -> Catalog:
    """Read the savepoints at ``paths`` (locations), on one storage or several.

    The savepoints are sorted newest first; those whose times are all in the future come last.
    """
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
    now = time.time()
    entries = [_with_file_time(entry, now) for entry in _with_targets(entries)]
    entries.sort(key=lambda entry: _newest_first(entry, now))
    return Catalog(
        tuple(entries),
        tuple(sorted(unreadable, key=lambda each: each.path)),
        missing=tuple(sorted(missing)),
    )


def _newest_first(entry: CatalogEntry, now: float) -> tuple[bool, float, str]:
    taken = credible_time(entry.header.created, entry.written, now)
    return taken is None, -(entry.header.created if taken is None else taken), entry.path


def _with_file_time(entry: CatalogEntry, now: float) -> CatalogEntry:
    if not is_future(entry.header.created, now):
        return entry
    return replace(entry, written=written_at(entry.path, FILE_NAME))


def _with_targets(entries: Sequence[CatalogEntry]) -> list[CatalogEntry]:
    """Record the target of every link, and of every further mount of a directory."""
    homes: dict[str, str] = {}
    completed = []
    for entry in sorted(entries, key=_homes_first):
        keys = place_keys(entry.path)
        home = next((homes[key] for key in keys if key in homes), None)
        if home is None and is_link(entry.path):
            home = os.path.realpath(entry.path)
        homes.update(dict.fromkeys(keys, home or entry.path))
        completed.append(replace(entry, leads_to=home))
    return completed


def _homes_first(entry: CatalogEntry) -> tuple[bool, bool, bool, str]:
    """Return a key that sorts a savepoint's own directory before its links and other mounts.

    Paths that are links come last, and paths below a link come before them. Within each of the
    three groups, names of flinkish's form come first.
    """
    path = entry.path
    behind_link = storage.is_local(path) and os.path.realpath(path) != path
    return is_link(path), behind_link, job_prefix(path) is None, path


def _links(directory: str, entries: Sequence[CatalogEntry]) -> dict[str, tuple[str, ...]]:
    """Return the names of the links in a directory, by the path of the savepoint they lead to."""
    if not storage.is_local(directory):
        return {}
    real = {os.path.realpath(entry.path): entry.path for entry in entries if not entry.leads_to}
    links: dict[str, list[str]] = {}
    for entry in entries:
        if entry.leads_to is not None:
            links.setdefault(entry.leads_to, []).append(storage.base_name(entry.path))
    for name in storage.list_names(directory, hidden=True):
        place = os.path.join(directory, name)
        if not os.path.islink(place):
            continue
        target = os.path.realpath(place)
        while target not in real and len(target) > 1:
            target = os.path.dirname(target)
        names = links.setdefault(real.get(target, target), [])
        if name not in names:
            names.append(name)
    own = real.values()
    return {path: tuple(sorted(names)) for path, names in links.items() if path in own}


def find_damage(entry: CatalogEntry, level: str) -> FlinkishError | None:
    """Return what is wrong with a savepoint, or None; ``level`` is that of :func:`check_files`.

    If the check itself fails, its error is returned; the savepoint may be intact.
    """
    path = entry.path

    try:
        check_files(entry.opened or open_savepoint(path), level)
    except FlinkishError as error:
        return error
    except (MemoryError, RecursionError, OSError) as error:
        return Corrupt(f"{path} cannot be read: {str(error) or type(error).__name__}", path=path)
    return None


def look_at(paths: Sequence[str]) -> tuple[Unfinished, ...]:
    """Examine directories without ``_metadata``; every file of them is listed."""
    return tuple(unfinished for _, unfinished in _by_storage(_look, paths))


def _by_storage(
    function: Callable[[str], _Found], paths: Sequence[str]
) -> Iterator[tuple[str, _Found]]:
    """Yield each path and its result, one storage after the other; concurrently if remote."""
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
    """Return the savepoint or the error of reading it: one failure must not hide the others."""
    try:
        return read()
    except FlinkishError as error:
        return error
    except (MemoryError, RecursionError, OSError) as error:
        return Corrupt(f"{path} cannot be read: {str(error) or type(error).__name__}", path=path)


def _look(path: str) -> Unfinished:
    if is_link(path):
        # Only the link itself is examined; its target is outside this directory.
        try:
            return Unfinished(path, os.lstat(path).st_mtime, (), 1, 0)
        except OSError:
            return Unfinished(path, None, (), 0, 0)
    newest = _directory_time(path)
    newest_list = 0.0
    users: list[str] = []
    files = total = 0
    for relative, entry in storage.walk_files(path):
        try:
            written, size = entry.modified(), entry.size()
        except FileNotFoundError:
            continue  # removed since it was listed: its writer is active
        files += 1
        total += size
        head, _, name = relative.rpartition("/")
        if head == sharing.DIRECTORY:
            # Other savepoints write these lists, even long after this one has been disposed of.
            users.append(name)
            newest_list = max(newest_list, written)
        else:
            newest = max(newest or 0.0, written)
    return Unfinished(path, newest or newest_list or None, tuple(sorted(users)), files, total)


def _directory_time(path: str) -> float | None:
    """Return when a directory was changed (it may be empty); None if unknown, as on S3."""
    try:
        if storage.is_local(path):
            return os.stat(path).st_mtime
        if storage.is_flat(path):
            return None
        from flinkish.storage.stores import store_of

        return store_of(path).entry(path).modified() or None
    except OSError:
        return None
