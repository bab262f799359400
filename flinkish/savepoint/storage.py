"""Writing access to savepoints and new checkpoints: the only place that changes a disk.

Local file systems only for now. A hard link costs no data and is safe, because Spark never writes
into a finished checkpoint file (it writes a temporary one and renames); where a link is refused
(another file system, too many links, a protected file) the file is copied.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterable
from dataclasses import dataclass

from flinkish.checkpoint.files import (
    list_directory,
    list_names,
    local_path,
    open_file,
    read_bytes,
    storage_error,
)
from flinkish.errors import StorageError

__all__ = [
    "Placed",
    "failure",
    "list_directory",
    "list_names",
    "local_path",
    "make_directory",
    "make_new_directory",
    "open_file",
    "place",
    "publish",
    "read_bytes",
    "remove_empty_directories",
    "remove_file",
    "remove_tree",
    "sync_directory",
    "temporary_name",
    "to_uri",
    "write_bytes",
]

_COPY_BLOCK = 1 << 20
#: Refusals of os.link after which a copy still works.
_LINK_REFUSED = frozenset(
    {
        errno.EXDEV,
        errno.EPERM,
        errno.EACCES,
        errno.EMLINK,
        errno.ENOTSUP,
        errno.EOPNOTSUPP,
        errno.ENOSYS,
    }
)


@dataclass(frozen=True)
class Placed:
    """A file put into place: its size in bytes, and whether it is a link or a copy."""

    size: int
    linked: bool


def failure(verb: str, path: str, error: OSError) -> StorageError:
    """The error for a refused write: disk full is named as such."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StorageError(
            f"disk full: cannot {verb} {path} ({error.strerror})",
            hint="free some space, or choose a target on another file system",
            path=path,
            errno=error.errno,
        )
    return storage_error(verb, path, error)


def to_uri(path: str) -> str:
    """``file:/abs/path``, the form in which Flink and Hadoop print a local path."""
    return "file:" + os.path.abspath(path)


def make_directory(path: str) -> None:
    """Create a directory and its parents; StorageError naming the path that was refused."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise failure("create directory", path, error) from error


def make_new_directory(path: str) -> None:
    """Create a directory that must not exist yet."""
    try:
        os.mkdir(path)
    except OSError as error:
        raise failure("create directory", path, error) from error


def place(source: str, target: str) -> Placed:
    """Link ``source`` to ``target``, or copy it; an existing ``target`` is replaced.

    Raises FileNotFoundError when the source is gone, StorageError when the target is refused.
    """
    try:
        try:
            os.link(source, target)
        except FileExistsError:
            os.unlink(target)
            os.link(source, target)
        return Placed(os.stat(target).st_size, linked=True)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno not in _LINK_REFUSED:
            raise failure("write", target, error) from error
    return Placed(_copy(source, target), linked=False)


def _copy(source: str, target: str) -> int:
    with open_file(source) as reader:
        try:
            with open(target, "wb") as writer:
                shutil.copyfileobj(reader, writer, _COPY_BLOCK)
                writer.flush()
                os.fsync(writer.fileno())
                return writer.tell()
        except OSError as error:
            raise failure("write", target, error) from error


def write_bytes(path: str, data: bytes) -> None:
    """Write a new file and bring it to the disk."""
    try:
        with open(path, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise failure("write", path, error) from error


def publish(temporary: str, final: str) -> None:
    """Rename a finished file or directory into place and bring the directory to the disk."""
    try:
        os.rename(temporary, final)
    except OSError as error:
        raise failure("write", final, error) from error
    sync_directory(os.path.dirname(final))


def sync_directory(path: str) -> None:
    """Bring a directory's entries to the disk, where the file system can."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise failure("open", path, error) from error
    try:
        os.fsync(descriptor)
    except OSError as error:
        # EINVAL, ENOTSUP: directories cannot be synced here, renames are durable or they are not.
        if error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP}:
            raise failure("sync", path, error) from error
    finally:
        os.close(descriptor)


def temporary_name(path: str) -> str:
    """A hidden sibling of ``path`` to build it under."""
    head, tail = os.path.split(path)
    return os.path.join(head, f".{tail}.{secrets.token_hex(6)}.tmp")


def remove_tree(path: str) -> bool:
    """Remove a directory this process made; True when nothing of it is left."""
    shutil.rmtree(path, ignore_errors=True)
    return not os.path.lexists(path)


def remove_file(path: str) -> bool:
    """Remove one file; False when it was not there."""
    try:
        os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise failure("remove", path, error) from error
    return True


def remove_empty_directories(paths: Iterable[str]) -> None:
    """Remove those directories that are empty, deepest first; the others stay."""
    for path in sorted(set(paths), key=lambda p: p.count("/"), reverse=True):
        try:
            os.rmdir(path)
        except OSError as error:
            if error.errno not in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR}:
                raise failure("remove", path, error) from error
