"""Whether the file of a SQLite registry exists. Imports almost nothing, see fast_list."""

from __future__ import annotations

import errno
import os


def is_absent(path: str) -> bool:
    """Return whether there is no registry at the absolute ``path`` yet: no file, or an empty one.

    Raises OSError if that is unknown: a directory may not be entered, or a link is broken (its disk
    may not be mounted).
    """
    try:
        return os.stat(path).st_size == 0 and not os.path.isdir(path)
    except FileNotFoundError:
        pass
    there = path
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    if not os.path.exists(there):
        raise FileNotFoundError(errno.ENOENT, f"the link {there} leads nowhere", path)
    return True
