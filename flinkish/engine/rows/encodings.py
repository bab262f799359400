"""Encoding of rows as keys and values of RocksDB stores (Spark's ``RocksDBStateEncoder``).

HDFS-backed stores have bare UnsafeRows. In RocksDB, a byte 0 (the version of the encoding) precedes
each row, and Spark's ``KeyStateEncoderSpec`` determines the form of a key:

- no prefix: one row;
- prefix scan: int32LE size | row of the first n columns | row of the other columns;
- range scan: int32LE size | row of the ordering columns, each as sortable binary | row of the other
  columns, if there are any;
- timestamp as prefix or postfix (joins of state format 4): 8 bytes | row, or row | 8 bytes.

A value is one row, or, for lists, records of int32LE size | row. Spark's merges join records by ","
or by nothing, and a list may have both. The sizes include the byte 0, so they are one more than a
multiple of 8 and never begin with a byte 0 or ",". The first byte therefore identifies the form.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.engine.rows.binaries import Binaries
from flinkish.engine.rows.unsafe_rows import RowShape, check_rows, shape_of, types_of

_SIZE = struct.Struct("<i")
_COMMA = 0x2C
_TIMESTAMP_BYTES = 8

NO_PREFIX = "NoPrefixKeyStateEncoderSpec"
PREFIX_SCAN = "PrefixKeyScanStateEncoderSpec"
RANGE_SCAN = "RangeKeyScanStateEncoderSpec"
TIMESTAMP_PREFIX = "TimestampAsPrefixKeyStateEncoderSpec"
TIMESTAMP_POSTFIX = "TimestampAsPostfixKeyStateEncoderSpec"


class BadEncoding(ValueError):
    """A key or value is not encoded as in Spark; ``args[0]`` is the reason."""


@dataclass(frozen=True)
class FamilyShape:
    """The expected structure of a column family's rows.

    ``encoder`` is the kind of the keys (``NO_PREFIX`` ...). It is None if the schema does not
    record it (format v2, which session windows use too). In that case the first byte of a key
    identifies its form, and ``parts`` (the shapes of a key's rows) has only the shape of the whole
    key. ``value`` is the shape of each row of a value.
    """

    encoder: str | None
    parts: tuple[RowShape, ...]
    value: RowShape


def family_shape(
    key_schema: Mapping[str, Any],
    value_schema: Mapping[str, Any],
    encoder: Mapping[str, Any] | None = None,
) -> FamilyShape:
    """Return the shape of a column family, from its schemas and key encoder in Spark's schema file.

    The schemas are JSON of a ``StructType``, ``encoder`` is JSON as in schema files v3. Raises
    UnknownType if a type is unknown, and BadEncoding if the kind of the encoder is.
    """
    types = types_of(key_schema)
    value = shape_of(types_of(value_schema))
    if encoder is None:
        return FamilyShape(None, (shape_of(types),), value)
    kind = str(encoder.get("keyStateEncoderType"))
    return FamilyShape(kind, _key_parts(kind, types, encoder), value)


def _key_parts(kind: str, types: Sequence[Any], encoder: Mapping[str, Any]) -> tuple[RowShape, ...]:
    if kind == NO_PREFIX:
        return (shape_of(types),)
    if kind in {TIMESTAMP_PREFIX, TIMESTAMP_POSTFIX}:
        return (shape_of(types[:-1]),)  # the last column is the timestamp, outside the row
    if kind == PREFIX_SCAN:
        count = int(encoder["numColsPrefixKey"])
        return shape_of(types[:count]), shape_of(types[count:])
    if kind == RANGE_SCAN:
        ordinals = [int(i) for i in encoder["orderingOrdinals"]]
        ordered = RowShape(len(ordinals), tuple(range(len(ordinals))))
        rest = [t for i, t in enumerate(types) if i not in ordinals]
        return (ordered, shape_of(rest)) if rest else (ordered,)
    raise BadEncoding(f"the key encoder {kind[:60]!r} is not known")


def split_key(key: bytes, encoder: str | None = None) -> tuple[bytes, ...]:
    """Return the rows, one or two, in a key of a RocksDB store (without its family's id).

    Raises BadEncoding if the key is not of this encoding.
    """
    if encoder == TIMESTAMP_PREFIX:
        return (_row(key, _TIMESTAMP_BYTES, len(key)),)
    if encoder == TIMESTAMP_POSTFIX:
        return (_row(key, 0, len(key) - _TIMESTAMP_BYTES),)
    if encoder == NO_PREFIX or (encoder is None and key[:1] == b"\x00"):
        return (_row(key, 0, len(key)),)
    first, end = _sized_row(key, 0)
    return (first,) if end == len(key) else (first, _row(key, end, len(key)))


def split_value(value: bytes) -> list[bytes]:
    """Return the rows in a value of a RocksDB store: one row, or the rows of a list.

    Raises BadEncoding if the value is neither.
    """
    if value[:1] == b"\x00":
        return [_row(value, 0, len(value))]
    rows = []
    at = 0
    while at < len(value):
        # Delimiters are between records only: a size follows, and no size begins with this byte.
        if value[at] == _COMMA and at:
            at += 1
        row, at = _sized_row(value, at)
        rows.append(row)
    if not rows:
        raise BadEncoding("an empty value")
    return rows


def frame_row(row: bytes) -> bytes:
    """Encode a row as a value of a RocksDB store."""
    return b"\x00" + row


def frame_sized_row(row: bytes) -> bytes:
    """Encode a row after its size: the first part of a key, or a record of a list."""
    return _SIZE.pack(len(row) + 1) + b"\x00" + row


def join_list(rows: Sequence[bytes], delimiter: bytes = b"") -> bytes:
    """Encode the rows of a list as a value, which :func:`split_value` decodes.

    ``delimiter`` is b"" (``mergeOperatorVersion`` 2, from Spark 4.2 on) or b",".
    """
    return delimiter.join(map(frame_sized_row, rows))


def are_rows(values: Sequence[bytes]) -> bool:
    """Return whether all values are single rows with their version, and none is a list."""
    return Binaries.of(values).all_start_with_zero()


def delimited(values: Sequence[bytes], delimiter: bytes = b"") -> Binaries:
    """Return the values with one delimiter throughout; see :func:`normal_value`."""
    values = Binaries.of(values)
    if are_rows(values):
        return values
    return Binaries.of([normal_value(value, delimiter) for value in values])


def normal_value(value: bytes, delimiter: bytes = b"") -> bytes:
    """Return a value in the form in which it must be written.

    A single row is unchanged; a list gets the same delimiter throughout. Every value that is read
    from RocksDB and written again must be converted: RocksDB's binding joins unmerged records by
    ",", and Spark silently reads wrong rows where it expects no delimiter. Raises BadEncoding if
    the value is neither a row nor a list.
    """
    return value if value[:1] == b"\x00" else join_list(split_value(value), delimiter)


def _sized_row(data: bytes, at: int) -> tuple[bytes, int]:
    if len(data) - at < _SIZE.size:
        raise BadEncoding("it ends within the size of a row")
    (size,) = _SIZE.unpack_from(data, at)
    end = at + _SIZE.size + size
    if size < 1 or size % 8 != 1 or end > len(data):
        raise BadEncoding(f"a row in it has the size {size}")
    return _row(data, at + _SIZE.size, end), end


def _row(data: bytes, start: int, end: int) -> bytes:
    if end <= start or data[start]:
        raise BadEncoding("a row in it does not start with the version 0")
    return data[start + 1 : end]


def check_block(
    keys: Sequence[bytes], values: Sequence[bytes], shape: FamilyShape, *, framed: bool
) -> tuple[int, str] | None:
    """Return the index of a row with a wrong structure, and the reason; None if there is none.

    ``keys`` are without their family's id. ``framed`` rows are encoded as in RocksDB; others are
    bare UnsafeRows. Bare keys that RocksDB would split into several rows are not checked.
    """
    if not framed:
        # A bare key has all columns in one row, even if RocksDB would split them.
        keys_shape = shape.parts[0] if len(shape.parts) == 1 else None
        bad_row = _named("key", check_rows(keys, keys_shape)) if keys_shape else None
        return bad_row or _named("value", check_rows(values, shape.value))
    return _check_framed_keys(keys, shape) or _check_framed_values(values, shape.value)


def _check_framed_keys(keys: Sequence[bytes], shape: FamilyShape) -> tuple[int, str] | None:
    simple = shape.encoder in {None, NO_PREFIX} and all(key[:1] == b"\x00" for key in keys)
    if simple:
        return _named("key", check_rows(keys, shape.parts[0], skip=1))
    split = []
    for index, key in enumerate(keys):
        try:
            rows = split_key(key, shape.encoder)
        except BadEncoding as error:
            return index, f"key: {error}"
        if shape.encoder is None:
            continue  # it is not known which columns are in which part
        if len(rows) != len(shape.parts):
            return index, f"key: {len(rows)} rows in place of {len(shape.parts)}"
        split.append(rows)
    if shape.encoder is None:
        return None
    for part, rows_shape in enumerate(shape.parts):
        bad_row = check_rows([rows[part] for rows in split], rows_shape)
        if bad_row:
            return _named("key", bad_row)
    return None


def _check_framed_values(values: Sequence[bytes], shape: RowShape) -> tuple[int, str] | None:
    if all(value[:1] == b"\x00" for value in values):
        return _named("value", check_rows(values, shape, skip=1))
    rows: list[bytes] = []
    owners: list[int] = []
    for index, value in enumerate(values):
        try:
            parts = split_value(value)
        except BadEncoding as error:
            return index, f"value: {error}"
        rows.extend(parts)
        owners.extend([index] * len(parts))
    wrong = check_rows(rows, shape)
    return _named("value", (owners[wrong[0]], wrong[1]) if wrong else None)


def _named(what: str, bad_row: tuple[int, str] | None) -> tuple[int, str] | None:
    return (bad_row[0], f"{what}: {bad_row[1]}") if bad_row else None
