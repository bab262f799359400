"""What is in place of a savepoint under way, and what an earlier one has: tables on disk.

A savepoint may have a million files, and the memory it takes must not grow with them. SQLite keeps
the tables in a temporary file of its own (an unnamed database), of which a few pages are in memory.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from flinkish.checkpoint.fileset import ListedFile

_SCHEMA = """
CREATE TABLE placed (
    query INTEGER, path TEXT, size INTEGER, stamp TEXT, digest TEXT, held TEXT, linked INTEGER,
    attempt INTEGER, PRIMARY KEY (query, path)
) WITHOUT ROWID;
CREATE TABLE earlier (
    key TEXT PRIMARY KEY, size INTEGER, stamp TEXT, digest TEXT, held TEXT
) WITHOUT ROWID;
"""
#: Rows a statement is given at a time.
_ROWS = 2000
#: RocksDB files that Spark has uploaded are named ``<name>-<uuid>.sst`` (``RocksDBFileManager``):
#: no two contents ever had one such name.
_UNIQUE = re.compile(r".*[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\.(?:sst|log)")


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A file in place: see :class:`flinkish.savepoint.format.contents.FileRecord`."""

    path: str
    size: int
    stamp: str
    digest: str
    held: str | None = None
    linked: bool = False


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts of files by how they came to be in place, and their bytes."""

    files: int
    bytes: int
    linked: int
    shared: int
    copied: int
    moved_bytes: int


def is_unique(path: str) -> bool:
    """Whether a file's name alone says what is in it. Pure."""
    return _UNIQUE.fullmatch(path.rpartition("/")[2]) is not None


def key_of(query_id: str, path: str) -> str:
    """Under which key a file is looked for among those of an earlier savepoint. Pure.

    A RocksDB file goes by its name, wherever it is; any other by its path in the same query's
    checkpoint, and only with an unchanged stamp.
    """
    return path.rpartition("/")[2] if is_unique(path) else f"{query_id}:{path}"


class Ledger:
    """The tables of one savepoint under way; used by one thread."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.executescript(f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; {_SCHEMA}")
        self._has_earlier = False

    def close(self) -> None:
        """Give up the tables."""
        self._db.close()

    def remember_earlier(
        self, files: Iterable[tuple[str, int, str | None, str, str]], *, limit: int = _ROWS
    ) -> None:
        """Take down what an earlier savepoint has: (key, size, stamp, digest, where it lies)."""
        self._has_earlier = True
        iterator = iter(files)
        while rows := list(islice(iterator, limit)):
            self._db.executemany("INSERT OR IGNORE INTO earlier VALUES (?, ?, ?, ?, ?)", rows)

    def forget_earlier(self) -> None:
        """Share nothing: files are to be taken again that an earlier savepoint would have held."""
        self._has_earlier = False
        self._db.execute("DELETE FROM earlier")
        self._db.execute("DELETE FROM placed WHERE held IS NOT NULL")

    def find_earlier(self, query_id: str, file: ListedFile) -> tuple[str, str] | None:
        """The digest of an unchanged file in an earlier savepoint, and where it lies."""
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
        """Whether a file is in place from an earlier attempt and unchanged; then it stays so."""
        cursor = self._db.execute(
            "UPDATE placed SET attempt = ? WHERE query = ? AND path = ? AND size = ? AND stamp = ?",
            (attempt, query, file.path, file.size, file.stamp),
        )
        return cursor.rowcount == 1

    def knows(self, query: int, path: str) -> bool:
        """Whether a file has been taken down as being in place."""
        sql = "SELECT 1 FROM placed WHERE query = ? AND path = ?"
        return self._db.execute(sql, (query, path)).fetchone() is not None

    def add(self, query: int, attempt: int, files: Iterable[LedgerEntry]) -> None:
        """Take down files that are in place now."""
        self._db.executemany(
            "INSERT OR REPLACE INTO placed VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            ((query, f.path, f.size, f.stamp, f.digest, f.held, f.linked, attempt) for f in files),
        )

    def drop_others(self, query: int, attempt: int) -> Iterator[str]:
        """Forget files that this attempt did not want; those of the savepoint's own are given.

        They are forgotten as they are taken from the iterator, some at a time.
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

    def files(self, query: int) -> Iterator[LedgerEntry]:
        """All files of a query, by path."""
        cursor = self._db.execute(
            "SELECT path, size, stamp, digest, held, linked FROM placed WHERE query = ?"
            " ORDER BY path",
            (query,),
        )
        while rows := cursor.fetchmany(_ROWS):
            for path, size, stamp, digest, held, linked in rows:
                yield LedgerEntry(path, size, stamp, digest, held, bool(linked))

    def held(self) -> Iterator[str]:
        """Where all files lie that other savepoints hold."""
        cursor = self._db.execute("SELECT held FROM placed WHERE held IS NOT NULL ORDER BY held")
        while rows := cursor.fetchmany(_ROWS):
            yield from (row[0] for row in rows)

    def totals(self, query: int | None = None) -> Totals:
        """Counts, of one query or of all."""
        own = "held IS NULL AND NOT linked"
        row = self._db.execute(
            f"SELECT count(*), total(size), total(linked), total(held IS NOT NULL), total({own}),"
            f" total(CASE WHEN {own} THEN size ELSE 0 END) FROM placed"
            " WHERE ?1 IS NULL OR query = ?1",
            (query,),
        ).fetchone()
        return Totals(*(int(value) for value in row))
