"""RocksDB snapshot archives, ``<version>.zip``: their members, and the one called ``metadata``.

Spark's ``RocksDBFileManager`` puts RocksDB's small files and ``metadata``
(``RocksDBCheckpointMetadata``) into a zip, and RocksDB's immutable files under unique names into
``SSTs/`` and ``logs/``, where all versions that use them share them.
"""

from __future__ import annotations

import errno
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, Final

from flinkish.checkpoint.format.errors import CannotWrite, CheckpointFormatError
from flinkish.checkpoint.format.names import LOG_DIRECTORY, SST_DIRECTORY
from flinkish.checkpoint.format.text import json_bytes, parse_object, split_version

METADATA_MEMBER: Final = "metadata"
#: Largest total size of an archive's members, bytes: CURRENT, MANIFEST, OPTIONS, metadata.
MAX_ARCHIVE: Final = 256 << 20
MAX_MEMBERS: Final = 10_000
#: Names of RocksDB's files, and Spark's names for them.
_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,200}")
#: The compression methods of Spark's ``ZipOutputStream``.
_COMPRESSION: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
#: What zipfile raises for damage, depending on its place.
_BAD_ARCHIVE: Final = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, LookupError),
    *(NotImplementedError, RuntimeError, OverflowError, ValueError),
)


@dataclass(frozen=True)
class SharedFile:
    """A file that snapshots may share: its name in RocksDB, path in the store, size in bytes."""

    local: str
    path: str
    size: int


@dataclass(frozen=True)
class ArchiveMetadata:
    """The metadata of a snapshot.

    ``shared`` are the files outside the archive. ``rows`` is Spark's own count, with the rows of
    internal families; None if Spark did not count. ``families`` are the names of the column
    families by their ids, with which the keys of rows start; empty in a store without families (as
    all stores of Spark 3.5 are). ``internal`` families are Spark's own (counters, indexes).
    """

    shared: tuple[SharedFile, ...]
    rows: int | None
    families: dict[int, str] = field(default_factory=dict)
    internal: frozenset[str] = frozenset()


