"""Opening of regular files only: reading from a device or a pipe might block, or never end."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO, Final

_PIECE: Final = 1 << 16


class NotRegular(OSError):
    """A path is a device, a pipe or a socket, or a link to one."""


def open_regular(path: str) -> BinaryIO:
    """Open a file for reading; raise NotRegular if it is not a regular file."""
    check_regular(path, os.stat(path))  # opening a device may have an effect
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        check_regular(path, os.fstat(descriptor))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_up_to(file: BinaryIO, most: int) -> bytes | None:
    """Read the rest of a file; return None if it has more than ``most`` bytes."""
    parts = []
    left = most + 1
    while left and (data := file.read(min(left, _PIECE))):
        parts.append(data)
        left -= len(data)
    return b"".join(parts) if left else None


def check_regular(path: str, status: os.stat_result) -> None:
    """Raise NotRegular unless ``status`` is that of a regular file."""
    if not stat.S_ISREG(status.st_mode):
        raise NotRegular(errno.EINVAL, "not a regular file", path)
