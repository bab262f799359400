"""Errors of storage: which operation failed, on which path, and why."""

from __future__ import annotations

import errno
import re

from flinkish.errors import Corrupt, StorageError

#: A NameNode's refusal as hdfs-native reports it: the class, then the message, and a stack trace
#: after an escaped newline.
_REFUSAL = re.compile(r'\w+\("[\w.$]+", "((?:[^"\\]|\\[^n])+)')


class Replaced(OSError):
    """A file is no longer the one that was listed: another file has replaced it."""


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
