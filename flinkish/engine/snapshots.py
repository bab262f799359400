"""RocksDB snapshots on disk: ``<version>.zip`` and the shared files its metadata names.

Spark's ``RocksDBFileManager`` puts RocksDB's small files and ``metadata``
(``RocksDBCheckpointMetadata``) into a zip, and its immutable ones under unique names into ``SSTs/``
and ``logs/``, shared by all versions that have them.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import zipfile
import zlib
from dataclasses import dataclass, field
from typing import Any

from flinkish.engine.errors import StateFormatError, UnsupportedState
from flinkish.engine.files import StoreFiles, open_state_file
from flinkish.engine.sidecars import open_checked

_METADATA = "metadata"
#: Spark 4.0 puts the number of the checkpoint format there (``RocksDBCheckpointMetadata.VERSION``);
#: what follows is the same.
_VERSIONS = {b"v1", b"v2"}
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
    try:
        with open_checked(files, name) as file, zipfile.ZipFile(file) as archive:
            metadata = parse_metadata(archive.read(_METADATA), name)
            for member in archive.namelist():
                if member == _METADATA or member.endswith("/"):
                    continue
                _check_plain(member, name)
                with archive.open(member) as source:
                    _write(os.path.join(directory, member), source)
    except _BAD_ARCHIVE as error:
        raise StateFormatError(name, None, f"not a readable snapshot: {error}") from error
    for local, path, size in metadata.shared:
        _bring(files, path, os.path.join(directory, local), size)
    return metadata


def read_metadata(files: StoreFiles, name: str) -> SnapshotMetadata:
    """What the snapshot ``name`` says of itself; errors are those of :func:`materialise`."""
    try:
        with open_checked(files, name) as file, zipfile.ZipFile(file) as archive:
            return parse_metadata(archive.read(_METADATA), name)
    except _BAD_ARCHIVE as error:
        raise StateFormatError(name, None, f"not a readable snapshot: {error}") from error


def parse_metadata(data: bytes, name: str) -> SnapshotMetadata:
    """Parse the member ``metadata`` of the snapshot ``name``; StateFormatError at damage."""
    version, _, body = data.partition(b"\n")
    if version not in _VERSIONS:
        text = version[:20].decode("utf-8", "replace")
        reason = f"snapshot metadata of version {text!r}; known are 'v1' and 'v2'"
        raise UnsupportedState(name, None, reason)
    try:
        parsed: dict[str, Any] = json.loads(body)
        ssts, logs = parsed["sstFiles"], parsed.get("logFiles") or ()
        shared = [_shared(f, f"SSTs/{f['dfsSstFileName']}", name) for f in ssts]
        shared += [_shared(f, f"logs/{f['dfsLogFileName']}", name) for f in logs]
        rows = int(parsed.get("numKeys", -1))
        internal = int(parsed.get("numInternalKeys", 0))
        mapping = parsed.get("columnFamilyMapping") or {}
        families = {int(number): str(family) for family, number in mapping.items()}
        kinds = parsed.get("columnFamilyTypeMap") or {}
        own = frozenset(str(family) for family, internal in kinds.items() if internal)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StateFormatError(name, None, "its metadata has an unknown form") from error
    return SnapshotMetadata(tuple(shared), rows + internal if rows >= 0 else None, families, own)


def _shared(entry: dict[str, Any], path: str, name: str) -> tuple[str, str, int]:
    local = str(entry["localFileName"])
    _check_plain(local, name)
    _check_plain(path.partition("/")[2], name)
    return local, path, int(entry["sizeBytes"])


def _check_plain(member: str, name: str) -> None:
    """A name that would leave the directory is an attack or damage, never Spark's."""
    if not member or member in {".", ".."} or "/" in member or "\\" in member:
        raise StateFormatError(name, None, f"it names a file outside the store: {member!r}")


def _bring(files: StoreFiles, path: str, target: str, size: int) -> None:
    local = files.local_path(path)
    if local is not None and os.path.exists(local):
        os.symlink(os.path.abspath(local), target)
    else:
        with open_state_file(files, path) as source:
            _write(target, source)
    found = os.stat(target).st_size
    if found != size:
        reason = f"it has {found} bytes where the snapshot says {size}"
        raise StateFormatError(path, min(found, size), reason)


def _write(target: str, source: Any) -> None:
    with open(target, "xb") as file:
        shutil.copyfileobj(source, file, 1 << 20)
