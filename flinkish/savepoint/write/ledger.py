"""Tables on disk: files in place in a savepoint under way, and files of an earlier savepoint.

The new savepoint may share files with one earlier savepoint in the same directory: the newest of
the job, or else the one that the job was restored from.

A savepoint may have a million files, and the memory used must not grow with their number. SQLite
keeps the tables in its own temporary file (an unnamed database), with a few pages in memory.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from flinkish import storage
from flinkish.checkpoint.fileset import ListedFile
from flinkish.errors import FlinkishError
from flinkish.savepoint.directory.places import is_link
from flinkish.savepoint.format.contents import FileRecord
from flinkish.savepoint.format.metadata import FILE_NAME, Metadata
from flinkish.savepoint.format.reader import OpenSavepoint, open_savepoint, savepoint_directory

_SCHEMA = """
CREATE TABLE placed (
    query INTEGER, path TEXT, size INTEGER, stamp TEXT, digest TEXT, held TEXT, linked INTEGER,
    attempt INTEGER, PRIMARY KEY (query, path)
) WITHOUT ROWID;
CREATE TABLE earlier (
    key TEXT PRIMARY KEY, size INTEGER, stamp TEXT, digest TEXT, held TEXT
) WITHOUT ROWID;
"""
#: Number of rows per statement.
_ROWS = 2000
#: RocksDB files that Spark has uploaded are named ``<name>-<uuid>.sst`` or ``.log``
#: (``RocksDBFileManager``): such a name identifies one content.
_UNIQUE = re.compile(r".*[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.(?:sst|log)")


@dataclass(frozen=True, slots=True)
class Totals:
    """Number and bytes of the files in place, number of those held elsewhere, bytes copied."""

    files: int
    bytes: int
    shared: int
    moved_bytes: int


def is_unique(path: str) -> bool:
    """Return whether a file's name alone identifies its content. Pure."""
    return _UNIQUE.fullmatch(path.rpartition("/")[2]) is not None


def key_of(query_id: str, path: str) -> str:
    """Return the key by which a file is looked up among those of an earlier savepoint. Pure.

    The key of a RocksDB file is its name, independent of its directory. The key of any other file
    is its path in the checkpoint of the same query, and its stamp must be unchanged.
    """
    return path.rpartition("/")[2] if is_unique(path) else f"{query_id}:{path}"


