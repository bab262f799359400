"""The rows of a RocksDB state store (Spark's ``RocksDBStateStoreProvider``).

The snapshot is opened in a temporary directory, the changelogs after it are replayed into that
copy, and its rows are iterated: memory stays bounded whatever the state's size. Rows are what
RocksDB has: a key starts with its column family's id where the store has families.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import rocksdict

from flinkish.checkpoint.format.archives import ArchiveMetadata
from flinkish.checkpoint.format.chains import Chain, Lineage
from flinkish.engine.errors import StateFormatError
from flinkish.engine.stores.chain import find_chain
from flinkish.engine.stores.codecs import decompressed
from flinkish.engine.stores.files import StoreFiles
from flinkish.engine.stores.records import MERGE, PUT, Change, Changelog, Content, read_changelog
from flinkish.engine.stores.rocksdb import pieces_of, rocksdb_errors, without_log
from flinkish.engine.stores.rocksdb_writer import NO_FAMILIES, Families
from flinkish.engine.stores.scratch import make_scratch, remove_scratch
from flinkish.engine.stores.sidecars import open_checked
from flinkish.engine.stores.snapshots import materialise, read_metadata

#: Replayed changes are collected up to this size before they go into the database.
_MAX_PENDING = 32 << 20
_FAMILY_ID = struct.Struct("<h")


@dataclass(frozen=True)
class RocksDBRows:
    """An open store: its rows in the order of their keys, and what its snapshot says."""

    database: Any
    chain: Chain
    metadata: ArchiveMetadata

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Key and value of every row; StateFormatError when RocksDB finds damage on the way."""
        return itertools.chain.from_iterable(self.pieces())

    def pieces(self) -> Iterator[list[tuple[bytes, bytes]]]:
        """The rows in lists of bounded number and size; errors are those of :meth:`rows`."""
        with _errors(self.chain):
            yield from pieces_of(self.database)


@contextlib.contextmanager
def open_rocksdb_store(files: StoreFiles) -> Iterator[RocksDBRows]:
    """Open ``files.version`` of a store; the temporary directory is removed at the end.

    Raises:
        StateFormatError: a file is damaged, or missing (MissingStateFile).
    """

    chain = find_chain(files, functools.partial(_lineage_of, files))
    directory = make_scratch(parent=files.scratch)
    try:
        metadata = ArchiveMetadata((), 0)
        if chain.snapshot is not None:
            metadata = materialise(files, chain.snapshot, directory)
        database = _open(directory, chain)
        try:
            for name in chain.changes:
                with _errors(chain), open_checked(files, name) as file:
                    _replay(database, _changelog(file, files, name).changes())
            yield RocksDBRows(database, chain, metadata)
        finally:
            with _errors(chain):
                database.close()
    finally:
        remove_scratch(directory)


def snapshot_families(files: StoreFiles) -> Families:
    """The column families that the snapshot of ``files.version`` names; none where it has none.

    Raises StateFormatError when the snapshot is damaged, or missing (MissingStateFile).
    """
    chain = find_chain(files, functools.partial(_lineage_of, files))
    if chain.snapshot is None:
        return NO_FAMILIES
    metadata = read_metadata(files, chain.snapshot)
    ids = {name: number for number, name in sorted(metadata.families.items())}
    return Families(ids, metadata.internal)


def _lineage_of(files: StoreFiles, name: str) -> Lineage | None:
    with open_checked(files, name) as file:
        return _changelog(file, files, name).lineage


def family_of(key: bytes, metadata: ArchiveMetadata, chain: Chain) -> str:
    """The name of the column family a key of a store with families belongs to."""
    number = _FAMILY_ID.unpack_from(key)[0] if len(key) >= _FAMILY_ID.size else None
    if number not in metadata.families:
        raise StateFormatError(chain.name, None, f"a key of the unknown column family {number}")
    return metadata.families[number]


def _changelog(file: Any, files: StoreFiles, name: str) -> Changelog:
    return read_changelog(Content(decompressed(file, files.compression, name), name))


def _open(directory: str, chain: Chain) -> Any:
    with _errors(chain):
        if chain.snapshot is None:
            return rocksdict.Rdict(directory, options=rocksdict.Options(True))
        if not chain.changes:
            access = rocksdict.AccessType.read_only()
            return rocksdict.Rdict(directory, options=rocksdict.Options(True), access_type=access)
        # Spark's own options, without which RocksDB cannot join what Spark merged.
        options, families = rocksdict.Options.load_latest(directory)
        options.set_disable_auto_compactions(True)
        # Whoever wrote them may have named directories elsewhere, which RocksDB tidies up.
        options.set_wal_dir(directory)
        options.set_db_log_dir(directory)
        return rocksdict.Rdict(directory, options=options, column_families=families)


def _errors(chain: Chain) -> contextlib.AbstractContextManager[None]:
    """The binding's errors are damage of the state."""
    return rocksdb_errors("RocksDB", lambda text: StateFormatError(chain.name, None, text))


def _replay(database: Any, changes: Iterator[Change]) -> None:
    """Write changes into the database, many at a time.

    RocksDB's binding cannot merge, so what is merged is put behind what is there. Spark joins
    records of a list by "," or by nothing (``mergeOperatorVersion``); readers know both.
    """
    pending: dict[bytes, _Pending] = {}
    size = 0
    for kind, key, value in changes:
        size += len(key) + len(value) + 64
        if kind == MERGE:
            pending.setdefault(key, _Pending(False, [])).parts.append(value)
        else:
            pending[key] = _Pending(True, [value] if kind == PUT else [])
        if size > _MAX_PENDING:
            _write(database, pending)
            pending, size = {}, 0
    _write(database, pending)


@dataclass(frozen=True)
class _Pending:
    """What became of a key: its new parts, and whether they replace what was there."""

    replaces: bool
    parts: list[bytes]


def _write(database: Any, pending: dict[bytes, _Pending]) -> None:
    batch = rocksdict.WriteBatch(raw_mode=True)  # several times faster than one by one
    for key, change in pending.items():
        parts = change.parts
        if not change.replaces:
            before = database.get(key)
            parts = [before, *parts] if before is not None else parts
        if parts:
            batch.put(key, parts[0] if len(parts) == 1 else b"".join(parts))
        else:
            batch.delete(key)
    database.write(batch, without_log())
