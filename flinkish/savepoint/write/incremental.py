"""The newest savepoint of a job in a directory, whose files a new savepoint may share."""

from __future__ import annotations

from collections.abc import Iterator

from flinkish import storage
from flinkish.errors import FlinkishError
from flinkish.savepoint.format.metadata import FILE_NAME, Metadata
from flinkish.savepoint.format.reader import OpenSavepoint, open_savepoint, savepoint_directory
from flinkish.savepoint.write.ledger import Ledger, is_unique, key_of


def newest_of_job(directory: str, job_id: str) -> OpenSavepoint | None:
    """Return the newest complete savepoint of a job directly below ``directory``; None without one.

    An unreadable savepoint is skipped: other commands report it, and its files are not shared.
    """
    prefix = f"savepoint-{job_id[:6]}-"
    names = [n for n in storage.list_directory(directory).directories if n.startswith(prefix)]

    def created(name: str) -> tuple[float, str] | None:
        try:
            header, _ = Metadata.peek(storage.join(directory, name, FILE_NAME))
        except FlinkishError:
            return None
        return (header.created, name) if header.job_id == job_id else None

    found = [one for one in storage.in_flight(directory, created, names) if one is not None]
    for _, name in sorted(found, reverse=True):
        try:
            return open_savepoint(storage.join(directory, name))
        except FlinkishError:
            continue
    return None


def in_directory(directory: str, path: str) -> OpenSavepoint | None:
    """Return the savepoint at ``path`` if it is directly below ``directory`` and readable."""
    try:
        location = savepoint_directory(path)
        return open_savepoint(location) if storage.parent(location) == directory else None
    except FlinkishError:
        return None


def remember(savepoint: OpenSavepoint, ledger: Ledger) -> None:
    """Record all files of ``savepoint`` that a later savepoint may share."""
    ledger.remember_earlier(_files(savepoint))


def _files(savepoint: OpenSavepoint) -> Iterator[tuple[str, int, str | None, str, str]]:
    name = storage.base_name(savepoint.path)
    for record in savepoint.iter_files():
        query = savepoint.queries[record.query]
        if record.stamp is None and not is_unique(record.path):
            continue
        held = record.held or f"{name}/{query.directory}/{record.path}"
        key = key_of(query.query_id, record.path)
        yield key, record.size, record.stamp, record.digest, held
