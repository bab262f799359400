"""Writing of RocksDB snapshots: ``<version>.zip`` and its SSTs, as Spark's ``RocksDBFileManager``.

The rows are sorted, a bounded number at a time, and written as SSTs that a new database ingests
unchanged. This is several times faster than putting unsorted rows into the database. Rows that come
in key order are written as they come (:class:`.SortedRows`), possibly on another machine. The
database has the options of Spark's ``RocksDB`` that affect its files: LZ4, block format 5, a Bloom
filter of 10 bits. The snapshot consists of its SSTs and its small files. They are not the same
bytes as Spark's own: database ids, file numbers and times differ, and possibly the version of
RocksDB. The (empty) log file and blobs are not written.
"""

from __future__ import annotations

import io
import itertools
import os
import shutil
import uuid
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

import rocksdict

from flinkish.checkpoint.format.archives import METADATA_MEMBER, SharedFile, write_archive_metadata
from flinkish.checkpoint.format.names import SST_DIRECTORY
from flinkish.engine.errors import EngineError
from flinkish.engine.rows.arrow_parts import in_pieces
from flinkish.engine.stores.rocksdb import make_scratch, remove_scratch, rocksdb_errors
from flinkish.engine.stores.sst_files import Runs, family_number, sst_error, sst_options

#: Id of the column family, keys, values.
FamilyRows = tuple[int | None, Sequence[bytes], Sequence[bytes]]
#: The files of each run, and the number of rows in all runs by family id.
_Runs = tuple[Sequence[Sequence[str]], Mapping[int | None, int]]
#: More runs than this, which all overlap, are compacted into SSTs that do not overlap. Otherwise
#: readers would have to search every one, and Spark's own RocksDB would start with the same
#: compaction.
MAX_RUNS: Final = 4
_SMALL_FILES = ("CURRENT", "MANIFEST-", "OPTIONS-")


@dataclass(frozen=True)
class Families:
    """The column families of a store; empty for a store without column families.

    ``ids`` are by name. ``internal`` families are Spark's own; their rows are counted separately.
    """

    ids: Mapping[str, int] = field(default_factory=dict)
    internal: frozenset[str] = frozenset()


NO_FAMILIES: Final = Families()


def write_snapshot(
    rows: Iterable[tuple[bytes, bytes]],
    create: Callable[[str], BinaryIO],
    name: str,
    *,
    families: Families = NO_FAMILIES,
    with_families: bool = True,
    scratch: str | None = None,
) -> int:
    """Write a snapshot of a store; the archive is written last, and completes the snapshot.

    Memory is bounded by a few times ``MAX_RUN_BYTES``. The local disk must hold the snapshot once,
    or twice if there are more than ``MAX_RUNS`` runs.

    Returns the number of rows. ``rows`` are encoded as in RocksDB, each key once, in any order.
    Keys begin with their family's id if the store has families. Values that were read from RocksDB
    must be converted by :func:`~flinkish.engine.rows.encodings.normal_value` first. ``create``
    opens a path relative to the store's directory for writing. ``name`` is the archive's,
    ``<version>.zip`` or ``<version>_<unique id>.zip``. For ``with_families`` see
    :func:`~flinkish.checkpoint.format.archives.write_archive_metadata`. ``scratch`` is a local
    directory; None means the system's temporary directory.

    Raises EngineError if a key has no family of the store, or RocksDB fails (LostRows if RocksDB
    finds a key twice), and StorageError if the machine refuses an operation.
    """
    family_ids = set(families.ids.values())

    def pieces() -> Iterator[FamilyRows]:
        for piece in in_pieces(rows):
            for family, group in itertools.groupby(piece, lambda row: _family(row[0], family_ids)):
                keys, values = zip(*group, strict=True)
                yield family, keys, values

    return write_pieces(
        pieces(), create, name, families=families, with_families=with_families, scratch=scratch
    )


def write_pieces(
    pieces: Iterable[FamilyRows],
    create: Callable[[str], BinaryIO],
    name: str,
    *,
    families: Families = NO_FAMILIES,
    with_families: bool = True,
    version: int = 1,
    scratch: str | None = None,
    adopt: Callable[[str, str], bool] | None = None,
) -> int:
    """Write a snapshot from batches of rows.

    It does less work for each row than :func:`write_snapshot`. Each element of ``pieces`` is (the
    family's id, keys, values). The keys begin with that id, which is None in a store without
    families. ``adopt(path, name)`` moves a local file to a place in the store and returns True, or
    returns False for a file that must be copied by ``create``. ``version`` is the version in the
    archive's metadata.
    """
    return _write(
        lambda directory: _sorted_runs(directory, pieces),
        create,
        name,
        families=families,
        with_families=with_families,
        version=version,
        scratch=scratch,
        adopt=adopt,
    )


