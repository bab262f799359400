"""Convert rows of tables to plain JSON data, without loss.

- dates and times are ISO 8601 (``timestamp`` in UTC, with ``Z``), in all years that Spark supports;
- decimals are strings, as are the numbers that JSON lacks: ``NaN``, ``Infinity``, ``-Infinity``;
- binaries are base64, day-time intervals are microseconds;
- maps are lists of ``{"key", "value"}``: keys may have any type, and have an order.
"""

from __future__ import annotations

import base64
import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa

from flinkish.engine.rows.arrow_parts import list_parts, map_parts, null_mask

_NANOS = 1_000_000_000


def plain_rows(batch: Any) -> list[dict[str, Any]]:
    """Return the rows of a ``pyarrow.RecordBatch`` as dictionaries for ``json.dumps``."""
    columns = [plain_values(column) for column in batch.columns]
    names = batch.schema.names
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def plain_values(array: Any) -> list[Any]:
    """Return the values of an array, None where they are null."""
    values = _values(array)
    if not array.null_count:
        return values
    pairs = zip(values, null_mask(array).tolist(), strict=True)
    return [None if null else value for value, null in pairs]


def _values(array: Any) -> list[Any]:
    kind = array.type
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        columns = [plain_values(child) for child in array.flatten()]
        if not columns:
            return [{} for _ in range(len(array))]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    if pa.types.is_map(kind):
        offsets, keys, items = map_parts(array)
        pairs = zip(plain_values(keys), plain_values(items), strict=True)
        return _parts(offsets, [{"key": key, "value": value} for key, value in pairs])
    if pa.types.is_list(kind):
        offsets, elements = list_parts(array)
        return _parts(offsets, plain_values(elements))
    if pa.types.is_timestamp(kind):
        return _moments(array, "us", "Z" if kind.tz else "")
    if pa.types.is_date32(kind):
        return _moments(array.cast(pa.int32()).cast(pa.int64()), "D", "")
    if pa.types.is_time64(kind):
        return [None if n is None else _time(n) for n in array.cast(pa.int64()).to_pylist()]
    if pa.types.is_duration(kind):
        return list(array.cast(pa.int64()).to_pylist())
    return [_plain(value) for value in array.to_pylist()]


def _parts(offsets: Any, elements: list[Any]) -> list[Any]:
    return [elements[a:b] for a, b in itertools.pairwise(offsets.tolist())]


def _moments(array: Any, unit: str, end: str) -> list[Any]:
    """Format dates or times with NumPy, which supports years that Python's datetime does not."""
    numbers = array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    texts = np.datetime_as_string(numbers.astype(f"datetime64[{unit}]")).tolist()
    return [text + end for text in texts]


def _time(nanos: int) -> str:
    seconds, rest = divmod(nanos, _NANOS)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{rest:09}".rstrip("0") if rest else text


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)