@contextmanager
def open_archive(file: IO[bytes], name: str) -> Iterator[zipfile.ZipFile]:
    """Open a snapshot's archive.

    Raises CheckpointFormatError for damage that is found while the archive is open.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except CheckpointFormatError:
        raise
    except _BAD_ARCHIVE as error:
        raise CheckpointFormatError(name, None, f"not a readable snapshot: {error}") from error
    except OSError as error:
        if error.errno != errno.EINVAL:  # zipfile seeks to places before the file's start
            raise
        raise CheckpointFormatError(name, None, f"not a readable snapshot: {error}") from error


def check_members(archive: zipfile.ZipFile, name: str) -> list[zipfile.ZipInfo]:
    """Check an archive's members, and return those of RocksDB.

    zipfile reads at most the declared size of each member. Raises CheckpointFormatError for members
    that Spark does not write: names that leave the directory or repeat, another compression, a
    member larger than the archive, or more than ``MAX_ARCHIVE`` bytes or ``MAX_MEMBERS`` members.
    """
    members = archive.infolist()
    for member in members:
        # zipfile reads as many bytes at once as the directory declares for a member.
        if member.header_offset + member.compress_size > archive.start_dir:
            reason = f"the member {member.filename[:100]!r} is larger than the archive"
            raise CheckpointFormatError(name, member.header_offset, reason)
    total = sum(member.file_size for member in members)
    if len(members) > MAX_MEMBERS or total > MAX_ARCHIVE:
        reason = f"it has {len(members)} members of {total} bytes: more than any snapshot"
        raise CheckpointFormatError(name, None, reason)
    if len({member.filename for member in members}) != len(members):
        raise CheckpointFormatError(name, None, "it has a member twice")
    files = []
    for member in members:
        if member.compress_type not in _COMPRESSION:
            reason = f"the member {member.filename[:100]!r} has a compression Spark does not use"
            raise CheckpointFormatError(name, member.header_offset, reason)
        if member.filename == METADATA_MEMBER or member.filename.endswith("/"):
            continue
        _check_plain(member.filename, name)
        files.append(member)
    return files


def read_archive_metadata(file: IO[bytes], name: str) -> ArchiveMetadata:
    """Read the metadata of a snapshot's archive.

    Raises UnsupportedCheckpointFormat for a newer version, CheckpointFormatError if it is damaged.
    """
    with open_archive(file, name) as archive:
        check_members(archive, name)
        return parse_archive_metadata(archive.read(METADATA_MEMBER), name)


def parse_archive_metadata(data: bytes, name: str) -> ArchiveMetadata:
    """Parse the member ``metadata`` of the archive ``name``.

    Spark 4.0 writes the number of the checkpoint format as the version (``v2``); the content is the
    same. Raises the errors of :func:`read_archive_metadata`.
    """
    _, start = split_version(data, name, "snapshot metadata")
    parsed = parse_object(data[start:], name, start)
    try:
        ssts, logs = parsed["sstFiles"], parsed.get("logFiles") or ()
        shared = [_shared(f, SST_DIRECTORY, f["dfsSstFileName"], name) for f in ssts]
        shared += [_shared(f, LOG_DIRECTORY, f["dfsLogFileName"], name) for f in logs]
        rows = int(parsed.get("numKeys", -1))
        internal = int(parsed.get("numInternalKeys", 0))
        mapping = parsed.get("columnFamilyMapping") or {}
        families = {int(number): str(family) for family, number in mapping.items()}
        kinds = parsed.get("columnFamilyTypeMap") or {}
        own = frozenset(str(family) for family, internal in kinds.items() if internal)
    except CheckpointFormatError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise CheckpointFormatError(name, None, "its metadata has an unknown form") from error
    return ArchiveMetadata(tuple(shared), rows + internal if rows >= 0 else None, families, own)


def _shared(entry: Mapping[str, Any], folder: str, unique: object, name: str) -> SharedFile:
    local = str(entry["localFileName"])
    _check_plain(local, name)
    _check_plain(str(unique), name)
    size = int(entry["sizeBytes"])
    if size < 0:
        raise ValueError(f"a file of {size} bytes")
    return SharedFile(local, f"{folder}/{unique}", size)


def _check_plain(member: str, name: str) -> None:
    """Refuse a name that would leave the directory: it is an attack or damage, never Spark's."""
    if not _PLAIN.fullmatch(member) or member in {".", ".."}:
        raise CheckpointFormatError(name, None, f"it names a file outside the store: {member!r}")


def write_archive_metadata(
    shared: Iterable[SharedFile],
    rows: int,
    internal_rows: int = 0,
    families: Mapping[str, int] | None = None,
    internal: Iterable[str] = (),
    *,
    with_families: bool = True,
    version: int = 1,
) -> bytes:
    """Return the bytes of the member ``metadata`` of a snapshot.

    ``shared`` are the snapshot's files in ``SSTs/``. ``rows`` is the number of rows in families
    that are not ``internal``, ``internal_rows`` the number in those that are. ``families`` are ids
    by name. ``with_families`` writes what Spark 4 added and Spark 3.5 does not have; Spark 4 reads
    metadata with and without it. ``version`` is 1, or 2 for Spark 4.0 with checkpoint format 2.
    Raises CannotWrite if there are families without ``with_families``.
    """
    ids = dict(families or {})
    body: dict[str, Any] = {
        "sstFiles": [
            {
                "localFileName": file.local,
                "dfsSstFileName": file.path.removeprefix(f"{SST_DIRECTORY}/"),
                "sizeBytes": file.size,
            }
            for file in shared
        ],
        "numKeys": rows,
    }
    if with_families:
        own = frozenset(internal)
        body["numInternalKeys"] = internal_rows
        body["columnFamilyMapping"] = ids
        body["columnFamilyTypeMap"] = {name: name in own for name in ids}
        body["maxColumnFamilyId"] = max(ids.values(), default=0)
    elif ids:
        raise CannotWrite("snapshots of Spark 3.5 have no column families")
    return b"v%d\n" % version + json_bytes(body)
