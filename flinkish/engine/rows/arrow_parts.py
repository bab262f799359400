"""Splitting and building of nested Arrow arrays, and lists of rows of bounded number and size."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa


def null_mask(array: Any) -> Any:
    """Return a NumPy mask of the values that are null."""
    if not array.null_count:
        return np.zeros(len(array), bool)
    return array.is_null().to_numpy(zero_copy_only=False)


def build(arrow: Any, null: Any, children: list[Any], offsets: Any = None) -> Any:
    """Build a struct of ``children``, or a list of the only child, as a ``pyarrow.Array``.

    ``null`` is the mask of null values, as from :func:`null_mask`. For a list, ``offsets`` are the
    index of the first element of each value, and then the index after the last element.
    """
    validity = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
    buffers = [validity]
    if offsets is not None:
        buffers.append(pa.py_buffer(offsets.astype(np.int32)))
    return pa.Array.from_buffers(arrow, len(null), buffers, children=children)


def build_map(arrow: Any, null: Any, offsets: Any, keys: Any, items: Any) -> Any:
    """Build a map of keys and items, with offsets as in :func:`build`."""
    entries = pa.struct([arrow.key_field, arrow.item_field])
    return build(arrow, null, [build(entries, np.zeros(len(keys), bool), [keys, items])], offsets)


def list_parts(array: Any) -> tuple[Any, Any]:
    """Return the offsets of a list, from 0, and the elements that belong to its values."""
    array = _plain(array)
    offsets = array.offsets.to_numpy(zero_copy_only=False)
    first, last = int(offsets[0]), int(offsets[-1])
    return offsets - first, array.values.slice(first, last - first)


def map_parts(array: Any) -> tuple[Any, Any, Any]:
    """Return the offsets of a map, from 0, its keys and its items."""
    array = _plain(array)
    offsets = array.offsets.to_numpy(zero_copy_only=False)
    first, last = int(offsets[0]), int(offsets[-1])
    size = last - first
    return offsets - first, array.keys.slice(first, size), array.items.slice(first, size)


def _plain(array: Any) -> Any:
    """Return the same lists, copied if necessary so that null lists cover no elements."""
    if array.null_count:
        sizes = np.diff(array.offsets.to_numpy(zero_copy_only=False))
        if sizes[null_mask(array)].any():
            return array.take(pa.array(np.arange(len(array))))
    return array


MAX_ROWS: Final = 10_000
MAX_BYTES: Final = 16 << 20
#: Rows that :func:`in_pieces` takes at once; measuring each row alone would take most of its time.
#: A row of more than ``MAX_BYTES`` is among the last ``MANY`` of its list.
_FEW: Final = 16
MANY: Final = 128
#: Rows of fewer bytes than this on average are taken ``MANY`` at once.
_SMALL_BYTES: Final = 2 << 10


def in_pieces(
    rows: Iterable[tuple[bytes, bytes]], most: int = MAX_ROWS
) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield the rows in lists of ``most`` rows, or of about ``MAX_BYTES`` bytes if that is less.

    A list may exceed ``MAX_BYTES`` by up to ``_FEW`` rows, or ``MANY`` after rows that are small.
    """
    iterator = iter(rows)
    piece: list[tuple[bytes, bytes]] = []
    size = 0
    count = _FEW
    while step := list(itertools.islice(iterator, min(count, most - len(piece)))):
        piece += step
        added = sum(map(len, itertools.chain.from_iterable(step)))
        count = MANY if added < _SMALL_BYTES * len(step) else _FEW
        size += added
        if len(piece) >= most or size >= MAX_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece
