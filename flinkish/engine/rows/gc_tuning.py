"""Less frequent garbage collection in Python: it searches for cycles, and rows are in none.

The collector runs after every few hundred new objects and scans the existing ones. With the tens of
thousands of rows of a block, this takes longer than reading them.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Final

#: The number of new objects before a collection, more than a few blocks of rows have.
_OBJECTS: Final = 200_000


@contextlib.contextmanager
def seldom_collecting() -> Iterator[None]:
    """Raise the collector's threshold until the end of the block."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _OBJECTS), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
