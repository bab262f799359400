"""Errors of storage: which operation failed, on which path, and why."""

from __future__ import annotations

import errno
import re

from flinkish.errors import StorageError

#: A NameNode's refusal as hdfs-native reports it: the class, then the message, and a stack trace
#: after an escaped newline.
_REFUSAL = re.compile(r'\w+\("[\w.$]+", "((?:[^"\\]|\\[^n])+)')


class Replaced(OSError):
    """A file is no longer the one that was listed: another file has replaced it."""


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
        hint="check that the path exists, its permissions and the storage below it",
        path=path,
        errno=number,
    )
