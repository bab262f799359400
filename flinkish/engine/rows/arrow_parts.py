"""Nested Arrow arrays taken apart and put together, whatever their slices and nulls cover."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]


def null_mask(array: Any) -> Any:
    """Which values are null, as a NumPy array."""
    if not array.null_count:
        return np.zeros(len(array), bool)
    return array.is_null().to_numpy(zero_copy_only=False)


def build(arrow: Any, null: Any, children: list[Any], offsets: Any = None) -> Any:
    """A struct of ``children``, or a list of the only one, as a ``pyarrow.Array``.

    Args:
        arrow: the array's type.
        null: which values are null, as :func:`null_mask` gives it.
        children: the fields, or the elements.
        offsets: of a list: where each value's elements begin, and where the last one's end.
    """
    validity = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
    buffers = [validity]
    if offsets is not None:
        buffers.append(pa.py_buffer(offsets.astype(np.int32)))
    return pa.Array.from_buffers(arrow, len(null), buffers, children=children)


def build_map(arrow: Any, null: Any, offsets: Any, keys: Any, items: Any) -> Any:
    """A map of keys and items, which are as the elements of :func:`build`."""
    entries = pa.struct([arrow.key_field, arrow.item_field])
    return build(arrow, null, [build(entries, np.zeros(len(keys), bool), [keys, items])], offsets)


def list_parts(array: Any) -> tuple[Any, Any]:
    """The offsets of a list, from 0, and its elements: only those that belong to values."""
    array = _plain(array)
    offsets = array.offsets.to_numpy(zero_copy_only=False)
    first, last = int(offsets[0]), int(offsets[-1])
    return offsets - first, array.values.slice(first, last - first)


def map_parts(array: Any) -> tuple[Any, Any, Any]:
    """The offsets of a map, from 0, its keys and its items."""
    array = _plain(array)
    offsets = array.offsets.to_numpy(zero_copy_only=False)
    first, last = int(offsets[0]), int(offsets[-1])
    size = last - first
    return offsets - first, array.keys.slice(first, size), array.items.slice(first, size)


def _plain(array: Any) -> Any:
    """The same lists, where those that are null cover no elements."""
    if array.null_count:
        sizes = np.diff(array.offsets.to_numpy(zero_copy_only=False))
        if sizes[null_mask(array)].any():
            return array.take(pa.array(np.arange(len(array))))
    return array
