"""List the savepoints of a directory or of the registry, and register savepoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkish.client.context import Context
from flinkish.errors import FlinkishError, SavepointNotFound
from flinkish.registry.jobs import SavepointRecord

if TYPE_CHECKING:
    from flinkish.savepoint.directory.catalog import Catalog, CatalogEntry


@dataclass(frozen=True)
class Imported:
    """The result of an import: the savepoints found, and those that were new to the registry.

    Parameters
    ----------
    entries : tuple of CatalogEntry
        All savepoints that were found.
    new : tuple of str
        Locations of those that were added to the registry.
    failed : tuple of (str, FlinkishError)
        Paths whose savepoint cannot be read, or that have none.
    """

    entries: tuple[CatalogEntry, ...]
    new: tuple[str, ...]
    failed: tuple[tuple[str, FlinkishError], ...]


def list_directory(directory: str, *, must_exist: bool = False) -> tuple[str, Catalog]:
    """Return the savepoints directly below a directory, newest first.

    Parameters
    ----------
    directory : str
        A path or a URL.
    must_exist : bool
        Whether a missing directory is an error; otherwise it counts as empty.

    Returns
    -------
    tuple of str and Catalog
        The directory's location, and the savepoints found there.

    Raises
    ------
    SavepointNotFound
        There is no such directory.
    UsageError
        The directory is itself a savepoint.
    StorageError
        The directory cannot be listed.
    """
    from flinkish import storage
    from flinkish.savepoint.directory.catalog import read_catalog

    location = storage.locate(directory)
    catalog = read_catalog(location)
    if must_exist and catalog.is_empty and not storage.is_directory(location):
        raise SavepointNotFound(
            f"there is no directory {location}", hint="check the path", path=location
        )
    return location, catalog


def list_registry(context: Context) -> tuple[Catalog, tuple[SavepointRecord, ...]]:
    """Return the registry's savepoints as they are now, and the records of those that are gone.

    Raises
    ------
    RegistryError, StorageError
        The registry or a savepoint cannot be read.
    """
    from flinkish.savepoint.directory.catalog import read_paths

    records = {record.path: record for record in context.registry.savepoints()}
    catalog = read_paths(list(records))
    return catalog, tuple(records[path] for path in catalog.missing)


def find_savepoints(
    paths: Sequence[str],
) -> tuple[tuple[CatalogEntry, ...], tuple[tuple[str, FlinkishError], ...]]:
    """Return the savepoints at the given paths, and the paths that cannot be read.

    Parameters
    ----------
    paths : sequence of str
        Savepoints, and directories of savepoints.
    """
    entries: list[CatalogEntry] = []
    failed: list[tuple[str, FlinkishError]] = []
    for path in paths:
        found, errors = _find(path)
        entries += found
        failed += errors
    return tuple(entries), tuple(failed)


def register(context: Context, entries: Sequence[CatalogEntry]) -> tuple[str, ...]:
    """Add savepoints that the registry does not know, or takes for disposed; return their paths.

    Raises
    ------
    RegistryError
        The registry cannot be written.
    """
    registry = context.writable_registry
    known = {record.path for record in registry.savepoints()}
    new = []
    for entry in entries:
        if entry.path not in known:
            registry.add_savepoint(_record(entry))
            known.add(entry.path)
            new.append(entry.path)
    return tuple(new)


def _find(path: str) -> tuple[Sequence[CatalogEntry], list[tuple[str, FlinkishError]]]:
    from flinkish.savepoint.directory.catalog import read_catalog, read_paths
    from flinkish.savepoint.format.reader import savepoint_directory

    try:
        directory = savepoint_directory(path)
        found = read_paths([directory], whole=True)
        if found.missing:
            found = read_catalog(directory)
    except FlinkishError as error:
        return (), [(path, error)]
    failed = [(each.path, each.error) for each in found.unreadable]
    if not found.savepoints and not failed:
        failed = [(path, SavepointNotFound(f"there is no savepoint at {path} or below", path=path))]
    return found.savepoints, failed


def _record(entry: CatalogEntry) -> SavepointRecord:
    header = entry.header
    return SavepointRecord(
        path=entry.path,
        job_id=header.job_id,
        created=header.created,
        format=header.format,
        bytes=entry.bytes,
        files=entry.files,
        duration=0.0,  # its duration is recorded nowhere
        queries=tuple(
            {"name": query.name, "batch_id": query.batch_id, "query_id": query.query_id}
            for query in entry.queries
        ),
        trigger=header.trigger,
    )
