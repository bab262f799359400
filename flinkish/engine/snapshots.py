"""RocksDB snapshots on disk: ``<version>.zip`` and the shared files its metadata names.

Spark's ``RocksDBFileManager`` puts RocksDB's small files and ``metadata``
(``RocksDBCheckpointMetadata``) into a zip, and its immutable ones under unique names into ``SSTs/``
and ``logs/``, shared by all versions that have them.
"""

from __future__ import annotations

import errno
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from flinkish.engine.bounds import MAX_ARCHIVE, MAX_MEMBERS, parse_json
from flinkish.engine.errors import StateFormatError, UnsupportedState
from flinkish.engine.files import StoreFiles, open_state_file
from flinkish.engine.sidecars import open_checked

_METADATA = "metadata"
#: Spark 4.0 puts the number of the checkpoint format there (``RocksDBCheckpointMetadata.VERSION``);
#: what follows is the same.
_VERSIONS = {b"v1", b"v2"}
#: Names of RocksDB's files, and of Spark's for them.
_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,200}")
#: What Spark's ``ZipOutputStream`` writes.
_COMPRESSION = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
#: What zipfile raises at damage, depending on where it is.
_BAD_ARCHIVE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, LookupError, ValueError),
    *(NotImplementedError, RuntimeError, OverflowError),
)


@dataclass(frozen=True)
class SnapshotMetadata:
    """What a snapshot says of itself.

    Attributes:
        shared: for each shared file its name in RocksDB, its path in the store and its size.
        rows: the number of rows by Spark's own count; None when it did not count.
        families: the column families' names by their ids, as keys start with them; empty in a store
            that has none (all stores of Spark 3.5).
        internal: the names of those that are Spark's own (counters, indexes).
    """

    shared: tuple[tuple[str, str, int], ...]
    rows: int | None
    families: dict[int, str] = field(default_factory=dict)
    internal: frozenset[str] = frozenset()


def materialise(files: StoreFiles, name: str, directory: str) -> SnapshotMetadata:
    """Make the RocksDB database of a snapshot in a local directory, which must exist and be empty.

    Shared files are linked to (symbolic links: nothing of the source is changed, and RocksDB never
    writes into a file it has) where the store has local paths, otherwise copied.

    Raises:
        StateFormatError: the archive is damaged, its metadata unknown, a shared file missing or of
            another size.
    """
    with _open_archive(files, name) as archive:
        members = _check_members(archive, name)
        metadata = parse_metadata(archive.read(_METADATA), name)
        for member in members:
            with archive.open(member) as source:
                _write(os.path.join(directory, member.filename), source, member.file_size)
    for local, path, size in metadata.shared:
        _bring(files, path, os.path.join(directory, local), size)
    return metadata


def read_metadata(files: StoreFiles, name: str) -> SnapshotMetadata:
    """What the snapshot ``name`` says of itself; errors are those of :func:`materialise`."""
    with _open_archive(files, name) as archive:
        _check_members(archive, name)
        return parse_metadata(archive.read(_METADATA), name)


@contextmanager
def _open_archive(files: StoreFiles, name: str) -> Iterator[zipfile.ZipFile]:
    """Open a snapshot's archive; StateFormatError for damage that is met while it is open."""
    try:
        with open_checked(files, name) as file, zipfile.ZipFile(file) as archive:
            yield archive
    except _BAD_ARCHIVE as error:
        raise StateFormatError(name, None, f"not a readable snapshot: {error}") from error
    except OSError as error:
        if error.errno != errno.EINVAL:  # zipfile seeks to places before the file's start
            raise
        raise StateFormatError(name, None, f"not a readable snapshot: {error}") from error