def write_runs(
    runs: Sequence[Sequence[str]],
    counts: Mapping[int | None, int],
    bring: Callable[[str, str], None],
    create: Callable[[str], BinaryIO],
    name: str,
    *,
    families: Families = NO_FAMILIES,
    with_families: bool = True,
    version: int = 1,
    adopt: Callable[[str, str], bool] | None = None,
) -> int:
    """Write a snapshot from the files of :class:`~.sst_files.SortedRows`, which stay as they are.

    ``runs`` are the files of each writer; ``bring(file, path)`` puts one of them at a local path,
    as a link or a copy. ``counts`` are the numbers of rows in the files by family id. The other
    parameters are as in :func:`write_pieces`.
    """

    def brought(directory: str) -> _Runs:
        local = [
            [os.path.join(directory, f"{number}-{place}.run") for place in range(len(files))]
            for number, files in enumerate(runs)
        ]
        for files, paths in zip(runs, local, strict=True):
            for file, path in zip(files, paths, strict=True):
                bring(file, path)
        return local, counts

    return _write(
        brought,
        create,
        name,
        families=families,
        with_families=with_families,
        version=version,
        scratch=None,
        adopt=adopt,
    )


def _write(
    prepare: Callable[[str], _Runs],
    create: Callable[[str], BinaryIO],
    name: str,
    *,
    families: Families,
    with_families: bool,
    version: int,
    scratch: str | None,
    adopt: Callable[[str, str], bool] | None,
) -> int:
    """Write a snapshot of the runs that ``prepare`` puts into a local directory."""
    directory = make_scratch(parent=scratch)
    try:
        runs, counts = prepare(directory)
        _ingest(directory, runs)
        internal = sum(counts.get(families.ids[f], 0) for f in families.internal)
        total = sum(counts.values())
        files = sorted(os.listdir(directory))
        metadata = write_archive_metadata(
            [_share(directory, file, create, adopt) for file in files if file.endswith(".sst")],
            total - internal,
            internal,
            families.ids,
            families.internal,
            with_families=with_families,
            version=version,
        )
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
            for file in files:
                if file.startswith(_SMALL_FILES):
                    target.write(os.path.join(directory, file), file)
            target.writestr(METADATA_MEMBER, metadata)
        with create(name) as output:
            output.write(archive.getbuffer())
        return total
    finally:
        remove_scratch(directory)


def _share(
    directory: str,
    file: str,
    create: Callable[[str], BinaryIO],
    adopt: Callable[[str, str], bool] | None,
) -> SharedFile:
    path = os.path.join(directory, file)
    size = os.path.getsize(path)
    shared = f"{SST_DIRECTORY}/{file.removesuffix('.sst')}-{uuid.uuid4()}.sst"
    if adopt is None or not adopt(path, shared):
        with open(path, "rb") as source, create(shared) as target:
            shutil.copyfileobj(source, target, 1 << 20)
    return SharedFile(file, shared, size)


def _sorted_runs(
    directory: str, pieces: Iterable[FamilyRows]
) -> tuple[list[list[str]], dict[int | None, int]]:
    """Sort rows into SSTs below a directory; return them, and the number of rows by family id."""
    counts: dict[int | None, int] = {}
    runs = Runs(directory)
    for family, keys, values in pieces:
        counts[family] = counts.get(family, 0) + len(keys)
        runs.add(keys, values)
    runs.finish()
    return [[path] for path in runs.paths], counts


def _ingest(directory: str, runs: Sequence[Sequence[str]]) -> None:
    """Make a database of SSTs, which are moved into it; no key is in two files of one run."""
    with rocksdb_errors(make=sst_error):
        database: Any = rocksdict.Rdict(directory, options=sst_options())
        try:
            ingest = rocksdict.IngestExternalFileOptions()
            ingest.set_move_files(True)
            # Runs overlap, so each one is ingested by a call of its own.
            for paths in runs:
                database.ingest_external_file(list(paths), ingest)
            if len(runs) > MAX_RUNS:
                database.compact_range(None, None)
        finally:
            database.close()


def _family(key: bytes, numbers: set[int]) -> int | None:
    if not numbers:
        return None
    number = family_number(key)
    if number not in numbers:
        raise EngineError(f"a key of the unknown column family {number}")
    return number
