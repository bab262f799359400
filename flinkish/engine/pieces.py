"""Rows in lists of bounded number and size: what is done for each row costs most of the time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final

MAX_ROWS: Final = 10_000
MAX_BYTES: Final = 16 << 20
#: So many rows are taken at once: to look at the size of each would cost more than all else here.
_STEP: Final = 16


def in_pieces(
    rows: Iterable[tuple[bytes, bytes]], most: int = MAX_ROWS
) -> Iterator[list[tuple[bytes, bytes]]]:
    """Rows in lists of about ``most`` rows, or ``MAX_BYTES`` where that is less.

    A list has at most ``_STEP`` rows more than that.
    """
    iterator = iter(rows)
    piece: list[tuple[bytes, bytes]] = []
    size = 0
    while step := list(itertools.islice(iterator, _STEP)):
        piece += step
        size += sum(map(len, itertools.chain.from_iterable(step)))
        if len(piece) >= most or size >= MAX_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece
