"""A state store's files for the engine: their names, and a way to open them on any storage."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from flinkish.engine.bounds import MAX_SMALL, read_up_to
from flinkish.engine.errors import MissingStateFile, StateFormatError
from flinkish.storage.errors import NotRegular
from flinkish.storage.local import open_file

UNSAFE_ROW: Final = "unsaferow"


def _no_local_path(_: str) -> str | None:
    return None


@dataclass(frozen=True)
class StoreFiles:
    """One state store (of one partition) at one version.

    ``names`` are those in the store's directory, without subdirectories; other files than state
    files, and later versions, may be among them. ``version`` is the number of the batch + 1.
    ``open`` opens a path relative to the store's directory, also ``SSTs/<name>`` of RocksDB; it
    raises FileNotFoundError. ``backend`` is ``HDFS``, ``ROCKSDB`` or ``CANONICAL``. ``unique_id``
    is the id of this version in checkpoint format 2 (``stateUniqueIds`` in the commit log); None in
    format 1. ``compression``, ``row_checksums`` and ``encoding`` are settings below
    ``spark.sql.streaming.stateStore``; row checksums and encodings other than ``unsaferow`` are not
    supported. ``local_path`` returns the local path of a file, or None; RocksDB's files with a
    local path are linked instead of copied. ``scratch`` is a directory for local files; None is the
    system's temporary directory.
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
