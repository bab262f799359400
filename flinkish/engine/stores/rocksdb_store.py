"""The rows of a RocksDB state store (Spark's ``RocksDBStateStoreProvider``).

The snapshot (the archive and its shared files) is opened in a temporary directory, later changelogs
are replayed into that copy, and its rows are iterated. Memory is bounded for any size of state. The
rows are those of RocksDB: with column families, a key starts with its family's id.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import rocksdict

from flinkish.checkpoint.format.archives import (
    METADATA_MEMBER,
    ArchiveMetadata,
    check_members,
    open_archive,
    parse_archive_metadata,
    read_archive_metadata,
)
from flinkish.checkpoint.format.chains import Chain, Lineage
from flinkish.engine.bounds import MAX_ROW
from flinkish.engine.errors import StateFormatError
from flinkish.engine.rows.arrow_parts import MAX_ROWS
from flinkish.engine.stores.codecs import decompressed
from flinkish.engine.stores.files import StoreFiles, find_chain, open_checked, open_state_file
from flinkish.engine.stores.records import MERGE, PUT, Change, Changelog, Content, read_changelog
from flinkish.engine.stores.rocksdb import (
    NEVER_SEEK,
    make_scratch,
    open_files,
    pieces_of,
    remove_scratch,
    rocksdb_errors,
    without_log,
)
from flinkish.engine.stores.rocksdb_writer import NO_FAMILIES, Families
from flinkish.engine.stores.sst_files import family_number

#: Bytes of replayed changes that are collected before they are written into the database.
_MAX_PENDING = 32 << 20


@dataclass(frozen=True)
class RocksDBRows:
    """An open store: the database, the files of its version, and the metadata of its snapshot."""

    database: Any
    chain: Chain
    metadata: ArchiveMetadata

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the key and value of every row; raise StateFormatError if RocksDB finds damage."""
        return itertools.chain.from_iterable(self.pieces())

    def pieces(self, most: int = MAX_ROWS) -> Iterator[list[tuple[bytes, bytes]]]:
        """Yield the rows in lists of bounded number and size; errors are those of :meth:`rows`."""
        with _errors(self.chain):
            yield from pieces_of(self.database, most)


@contextlib.contextmanager
def open_rocksdb_store(files: StoreFiles, together: int = 1) -> Iterator[RocksDBRows]:
    """Open ``files.version`` of a store; remove the temporary directory at the end of the block.

    ``together`` is the number of stores open at once, which share a limit of open files.

    Raises StateFormatError if a file is damaged, or missing (MissingStateFile), and StorageError if
    the machine refuses an operation.
    """

    with (
        _materialised(files) as (directory, chain, metadata),
        _replayed(directory, chain, files, together) as database,
    ):
        yield RocksDBRows(database, chain, metadata)


@contextlib.contextmanager
def closed_database(files: StoreFiles) -> Iterator[tuple[str, ArchiveMetadata]]:
    """Make a database of ``files.version`` in a local directory, and leave it closed.

    Yields the directory, which is removed at the end of the block, and the metadata of the
    snapshot. Errors are those of :func:`open_rocksdb_store`.
    """
    with _materialised(files) as (directory, chain, metadata):
        if chain.changes or chain.snapshot is None:
            with _replayed(directory, chain, files, 1) as database, _errors(chain):
                database.flush()
        yield directory, metadata


@contextlib.contextmanager
def _materialised(files: StoreFiles) -> Iterator[tuple[str, Chain, ArchiveMetadata]]:
    chain = find_chain(files, functools.partial(_lineage_of, files))
    directory = make_scratch(parent=files.scratch)
    try:
        metadata = ArchiveMetadata((), 0)
        if chain.snapshot is not None:
            metadata = materialise(files, chain.snapshot, directory)
        yield directory, chain, metadata
    finally:
        remove_scratch(directory)


@contextlib.contextmanager
def _replayed(directory: str, chain: Chain, files: StoreFiles, together: int) -> Iterator[Any]:
    database = _open(directory, chain, open_files(together))
    try:
        for name in chain.changes:
            with open_checked(files, name) as file:
                _replay(database, chain, _changelog(file, files, name).changes(), name)
        yield database
    finally:
        with _errors(chain):
            database.close()


