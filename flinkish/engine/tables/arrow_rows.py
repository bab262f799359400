"""Plain rows as Arrow columns: the reverse of :func:`~.decoding.plain_rows`."""

from __future__ import annotations

import base64
import decimal
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flinkish.engine.errors import CannotMigrate
from flinkish.engine.tables.decoding import KEY, VALUE


def arrow_rows(rows: Sequence[Mapping[str, Any]], schema: Any, name: str) -> Any:
    """Return plain rows with ``key`` and ``value`` as a ``pyarrow.RecordBatch``.

    ``schema`` is that of the state's table, ``name`` its name, for messages. Values that
    ``pyarrow`` takes (``datetime``, ``Decimal``, ``bytes``) may be given as they are.

    Raises CannotMigrate if a row has other fields, or a value does not fit.
    """
    columns = []
    for column in (KEY, VALUE):
        field = schema.field(column)
        values = []
        for number, row in enumerate(rows):
            where = f"row {number} for the state {name!r}"
            if not isinstance(row, Mapping) or not {KEY, VALUE} <= row.keys():
                raise CannotMigrate(f"{where} has no key and value: {row!r}")
            try:
                values.append(_from_plain(row[column], field.type, column))
                pa.array(values[-1:], field.type)  # so that the message has the row
            except (pa.ArrowException, ValueError, TypeError, ArithmeticError) as error:
                raise CannotMigrate(f"{where}: {error}") from error
        columns.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(columns, names=[KEY, VALUE])


def _from_plain(value: Any, kind: Any, path: str) -> Any:
    """Return a plain value as ``pyarrow.array`` takes it; ValueError if it is of another form."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        if not isinstance(value, Mapping) or value.keys() != set(names):
            raise ValueError(f"{path} has the fields {', '.join(names)}, not {value!r}")
        return {f.name: _from_plain(value[f.name], f.type, f"{path}.{f.name}") for f in kind}
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, Mapping) else ((e[KEY], e[VALUE]) for e in value)
        return [
            (_from_plain(k, kind.key_type, path), _from_plain(v, kind.item_type, path))
            for k, v in pairs
        ]
    if pa.types.is_list(kind):
        return [_from_plain(element, kind.value_type, path) for element in value]
    if pa.types.is_integer(kind):
        # pyarrow would take 1 of 1.5.
        if isinstance(value, bool) or not isinstance(value, numbers.Integral):
            raise ValueError(f"{path} is {value!r}, which is no integer")
        return int(value)
    return _from_text(value, kind) if isinstance(value, str) else value


def _from_text(text: str, kind: Any) -> Any:
    if pa.types.is_timestamp(kind):
        return int(np.datetime64(text.removesuffix("Z"), "us").astype(np.int64))
    if pa.types.is_date32(kind):
        return int(np.datetime64(text, "D").astype(np.int64))
    if pa.types.is_time64(kind):
        return int(np.datetime64(f"1970-01-01T{text}", "ns").astype(np.int64))
    if pa.types.is_decimal(kind):
        return decimal.Decimal(text)
    if pa.types.is_floating(kind):
        return float(text)
    return base64.b64decode(text, validate=True) if pa.types.is_binary(kind) else text
