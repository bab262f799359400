"""A state store's files, on any storage: their directories, their names, and checksum sidecars.

Sidecars are not Hadoop's ``.<file>.crc``: Spark's (``ChecksumCheckpointFileManager``) are JSON with
the CRC-32C and the size of the whole file. A file without a sidecar is read unchecked, as in Spark.

Spark's workers receive directory objects, so these must be picklable. They must not hold
credentials that the workers do not have anyway.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO, Final, Protocol

import crc32c

from flinkish.annotations import public_evolving
from flinkish.checkpoint.format import chains
from flinkish.checkpoint.format.chains import Chain, Lineage
from flinkish.checkpoint.format.names import HDFS, state_files_among
from flinkish.checkpoint.format.text import parse_json
from flinkish.engine.bounds import MAX_SMALL, read_up_to
from flinkish.engine.errors import MissingStateFile, StateFormatError, UnsupportedState
from flinkish.storage.deletion import remove_tree
from flinkish.storage.directory import StorageDirectory
from flinkish.storage.errors import NotRegular, storage_error
from flinkish.storage.local import open_file

UNSAFE_ROW: Final = "unsaferow"


def _no_local_path(_: str) -> str | None:
    return None


@dataclass(frozen=True)
class StoreFiles:
    """One state store (of one partition) at one version.

    ``names`` are the entries of the store's directory, without the content of subdirectories; they
    may include later versions, and files other than state files. ``version`` is the number of the
    batch + 1. ``open`` opens a path relative to the store's directory, including ``SSTs/<name>`` of
    RocksDB, or raises FileNotFoundError. ``backend`` is ``HDFS``, ``ROCKSDB`` or ``CANONICAL``.
    ``unique_id`` is the id of this version in checkpoint format 2 (``stateUniqueIds`` in the commit
    log); None in format 1. ``compression``, ``row_checksums`` and ``encoding`` are settings under
    ``spark.sql.streaming.stateStore``; row checksums and encodings other than ``unsaferow`` are not
    supported. ``local_path`` returns the local path of a file, or None; RocksDB's SSTs with a local
    path are linked instead of copied. ``scratch`` is a directory for local files; None means
    the system's temporary directory.
    """

    names: tuple[str, ...]
    version: int
    open: Callable[[str], BinaryIO]
    backend: str
    unique_id: str | None = None
    compression: str = "lz4"
    row_checksums: bool = False
    encoding: str = UNSAFE_ROW
    local_path: Callable[[str], str | None] = field(default=_no_local_path)
    scratch: str | None = None


def local_store(
    directory: str,
    version: int,
    backend: str,
    *,
    unique_id: str | None = None,
    compression: str = "lz4",
) -> StoreFiles:
    """Return the files of a store in a local directory; an absent directory has none."""
    root = os.path.abspath(directory)

    def open_local(name: str) -> BinaryIO:
        return open_file(os.path.join(root, name))

    return StoreFiles(
        names=tuple(sorted(os.listdir(root))) if os.path.isdir(root) else (),
        version=version,
        open=open_local,
        backend=backend,
        unique_id=unique_id,
        compression=compression,
        local_path=lambda name: os.path.join(root, name),
    )


def open_state_file(files: StoreFiles, name: str) -> BinaryIO:
    """Open a file of the store; raise MissingStateFile if it does not exist."""
    try:
        return files.open(name)
    except FileNotFoundError as error:
        raise MissingStateFile(name, None, "the file is missing") from error
    except (NotRegular, IsADirectoryError) as error:
        raise StateFormatError(name, None, "it is not a regular file") from error


def read_small(files: StoreFiles, name: str) -> bytes:
    """Return the content of a small file of the store.

    Raises StateFormatError if the file is missing (MissingStateFile), not a regular file, or larger
    than ``MAX_SMALL`` bytes.
    """
    with open_state_file(files, name) as file:
        data = read_up_to(file, MAX_SMALL)
    if data is None:
        raise StateFormatError(name, None, f"it has more than {MAX_SMALL} bytes")
    return data


def find_chain(files: StoreFiles, lineage_of: Callable[[str], Lineage | None]) -> Chain:
    """Find the files that make up ``files.version``.

    The files are found by their names and, in checkpoint format 2, by the lineage at the start of
    a changelog. ``lineage_of`` reads the lineage.

    Raises MissingStateFile if a file that the version needs is missing, UnsupportedState if the
    store has a unique id but is HDFS-backed, and the errors of ``lineage_of``.
    """
    listed = state_files_among(files.names)
    if files.unique_id is None:
        return chains.find_chain(listed, files.version, files.backend)
    if files.backend == HDFS:
        raise UnsupportedState("", None, "HDFS-backed stores have no unique ids")
    return chains.find_chain_by_lineage(listed, files.version, files.unique_id, lineage_of)


_READ = 1 << 20


def open_checked(files: StoreFiles, name: str) -> BinaryIO:
    """Open a state file after comparing it with its sidecar, if it has one.

    Raises StateFormatError if they differ, the sidecar is damaged, or the file is missing
    (MissingStateFile) or not a regular file; UnsupportedState for an algorithm other than CRC-32C;
    and StorageError if reading is refused.
    """
    file = open_state_file(files, name)
    if f"{name}.crc" not in files.names:
        return file
    try:
        size, value = _read_sidecar(files, f"{name}.crc")
        if _size_and_checksum(file) != (size, value):
            raise StateFormatError(name, None, "the file does not match its checksum file")
        if file.seekable():
            file.seek(0)
            return file
    except BaseException as error:
        file.close()
        if isinstance(error, OSError):
            raise storage_error("read", name, error) from error
        raise
    file.close()
    return open_state_file(files, name)


def _size_and_checksum(file: BinaryIO) -> tuple[int, int]:
    size = value = 0
    while data := file.read(_READ):
        size += len(data)
        value = crc32c.crc32c(data, value)
    return size, value


def _read_sidecar(files: StoreFiles, name: str) -> tuple[int, int]:
    text = read_small(files, name)
    try:
        parsed = parse_json(text)
        algorithm = str(parsed["algorithm"])
        size, value = int(parsed["mainFileSize"]), int(parsed["value"])
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise StateFormatError(name, None, "damaged checksum file") from error
    if algorithm != "CRC32C":
        raise UnsupportedState(
            name, None, f"the checksum algorithm {algorithm[:20]!r} is not supported"
        )
    return size, value & 0xFFFFFFFF  # Java writes it as a signed int


class StateSource(Protocol):
    """Files below a root. Paths are relative to it, with slashes."""

    def names(self, path: str) -> list[str]:
        """Return the names of the files and directories in a directory; [] if there is none."""
        ...

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading; raise FileNotFoundError if it does not exist."""
        ...

    def local_path(self, path: str) -> str | None:
        """Return the file's path on this machine, or None if it has none."""
        ...


