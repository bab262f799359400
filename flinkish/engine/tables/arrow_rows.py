"""Plain rows as Arrow columns: the reverse of :func:`~.decoding.plain_rows`."""

from __future__ import annotations

import base64
import datetime
import decimal
import math
import numbers
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from flinkish.engine.errors import CannotMigrate
from flinkish.engine.tables.decoding import KEY, VALUE

_FLOAT32: Final = float(np.finfo(np.float32).max)
_DAY_NANOS: Final = 86_400 * 10**9
#: A day, perhaps with a time and a fraction of a second. NumPy also accepts "", NaT and today.
_MOMENT: Final = re.compile(
    r"(-?\d{3,6}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?)(?:(?<=:\d\d:\d\d)\.(\d{1,6}))?Z?", re.ASCII
)
_DAY: Final = re.compile(r"(-?\d{3,7}-\d\d-\d\d)()", re.ASCII)
_TIME: Final = re.compile(r"(\d\d:\d\d(?::\d\d)?)(?:(?<=:\d\d:\d\d)\.(\d{1,9}))?", re.ASCII)
#: A number without the spaces and underscores that Python also accepts.
_NUMBER: Final = re.compile(r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|NaN|Infinity)", re.ASCII)


def arrow_rows(rows: Sequence[Mapping[str, Any]], schema: Any, name: str) -> Any:
    """Return plain rows with ``key`` and ``value`` as a ``pyarrow.RecordBatch``.

    ``schema`` is the schema of the state's table, ``name`` the state's name for messages. Values
    that ``pyarrow`` accepts (``datetime``, ``Decimal``, ``bytes``) may be given as they are.

    Raises CannotMigrate if a row has no key or no value, or one of them does not fit.
    """
    columns = []
    for column in (KEY, VALUE):
        field = schema.field(column)
        values = []
        for number, row in enumerate(rows):
            where = f"row {number} for the state {name!r}"
            if not isinstance(row, Mapping) or not {KEY, VALUE} <= row.keys():
                raise CannotMigrate(f"{where} lacks a key or a value: {row!r}")
            try:
                values.append(_from_plain(row[column], field.type, column))
                pa.array(values[-1:], field.type)  # so that an error names the row
            except (pa.ArrowException, ValueError, TypeError, ArithmeticError) as error:
                raise CannotMigrate(f"{where}: {error}") from error
        columns.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(columns, names=[KEY, VALUE])


def _from_plain(value: Any, kind: Any, path: str) -> Any:
    """Return a plain value as ``pyarrow.array`` accepts it; raise ValueError for other forms."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        if len(set(names)) != len(names):
            raise ValueError(f"{path} has fields of the same name, which no row can tell apart")
        if not isinstance(value, Mapping) or value.keys() != set(names):
            raise ValueError(f"{path} must have the fields {', '.join(names)}, but is {value!r}")
        return {f.name: _from_plain(value[f.name], f.type, f"{path}.{f.name}") for f in kind}
    if pa.types.is_map(kind):
        entries = [
            (_from_plain(k, kind.key_type, path), _from_plain(v, kind.item_type, path))
            for k, v in _entries(value, path)
        ]
        if len({repr(key) for key, _ in entries}) < len(entries):  # keys may have no hash
            raise ValueError(f"{path} is {value!r}: give each key of a map once")
        return entries
    if pa.types.is_list(kind):
        if not isinstance(value, (Sequence, np.ndarray)) or isinstance(value, (str, bytes)):
            raise ValueError(f"{path} is {value!r}, which is not a list: give its elements in [ ]")
        return [_from_plain(element, kind.value_type, path) for element in value]
    try:
        return _scalar(value, kind)
    except (ValueError, ArithmeticError) as error:
        raise ValueError(f"{path} is {value!r}, which is not of type {kind}: {error}") from error


def _entries(value: Any, path: str) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
        return
    form = f'{path} is a map, and is given as [{{"key": ..., "value": ...}}] or as an object'
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise ValueError(f"{form}, not as {value!r}")
    for entry in value:
        if not isinstance(entry, Mapping) or entry.keys() != {KEY, VALUE}:
            raise ValueError(f"{form}: {entry!r} is not an entry")
        yield entry[KEY], entry[VALUE]


def _scalar(value: Any, kind: Any) -> Any:
    """Return a value that is neither nested nor null; a ValueError says how to give it."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if pa.types.is_integer(kind) and not whole:
        raise ValueError("give an integer, without a fraction or quotes")
    if isinstance(value, str):
        return next((read(value, kind) for is_kind, read in _TEXTS if is_kind(kind)), value)
    if not isinstance(value, numbers.Number):
        # pyarrow would drop the time.
        if pa.types.is_date32(kind) and isinstance(value, datetime.datetime):
            raise ValueError("give it without a time")
        return value
    if pa.types.is_temporal(kind) and not whole:  # pyarrow would drop the fraction
        raise ValueError("a number must be an integer")
    if pa.types.is_time64(kind) and not 0 <= int(value) < _DAY_NANOS:  # type: ignore[call-overload]
        raise ValueError("give it as nanoseconds of one day")
    if pa.types.is_floating(kind):
        return _in_range(value, kind)
    return _of_scale(value, kind) if isinstance(value, decimal.Decimal) else value


