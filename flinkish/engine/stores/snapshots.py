"""RocksDB snapshots on the local disk: the archive and the shared files that it names."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flinkish.checkpoint.format.archives import (
    METADATA_MEMBER,
    ArchiveMetadata,
    check_members,
    open_archive,
    parse_archive_metadata,
    read_archive_metadata,
)
from flinkish.engine.errors import StateFormatError
from flinkish.engine.stores.files import StoreFiles, open_state_file
from flinkish.engine.stores.sidecars import open_checked


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
                _write(os.path.join(directory, member.filename), source, member.file_size)
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
            written = _write(target, source, size)
    if written != size:
        reason = f"it has {written} bytes where the snapshot says {size}"
        raise StateFormatError(path, min(written, size), reason)


def _write(target: str, source: Any, most: int) -> int:
    """Copy a file up to ``most`` bytes, and one byte more if it is larger.

    Returns the number of bytes written.
    """
    left = most + 1
    with open(target, "xb") as file:
        while left and (data := source.read(min(left, 1 << 20))):
            left -= file.write(data)
    return most + 1 - left
