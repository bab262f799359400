"""List the savepoints of a directory or of the registry, and register savepoints."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from flinkish.client.context import Context
from flinkish.errors import (
    FlinkishError,
    PartialFailure,
    SavepointNotFound,
    StorageError,
    UnsupportedFormat,
)
from flinkish.launch.job_origin import add_unknown
from flinkish.messages.requests import SavepointSummary

if TYPE_CHECKING:
    from flinkish.savepoint.directory.catalog import Catalog, CatalogEntry


@dataclass(frozen=True)
class Imported:
    """The result of an import: the savepoints found, and those that were new to the registry.

    ``entries``: all savepoints that were found. ``new``: locations of those that were added to the
    registry. ``failed``: paths without a readable savepoint, each with its error.
    """

    entries: tuple[CatalogEntry, ...]
    new: tuple[str, ...]
    failed: tuple[tuple[str, FlinkishError], ...]

    @property
    def failure(self) -> FlinkishError | None:
        """The error of an import that could not read everything, or None."""
        if not self.failed:
            return None
        path, first = self.failed[0]
        if not self.entries and len(self.failed) == 1:
            return first
        failed = f"{path} could not be imported: {first.message}"
        if len(self.failed) > 1:
            failed = f"{len(self.failed)} paths could not be imported; the first: {failed}"
        return PartialFailure(failed, hint=first.hint)


@dataclass(frozen=True)
class Listed:
    """The savepoints of a directory, or of the registry.

    ``location``: the directory; empty for the registry. ``catalog``: what was found, newest first.
    ``damage``: the errors of savepoints that are damaged or could not be checked, by path; only the
    metadata and the sizes of files were checked. ``gone``: records of the registry whose savepoints
    are gone. ``warnings``: sentences about savepoints with times in the future.
    """

    location: str
    catalog: Catalog
    damage: Mapping[str, FlinkishError]
    gone: tuple[SavepointSummary, ...] = ()
    warnings: tuple[str, ...] = ()


def list_directory(directory: str, *, must_exist: bool = False) -> Listed:
    """Return the savepoints directly below a directory, newest first.

    Raises SavepointNotFound if ``must_exist`` and there is no such directory; UsageError if the
    directory is itself a savepoint; StorageError if the directory cannot be listed.
    """
    from flinkish import storage
    from flinkish.savepoint.directory.catalog import read_catalog

    location = storage.locate(directory)
    catalog = read_catalog(location)
    if must_exist and catalog.is_empty and not storage.is_directory(location):
        raise SavepointNotFound(
            f"directory {location} does not exist", hint="check the path", path=location
        )
    return _looked_at(location, catalog)


def list_registry(context: Context) -> Listed:
    """Return the registry's savepoints as they are now, and the records of those that are gone.

    Raises RegistryError if the registry cannot be read; unreadable savepoints are in the result.
    """
    from flinkish.savepoint.directory.catalog import read_paths

    records = {record.path: record for record in context.registry.savepoints()}
    catalog = read_paths(list(records))
    return _looked_at("", catalog, tuple(records[path] for path in catalog.missing))


def _looked_at(location: str, catalog: Catalog, gone: tuple[SavepointSummary, ...] = ()) -> Listed:
    from flinkish.client.pruning import in_the_future
    from flinkish.savepoint.directory.catalog import find_damage
    from flinkish.savepoint.directory.places import is_future
    from flinkish.savepoint.format.reader import QUICK

    now = time.time()
    damage = {
        each.path: error for each in catalog.own if (error := find_damage(each, QUICK)) is not None
    }
    future = (each for each in catalog.own if is_future(each.header.created, now))
    return Listed(location, catalog, damage, gone, tuple(in_the_future(each) for each in future))


def state_of(error: FlinkishError | None) -> str:
    """Return the state of a savepoint by the error that reading it raised, if any. Pure."""
    if error is None:
        return "complete"
    if isinstance(error, StorageError):
        return "unreadable"
    if isinstance(error, SavepointNotFound):
        return "missing"
    return "unsupported" if isinstance(error, UnsupportedFormat) else "damaged"


def import_savepoints(context: Context, paths: Sequence[str]) -> Imported:
    """Add to the registry the savepoints that it does not know, or has recorded as disposed.

    ``paths``: each a savepoint, or a directory of savepoints.

    What cannot be read is in the result's ``failed``.

    Raises RegistryError if the registry cannot be opened, read or written.
    """
    entries: list[CatalogEntry] = []
    failed: list[tuple[str, FlinkishError]] = []
    for path in paths:
        readable, errors = _find(path)
        entries += readable
        failed += errors
    new = add_unknown(context.writable_registry, entries)
    return Imported(tuple(entries), new, tuple(failed))


def _find(path: str) -> tuple[Sequence[CatalogEntry], list[tuple[str, FlinkishError]]]:
    from flinkish.savepoint.directory.catalog import read_catalog, read_paths
    from flinkish.savepoint.format.reader import savepoint_directory

    try:
        directory = savepoint_directory(path)
        catalog = read_paths([directory], whole=True)
        if catalog.missing:
            catalog = read_catalog(directory)
    except FlinkishError as error:
        return (), [(path, error)]
    failed = [(each.path, each.error) for each in catalog.unreadable]
    if not catalog.savepoints and not failed:
        failed = [(path, SavepointNotFound(f"no savepoint at {path} or below it", path=path))]
    return _without_links(catalog.savepoints), failed


def _without_links(entries: Sequence[CatalogEntry]) -> Sequence[CatalogEntry]:
    """Return each savepoint once, by the path that is not a link."""
    by_path = {entry.path: entry for entry in entries if entry.leads_to is None}
    for entry in entries:
        if entry.leads_to is not None and entry.leads_to not in by_path:
            by_path[entry.leads_to] = replace(entry, path=entry.leads_to, leads_to=None)
    return tuple(by_path.values())