def _check_members(archive: zipfile.ZipFile, name: str) -> list[zipfile.ZipInfo]:
    """The members that are RocksDB's; sizes are what zipfile reads of each, at most.

    Raises StateFormatError for what Spark does not write: names that leave the directory or come
    twice, other compression, and more than so many bytes or members.
    """
    members = archive.infolist()
    for member in members:
        # zipfile asks for as many bytes at once as the directory says that a member has.
        if member.header_offset + member.compress_size > archive.start_dir:
            reason = f"the member {member.filename[:100]!r} is larger than the archive"
            raise StateFormatError(name, None, reason)
    total = sum(member.file_size for member in members)
    if len(members) > MAX_MEMBERS or total > MAX_ARCHIVE:
        reason = f"it has {len(members)} members of {total} bytes: more than any snapshot"
        raise StateFormatError(name, None, reason)
    if len({member.filename for member in members}) != len(members):
        raise StateFormatError(name, None, "it has a member twice")
    found = []
    for member in members:
        if member.compress_type not in _COMPRESSION:
            reason = f"the member {member.filename[:100]!r} has a compression Spark does not use"
            raise StateFormatError(name, None, reason)
        if member.filename == _METADATA or member.filename.endswith("/"):
            continue
        _check_plain(member.filename, name)
        found.append(member)
    return found


def parse_metadata(data: bytes, name: str) -> SnapshotMetadata:
    """Parse the member ``metadata`` of the snapshot ``name``; StateFormatError at damage."""
    version, _, body = data.partition(b"\n")
    if version not in _VERSIONS:
        text = version[:20].decode("utf-8", "replace")
        reason = f"snapshot metadata of version {text!r}; known are 'v1' and 'v2'"
        raise UnsupportedState(name, None, reason)
    try:
        parsed: dict[str, Any] = parse_json(body)
        ssts, logs = parsed["sstFiles"], parsed.get("logFiles") or ()
        shared = [_shared(f, f"SSTs/{f['dfsSstFileName']}", name) for f in ssts]
        shared += [_shared(f, f"logs/{f['dfsLogFileName']}", name) for f in logs]
        rows = int(parsed.get("numKeys", -1))
        internal = int(parsed.get("numInternalKeys", 0))
        mapping = parsed.get("columnFamilyMapping") or {}
        families = {int(number): str(family) for family, number in mapping.items()}
        kinds = parsed.get("columnFamilyTypeMap") or {}
        own = frozenset(str(family) for family, internal in kinds.items() if internal)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise StateFormatError(name, None, "its metadata has an unknown form") from error
    return SnapshotMetadata(tuple(shared), rows + internal if rows >= 0 else None, families, own)


def _shared(entry: dict[str, Any], path: str, name: str) -> tuple[str, str, int]:
    local = str(entry["localFileName"])
    _check_plain(local, name)
    _check_plain(path.partition("/")[2], name)
    size = int(entry["sizeBytes"])
    if size < 0:
        raise ValueError(f"a file of {size} bytes")
    return local, path, size


def _check_plain(member: str, name: str) -> None:
    """A name that would leave the directory is an attack or damage, never Spark's."""
    if not _PLAIN.fullmatch(member) or member in {".", ".."}:
        raise StateFormatError(name, None, f"it names a file outside the store: {member!r}")


def _bring(files: StoreFiles, path: str, target: str, size: int) -> None:
    if os.path.lexists(target):
        raise StateFormatError(path, None, "the snapshot has a file of this name already")
    local = files.local_path(path)
    # RocksDB never writes into a table; into others, such as logs, it may.
    if local is not None and target.endswith(".sst") and os.path.exists(local):
        if not os.path.isfile(local):
            raise StateFormatError(path, None, "it is not a regular file")
        os.symlink(os.path.abspath(local), target)
        found = os.stat(target).st_size
    else:
        with open_state_file(files, path) as source:
            found = _write(target, source, size)
    if found != size:
        reason = f"it has {found} bytes where the snapshot says {size}"
        raise StateFormatError(path, min(found, size), reason)


def _write(target: str, source: Any, most: int) -> int:
    """Copy a file of so many bytes at most, and one more where it has more; how many it were."""
    left = most + 1
    with open(target, "xb") as file:
        while left and (data := source.read(min(left, 1 << 20))):
            left -= file.write(data)
    return most + 1 - left