def _moment(text: str, pattern: re.Pattern[str], start: str, digits: int, example: str) -> int:
    """Return the moment that a text names in units of which a second has ``10 ** digits``."""
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(f"give it like {example}")
    seconds = int(np.datetime64(start + match[1], "s").astype(np.int64))
    fraction = int((match[2] or "").ljust(digits, "0") or 0)
    return seconds * int(10**digits) + fraction


def _timestamp(text: str, _: Any) -> int:
    example = "2024-01-31T12:30:00.000000Z, with at most 6 digits after the point"
    return _moment(text, _MOMENT, "", 6, example)


def _date(text: str, _: Any) -> int:
    return _moment(text, _DAY, "", 0, "2024-01-31") // 86_400


def _time(text: str, _: Any) -> int:
    example = "12:30:00.000001, with at most 9 digits after the point"
    return _moment(text, _TIME, "1970-01-01T", 9, example)


def _decimal(text: str, kind: Any) -> decimal.Decimal:
    return _of_scale(decimal.Decimal(_number(text)), kind)


def _of_scale(number: decimal.Decimal, kind: Any) -> decimal.Decimal:
    if pa.types.is_decimal(kind):
        digits = number.normalize(decimal.Context(prec=1_000)).as_tuple().exponent
        if not isinstance(digits, int):
            raise ValueError("give a finite number")
        if -digits > kind.scale:
            raise ValueError(f"give at most {kind.scale} digits after the point")
    return number


def _float(text: str, kind: Any) -> float:
    number: float = _in_range(float(_number(text)), kind)
    if math.isinf(number) and "Inf" not in text:
        raise ValueError("it is out of range")
    return number


def _in_range(number: Any, kind: Any) -> Any:
    if isinstance(number, bool):
        raise ValueError("give a number")
    if pa.types.is_float32(kind) and _FLOAT32 < abs(number) < math.inf:
        raise ValueError("it is out of range")
    return number


def _number(text: str) -> str:
    if not _NUMBER.fullmatch(text):
        raise ValueError("give it like 12.5")
    return text


def _base64(text: str, _: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError(f"give it in base64 ({error})") from error


#: Readers of texts by the kind of their column; other kinds accept a text as it is, or refuse it.
_TEXTS: Final[tuple[tuple[Callable[[Any], bool], Callable[[str, Any], Any]], ...]] = (
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_date32, _date),
    (pa.types.is_time64, _time),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_floating, _float),
    (pa.types.is_binary, _base64),
)
