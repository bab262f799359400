"""Python's garbage collector, told to wait: it looks for cycles, and rows are in none.

It runs after every few hundred new objects, and looks at those that are there: with the tens of
thousands of rows that a block has, that takes longer than to read them.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

#: New objects, more than a few blocks of rows have.
_OBJECTS: Final = 200_000


@contextlib.contextmanager
def seldom_collecting() -> Iterator[None]:
    """Look for garbage after many new objects only, until the end of the block."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _OBJECTS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
