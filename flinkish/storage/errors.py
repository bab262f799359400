"""Errors of storage, in words: what was tried, where, and why it was refused."""

from __future__ import annotations

import errno
import re

from flinkish.errors import StorageError

#: What a NameNode refused, as hdfs-native tells it: the class, and the message with a stack trace
#: behind an escaped end of line.
_REFUSAL = re.compile(r'\w+\("[\w.$]+", "((?:[^"\\]|\\[^n])+)')


class Replaced(OSError):
    """A file is no longer the one that was listed: another has been put in its place."""


def storage_error(verb: str, path: str, error: BaseException) -> StorageError:
    """The error for a refused operation on ``path``: disk full is named as such."""
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
