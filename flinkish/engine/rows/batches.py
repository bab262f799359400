"""Batches of rows of bounded number and size: work per row takes most of the time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final

MAX_ROWS: Final = 10_000
MAX_BYTES: Final = 16 << 20
#: Rows that are taken at once: measuring each one's size would cost more than everything else here.
_FEW: Final = 16
_MANY: Final = 128
#: Rows of fewer bytes than this on average are taken ``_MANY`` at once.
_SMALL_BYTES: Final = 2 << 10


def in_pieces(
    rows: Iterable[tuple[bytes, bytes]], most: int = MAX_ROWS
) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield the rows in lists of ``most`` rows, or of about ``MAX_BYTES`` bytes if that is less.

    A list that ends because of its bytes may exceed ``MAX_BYTES`` by a few rows, or by many small
    ones.
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
