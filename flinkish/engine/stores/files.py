"""What a state store's files are to the engine: names, and a way to open them on any storage."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from flinkish.engine.bounds import MAX_SMALL
from flinkish.engine.errors import MissingStateFile, StateFormatError
from flinkish.engine.stores.regular_files import NotRegular, open_regular, read_up_to

UNSAFE_ROW: Final = "unsaferow"


def _no_local_path(_: str) -> str | None:
    return None


@dataclass(frozen=True)
class StoreFiles:
    """One state store (of one partition) at one version.

    Attributes:
        names: the files in the store's directory, without those of its sub-directories; others than
            state files and later versions may be among them.
        version: the state's version, which is its batch's number + 1.
        open: opens a path relative to the store's directory for reading; raises
            ``FileNotFoundError`` when there is none. Files of RocksDB are at ``SSTs/<name>`` too.
        backend: ``HDFS`` (Spark's ``HDFSBackedStateStoreProvider``), ``ROCKSDB`` or ``CANONICAL``.
        unique_id: the id of this version in checkpoint format 2 (Spark's ``stateUniqueIds`` in the
            commit log); None in format 1.
        compression: of ``spark.sql.streaming.stateStore.compression.codec``.
        row_checksums: ``spark.sql.streaming.stateStore.rowChecksum.enabled``; refused so far.
        encoding: ``spark.sql.streaming.stateStore.encodingFormat``; others than ``unsaferow`` are
            refused so far.
        local_path: the local path of a file, where it has one: RocksDB's files are then linked to
            instead of copied.
        scratch: directory for local files; the system's temporary directory by default.
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
    """The files of a store in a local directory; an absent directory has none."""
    root = os.path.abspath(directory)

    def open_local(name: str) -> BinaryIO:
        return open_regular(os.path.join(root, name))

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
    """Open a file of the store; MissingStateFile when it is not there."""
    try:
        return files.open(name)
    except FileNotFoundError as error:
        raise MissingStateFile(name, None, "the file is missing") from error
    except (NotRegular, IsADirectoryError) as error:
        raise StateFormatError(name, None, "it is not a regular file") from error


def read_small(files: StoreFiles, name: str) -> bytes:
    """The content of a small file of the store; StateFormatError: it is missing, or too large."""
    with open_state_file(files, name) as file:
        data = read_up_to(file, MAX_SMALL)
    if data is None:
        raise StateFormatError(name, None, f"it has more than {MAX_SMALL} bytes")
    return data