class StateTarget(StateSource, Protocol):
    """A source that can be written to.

    A file that does not exist yet may be put at its local path, if it has one, without ``create``.
    """

    def create(self, path: str) -> BinaryIO:
        """Create or replace a file, and create its directories. Closing the file completes it."""
        ...

    def move(self, path: str, target: str) -> None:
        """Move a file, or a directory with its content; the target must not exist."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with its content; do nothing if it does not exist."""
        ...


@public_evolving
class LocalDirectory(StorageDirectory):
    """A directory that all workers reach by the same path, which may be a relative one."""

    def _at(self, path: str) -> str:
        return StorageDirectory(os.path.abspath(self.root))._at(path)

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with its content; do nothing if it does not exist."""
        remove_tree(os.path.abspath(self.root), path)


def read_bytes(source: StateSource, path: str) -> bytes:
    """Return the content of a small file.

    Raises FileNotFoundError if there is no file, and StateFormatError if it is not a regular file
    or has more than ``MAX_SMALL`` bytes.
    """
    try:
        with source.open(path) as file:
            data = read_up_to(file, MAX_SMALL)
    except (NotRegular, IsADirectoryError) as error:
        raise StateFormatError(path, None, "it is not a regular file") from error
    if data is None:
        raise StateFormatError(path, None, f"it has more than {MAX_SMALL} bytes")
    return data
