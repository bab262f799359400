"""Rows in lists of bounded number and size: what is done for each row costs most of the time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final

MAX_ROWS: Final = 10_000
MAX_BYTES: Final = 16 << 20
#: So many rows are taken at once: to look at the size of each would cost more than all else here.
_FEW: Final = 16
_MANY: Final = 128
#: Rows of fewer bytes than this on average are taken many at once.
_SMALL_BYTES: Final = 2 << 10


def in_pieces(
    rows: Iterable[tuple[bytes, bytes]], most: int = MAX_ROWS
) -> Iterator[list[tuple[bytes, bytes]]]:
    """Rows in lists of ``most`` rows, or of about ``MAX_BYTES`` where that is less.

    A list that ends for its bytes has a few rows more than that; many, where rows were small.
    """
    iterator = iter(rows)
    piece: list[tuple[bytes, bytes]] = []
    size = 0
    count = _FEW
    while step := list(itertools.islice(iterator, min(count, most - len(piece)))):
        piece += step
        added = sum(map(len, itertools.chain.from_iterable(step)))
        count = _MANY if added < _SMALL_BYTES * len(step) else _FEW
        size += added
        if len(piece) >= most or size >= MAX_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece
