"""Errors of storage: which operation failed, on which path, and why."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flinkish.config import mask_secrets
from flinkish.errors import Corrupt, StorageError

#: A NameNode's refusal as hdfs-native reports it: the class, then the message, and a stack trace
#: after an escaped newline.
_REFUSAL = re.compile(r'\w+\("[\w.$]+", "((?:[^"\\]|\\[^n])+)')


class Replaced(OSError):
    """A file is no longer the listed one, because another file has replaced it."""


class NotRegular(Corrupt):
    """A directory, a pipe, a device or a socket (or a link to one) where a file belongs."""


def not_regular(path: str) -> NotRegular:
    """Return the error for ``path``, which is not a regular file."""
    hint = "put the file back from a copy, or remove what is there"
    return NotRegular(f"{path} is not a regular file", hint=hint, path=path)


def storage_error(verb: str, path: str, error: BaseException) -> StorageError:
    """Return the error for a refused operation on ``path``; report a full disk as such."""
    number = error.errno if isinstance(error, OSError) else None
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    if refusal := _REFUSAL.search(reason):
        reason = refusal[1].replace('\\"', '"')
    lines = reason.strip().splitlines()
    reason = " ".join(lines[0].split()) if lines else type(error).__name__
    if number in {errno.ENOSPC, errno.EDQUOT}:
        return StorageError(
            f"disk full: cannot {verb} {path} ({reason})",
            hint="free some space, or choose a target on another file system",
            path=path,
            errno=number,
        )
    return StorageError(
        f"cannot {verb} {path}: {reason}",
        hint="check that the path exists, its permissions, and its storage",
        path=path,
        errno=number,
    )


def remote_failure(verb: str, location: str, error: BaseException) -> StorageError:
    """Return :func:`storage_error`, with secrets in the library's message masked."""
    failure = storage_error(verb, location, error)
    failure.message = mask_secrets(failure.message)
    return failure


@contextmanager
def refused(verb: str, location: str) -> Iterator[None]:
    """Convert errors of a store's library into StorageError (see :func:`remote_failure`).

    NotRegular, Replaced and FileNotFoundError for a missing source file stay as they are. Each
    library has its own errors (botocore, hdfs-native, requests ...), which share no base class.
    """
    try:
        yield
    except (NotRegular, Replaced, StorageError):
        raise
    except FileNotFoundError as error:
        if verb != "write":
            if (
                error.filename is None and verb == "read"
            ):  # fsspec raises it with the path as its only argument
                raise FileNotFoundError(errno.ENOENT, "No such file", location) from error
            raise
        # The missing item is the bucket or directory to write to, or the local file to upload.
        raise remote_failure(verb, location, error) from error
    except Exception as error:
        raise remote_failure(verb, location, error) from error


class ReadFile:
    """An open file; an error while it is read becomes a StorageError about ``location``."""

    def __init__(self, file: Any, location: str) -> None:
        self._file = file
        self._location = location

    def read(self, size: int = -1) -> bytes:
        """Read at most ``size`` bytes; -1: the rest."""
        with refused("read", self._location):
            return bytes(self._file.read(size))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> ReadFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