def snapshot_families(files: StoreFiles) -> Families:
    """Return the column families in the snapshot of ``files.version``; none if it has no snapshot.

    Raises StateFormatError if the snapshot is damaged, or missing (MissingStateFile).
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


def family_of(key: bytes, families: Mapping[int, str], name: str) -> str:
    """Return the column family of a key in a store with families.

    Raises StateFormatError, with the file ``name``, if the key has no known family.
    """
    number = family_number(key)
    if number is None:
        raise StateFormatError(name, None, "a key is shorter than the id of its column family")
    if number not in families:
        raise StateFormatError(name, None, f"a key of the unknown column family {number}")
    return families[number]


def _changelog(file: Any, files: StoreFiles, name: str) -> Changelog:
    return read_changelog(Content(decompressed(file, files.compression, name), name))


def _open(directory: str, chain: Chain, most_files: int) -> Any:
    with _errors(chain):
        if chain.snapshot is None or not chain.changes:
            options = _bounded(rocksdict.Options(True), most_files)
            if chain.snapshot is None:
                return rocksdict.Rdict(directory, options=options)
            access = rocksdict.AccessType.read_only()
            return rocksdict.Rdict(directory, options=options, access_type=access)
        # Spark's own options: RocksDB needs their merge operator to join the values that Spark
        # merged.
        options, families = rocksdict.Options.load_latest(directory)
        # The options may name directories elsewhere, in which RocksDB would remove files.
        options.set_wal_dir(directory)
        options.set_db_log_dir(directory)
        for each in (options, *families.values()):  # each family is read with its own options
            _bounded(each, most_files).set_disable_auto_compactions(True)
        return rocksdict.Rdict(directory, options=options, column_families=families)


def _bounded(options: Any, most_files: int) -> Any:
    options.set_max_open_files(most_files)
    options.set_max_sequential_skip_in_iterations(NEVER_SEEK)
    return options


def _errors(chain: Chain) -> contextlib.AbstractContextManager[None]:
    """Convert the binding's errors into StateFormatError, as :func:`rocksdb_errors` does."""
    return rocksdb_errors("RocksDB", lambda text: StateFormatError(chain.name, None, text))


def _replay(database: Any, chain: Chain, changes: Iterator[Change], name: str) -> None:
    """Write the changes of the changelog ``name`` into the database, many at a time.

    RocksDB's binding cannot merge, so a merged value is appended to the existing one. Spark joins
    the records of a list by "," or by nothing (``mergeOperatorVersion``); readers accept both.
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
            with _errors(chain):
                _write(database, pending, name)
            pending, size = {}, 0
    with _errors(chain):
        _write(database, pending, name)


@dataclass(frozen=True)
class _Pending:
    """The changes of one key: its new parts, and whether they replace the existing value."""

    replaces: bool
    parts: list[bytes]


def _write(database: Any, pending: dict[bytes, _Pending], name: str) -> None:
    batch = rocksdict.WriteBatch(raw_mode=True)  # several times faster than single writes
    for key, change in pending.items():
        parts = change.parts
        if not change.replaces:
            before = database.get(key)
            parts = [before, *parts] if before is not None else parts
        if (merged := sum(map(len, parts))) > MAX_ROW:
            raise StateFormatError(name, None, f"a value of {merged} bytes, merged")
        if parts:
            batch.put(key, parts[0] if len(parts) == 1 else b"".join(parts))
        else:
            batch.delete(key)
    database.write(batch, without_log())


def materialise(files: StoreFiles, name: str, directory: str) -> ArchiveMetadata:
    """Create the RocksDB database of a snapshot in a local directory.

    The directory must exist and be empty. Shared SSTs with a local path are linked, other shared
    files are copied. The links are symbolic and leave the source unchanged, because RocksDB never
    writes into an existing SST.

    Raises StateFormatError if the archive is damaged, its metadata is unknown, or a shared file is
    missing or of another size.
    """
    with _open_archive(files, name) as archive:
        members = check_members(archive, name)
        metadata = parse_archive_metadata(archive.read(METADATA_MEMBER), name)
        for member in members:
            with archive.open(member) as source:
                _write_file(os.path.join(directory, member.filename), source, member.file_size)
    for shared in metadata.shared:
        _bring(files, shared.path, os.path.join(directory, shared.local), shared.size)
    return metadata


def read_metadata(files: StoreFiles, name: str) -> ArchiveMetadata:
    """Return the metadata of the snapshot ``name``; errors are those of :func:`materialise`."""
    with open_checked(files, name) as file:
        return read_archive_metadata(file, name)


@contextmanager
def _open_archive(files: StoreFiles, name: str) -> Iterator[zipfile.ZipFile]:
    """Open a snapshot's archive; raise StateFormatError for damage found while it is open."""
    with open_checked(files, name) as file, open_archive(file, name) as archive:
        yield archive


def _bring(files: StoreFiles, path: str, target: str, size: int) -> None:
    if os.path.lexists(target):
        raise StateFormatError(path, None, "the snapshot has a file of this name already")
    local = files.local_path(path)
    # RocksDB never writes into an existing SST, but may write into other files, such as logs.
    if local is not None and target.endswith(".sst") and os.path.exists(local):
        if not os.path.isfile(local):
            raise StateFormatError(path, None, "it is not a regular file")
        os.symlink(os.path.abspath(local), target)
        written = os.stat(target).st_size
    else:
        with open_state_file(files, path) as source:
            written = _write_file(target, source, size)
    if written != size:
        more = "more than " if written > size else ""  # not all of it was read
        reason = f"it has {more}{min(written, size)} bytes where the snapshot says {size}"
        raise StateFormatError(path, min(written, size), reason)


def _write_file(target: str, source: Any, most: int) -> int:
    """Copy up to ``most`` bytes, or one more if the source is larger; return the number written."""
    left = most + 1
    with open(target, "xb") as file:
        while left and (data := source.read(min(left, 1 << 20))):
            left -= file.write(data)
    return most + 1 - left