class Ledger:
    """The tables of one savepoint under way; used by one thread."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.executescript(f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; {_SCHEMA}")
        self._has_earlier = False

    def close(self) -> None:
        """Close the database, which removes the tables."""
        self._db.close()

    def remember_earlier(
        self, files: Iterable[tuple[str, int, str | None, str, str]], *, limit: int = _ROWS
    ) -> None:
        """Record the files of an earlier savepoint: (key, size, stamp, digest, location).

        The location is relative to the directory that contains the savepoints.
        """
        self._has_earlier = True
        iterator = iter(files)
        while rows := list(islice(iterator, limit)):
            self._db.executemany("INSERT OR IGNORE INTO earlier VALUES (?, ?, ?, ?, ?)", rows)

    def forget_earlier(self) -> None:
        """Stop sharing: forget the earlier savepoint's files, so that they are transferred, too."""
        self._has_earlier = False
        self._db.execute("DELETE FROM earlier")
        self._db.execute("DELETE FROM placed WHERE held IS NOT NULL")

    def find_earlier(self, query_id: str, file: ListedFile) -> tuple[str, str] | None:
        """Return digest and location of an unchanged file in the earlier savepoint, or None."""
        if not self._has_earlier:
            return None
        row = self._db.execute(
            "SELECT size, stamp, digest, held FROM earlier WHERE key = ?",
            (key_of(query_id, file.path),),
        ).fetchone()
        if row is None or row[0] != file.size:
            return None
        if row[1] != file.stamp and not is_unique(file.path):
            return None
        return row[2], row[3]

    def is_placed(self, query: int, file: ListedFile, attempt: int) -> bool:
        """Return whether an earlier attempt placed this file; if so, assign it to ``attempt``.

        A file that has changed since that attempt does not count.
        """
        cursor = self._db.execute(
            "UPDATE placed SET attempt = ? WHERE query = ? AND path = ? AND size = ? AND stamp = ?",
            (attempt, query, file.path, file.size, file.stamp),
        )
        return cursor.rowcount == 1

    def knows(self, query: int, path: str) -> bool:
        """Return whether a file is recorded as being in place."""
        sql = "SELECT 1 FROM placed WHERE query = ? AND path = ?"
        return self._db.execute(sql, (query, path)).fetchone() is not None

    def add(self, attempt: int, files: Iterable[tuple[FileRecord, bool]]) -> None:
        """Record files that are now in place, each with whether it is a link."""
        self._db.executemany(
            "INSERT OR REPLACE INTO placed VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                (f.query, f.path, f.size, f.stamp, f.digest, f.held, is_link, attempt)
                for f, is_link in files
            ),
        )

    def drop_others(self, query: int, attempt: int) -> Iterator[str]:
        """Forget files that this attempt does not need; yield those in the savepoint itself.

        Nothing is forgotten before the iterator is consumed. Then files that other savepoints hold
        are forgotten first, and files of the savepoint itself some at a time.
        """
        others = "query = ? AND attempt < ?"
        self._db.execute(
            f"DELETE FROM placed WHERE {others} AND held IS NOT NULL", (query, attempt)
        )
        select = f"SELECT path FROM placed WHERE {others} AND path > ? ORDER BY path LIMIT {_ROWS}"
        last = ""
        while rows := self._db.execute(select, (query, attempt, last)).fetchall():
            last = rows[-1][0]
            self._db.execute(
                f"DELETE FROM placed WHERE {others} AND path <= ?", (query, attempt, last)
            )
            yield from (row[0] for row in rows)

    def files(self, query: int) -> Iterator[FileRecord]:
        """Yield all files of a query, sorted by path."""
        cursor = self._db.execute(
            "SELECT query, path, size, digest, held, stamp FROM placed WHERE query = ?"
            " ORDER BY path",
            (query,),
        )
        while rows := cursor.fetchmany(_ROWS):
            for number, path, size, digest, held, stamp in rows:
                yield FileRecord(number, path, size, digest, held, stamp)

    def held(self) -> Iterator[tuple[str, int]]:
        """Yield the sorted locations of all files that other savepoints hold, with their sizes."""
        cursor = self._db.execute(
            "SELECT held, size FROM placed WHERE held IS NOT NULL ORDER BY held"
        )
        while rows := cursor.fetchmany(_ROWS):
            yield from rows

    def totals(self, query: int | None = None) -> Totals:
        """Return the totals of one query, or of all queries."""
        row = self._db.execute(
            "SELECT count(*), total(size), total(held IS NOT NULL),"
            " total(CASE WHEN held IS NULL AND NOT linked THEN size ELSE 0 END) FROM placed"
            " WHERE ?1 IS NULL OR query = ?1",
            (query,),
        ).fetchone()
        return Totals(*(int(value) for value in row))


def newest_of_job(directory: str, job_id: str) -> OpenSavepoint | None:
    """Return the newest complete savepoint of a job directly below ``directory``; None without one.

    Only directories with the name that flinkish gives to savepoints of the job are considered. An
    unreadable savepoint is skipped: other commands report it, and its files are not shared. A
    link is skipped, too: a disposal of its target would look for users beside the target only.
    """
    prefix = f"savepoint-{job_id[:6]}-"
    names = [
        name
        for name in storage.list_directory(directory).directories
        if name.startswith(prefix) and not is_link(storage.join(directory, name))
    ]

    def created(name: str) -> tuple[float, str] | None:
        try:
            header, _ = Metadata.peek(storage.join(directory, name, FILE_NAME))
        except FlinkishError:
            return None
        return (header.created, name) if header.job.job_id == job_id else None

    times = [time for time in storage.in_flight(directory, created, names) if time is not None]
    for _, name in sorted(times, reverse=True):
        try:
            return open_savepoint(storage.join(directory, name))
        except FlinkishError:
            continue
    return None


def in_directory(directory: str, path: str) -> OpenSavepoint | None:
    """Return the savepoint at ``path`` if it is directly below ``directory`` and readable.

    Returns None for any other path, and for a link (:func:`newest_of_job` says why).
    """
    try:
        location = savepoint_directory(path)
        if storage.parent(location) != directory or is_link(location):
            return None
        return open_savepoint(location)
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
