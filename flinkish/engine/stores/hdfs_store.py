"""The rows of an HDFS-backed state store (Spark's ``HDFSBackedStateStoreProvider``).

Spark holds the whole map in memory. Here the snapshot is streamed, and later changes override its
rows; the last change of each key is kept in memory, or on the local disk if many keys change. A
version without an earlier snapshot (Spark writes one every ten versions) consists of changes only.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, Final

import rocksdict

from flinkish.engine.errors import StateFormatError
from flinkish.engine.stores.codecs import decompressed
from flinkish.engine.stores.files import StoreFiles, find_chain, open_checked
from flinkish.engine.stores.records import Content, plain_records
from flinkish.engine.stores.rocksdb import (
    make_scratch,
    open_files,
    pieces_of,
    remove_scratch,
    rocksdb_errors,
    without_log,
)


def read_hdfs_store(files: StoreFiles) -> Iterator[tuple[bytes, bytes]]:
    """Yield the key and value of every row of ``files.version``, in no particular order.

    Raises StateFormatError if a file is damaged, or missing (MissingStateFile), and the errors of
    :class:`LastChanges`.
    """
    chain = find_chain(files, lambda _: None)
    with LastChanges(files.scratch) as changes:
        for name in chain.changes:
            changes.add(_records(files, name))
        if chain.snapshot is not None:
            yield from changes.unchanged(_snapshot_rows(files, chain.snapshot))
        yield from changes.rows()


def _snapshot_rows(files: StoreFiles, name: str) -> Iterator[tuple[bytes, bytes]]:
    for key, value in _records(files, name):
        if value is None:
            raise StateFormatError(name, None, "a snapshot removes a row")
        yield key, value


def _records(files: StoreFiles, name: str) -> Iterator[tuple[bytes, bytes | None]]:
    with open_checked(files, name) as file:
        yield from plain_records(Content(decompressed(file, files.compression, name), name))


#: Maximum bytes of keys and values held in memory, including Python's overhead for each row.
MAX_HELD_BYTES: Final = 64 << 20
_ROW_OVERHEAD: Final = 150
_WHAT: Final = "RocksDB, for changes on the local disk"
_REMOVED, _PUT = b"\x00", b"\x01"


class LastChanges:
    """A collection of changes that keeps the last one of each key; a context manager.

    ``scratch`` is a local directory; None means the system's temporary directory. If RocksDB fails,
    the methods raise EngineError, or StorageError if the machine refuses.
    """

    def __init__(self, scratch: str | None = None) -> None:
        self._scratch = scratch
        self._held: dict[bytes, bytes | None] = {}
        self._bytes = 0
        self._directory: str | None = None
        self._database: Any = None

    def __enter__(self) -> LastChanges:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            if self._database is not None:
                with rocksdb_errors(_WHAT):
                    self._database.close()
        finally:
            if self._directory is not None:
                remove_scratch(self._directory)

    def add(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Add changes, which replace earlier ones; a value of None removes the key."""
        for key, value in changes:
            self._held[key] = value
            self._bytes += len(key) + len(value or b"") + _ROW_OVERHEAD
            if self._bytes >= MAX_HELD_BYTES:
                self._spill()

    def unchanged(
        self, rows: Iterable[tuple[bytes, bytes]], most: int = 1_000
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rows whose keys have no change.

        If the changes are on the local disk, ``most`` keys are looked up at a time.
        """
        if self._database is None:
            held = self._held
            yield from (row for row in rows if row[0] not in held)
            return
        self._spill()
        iterator = iter(rows)
        while some := list(itertools.islice(iterator, most)):
            with rocksdb_errors(_WHAT):
                changes = self._database.get([key for key, _ in some])
            yield from (row for row, change in zip(some, changes, strict=True) if change is None)

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the key and value of each changed key that is not removed."""
        if self._database is None:
            yield from ((key, value) for key, value in self._held.items() if value is not None)
            return
        self._spill()
        with rocksdb_errors(_WHAT):
            for piece in pieces_of(self._database):
                yield from ((key, change[1:]) for key, change in piece if change != _REMOVED)

    def _spill(self) -> None:
        with rocksdb_errors(_WHAT):
            if self._database is None:
                self._directory = make_scratch(parent=self._scratch)
                options: Any = rocksdict.Options(True)
                options.set_max_open_files(open_files(1))
                self._database = rocksdict.Rdict(self._directory, options=options)
            batch = rocksdict.WriteBatch(raw_mode=True)
            for key, value in self._held.items():
                batch.put(key, _REMOVED if value is None else _PUT + value)
            self._database.write(batch, without_log())
        self._held = {}
        self._bytes = 0
