"""Creation and removal of the engine's own directories on the local disk."""

from __future__ import annotations

import os
import tempfile

from flinkish.storage.deletion import remove_tree
from flinkish.storage.locations import split


def make_scratch(prefix: str = "state-", parent: str | None = None) -> str:
    """Create a directory that only this user can enter, and return its path.

    If ``parent`` is None, it is created in the system's temporary directory.
    """
    return tempfile.mkdtemp(prefix=prefix, dir=parent)


def remove_scratch(directory: str) -> None:
    """Remove a directory of :func:`make_scratch` as far as possible, without following links."""
    remove_tree(*split(os.path.abspath(directory)))
