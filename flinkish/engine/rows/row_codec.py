"""Conversion of UnsafeRows and keys to columns and back, compiled from the JSON of a schema.

Rows that :meth:`RowCodec.decode` decodes and :meth:`RowCodec.encode` encodes again are bit for bit
the rows that ``UnsafeRowWriter`` wrote, including word alignment, zeroed padding, NaNs and negative
zeros. There is one exception: for a null calendar interval Spark reserves 16 bytes and leaves their
previous content; this module writes zeros.

HDFS-backed stores have bare rows. RocksDB has the encodings of
:mod:`flinkish.engine.rows.encodings` (Spark's ``RocksDBStateEncoder``). Columns that these
encodings store separately, or in sortable form, are decoded to ordinary columns, in the order of
the key's schema.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from flinkish.engine.errors import EngineError, StateFormatError, UnsupportedState
from flinkish.engine.rows.binaries import Binaries
from flinkish.engine.rows.columns import BadRow, Memory, Pieces, struct_columns
from flinkish.engine.rows.encodings import (
    NO_PREFIX,
    PREFIX_SCAN,
    RANGE_SCAN,
    TIMESTAMP_POSTFIX,
    TIMESTAMP_PREFIX,
    BadEncoding,
    frame_row,
    frame_sized_row,
    split_key,
)
from flinkish.engine.rows.row_bytes import CannotEncode, encode_rows
from flinkish.engine.rows.types import (
    BINARY,
    LONG,
    DataType,
    Field,
    Fixed,
    Struct,
    arrow_type,
    parse_struct,
)

#: Arrow's offsets in a block have 32 bits; the blocks of ``read_store`` are much smaller.
MAX_BLOCK_BYTES = (1 << 31) - 1


@dataclass(frozen=True)
class RowCodec:
    """A codec for rows of one schema, from :func:`compile_schema`.

    ``schema`` is the ``pyarrow.Schema`` of its columns (see
    :func:`~flinkish.engine.rows.types.arrow_type`).
    """

    struct: Struct
    schema: Any

    def decode(self, rows: Sequence[bytes], *, skip: int = 0, name: str = "") -> Any:
        """Return the columns of a block of rows, as a ``pyarrow.RecordBatch``.

        The size of each row is a multiple of 8. ``skip`` bytes before each row do not belong to it
        (1 for RocksDB's version byte). ``name`` is the file of the rows, for errors. Raises
        StateFormatError if a row does not match this schema, and EngineError for a block of 2 GiB
        or more.
        """
        data, starts, lengths = Binaries.of(rows).words(skip)
        if len(data) > MAX_BLOCK_BYTES:
            raise EngineError("a block of 2 GiB of rows or more cannot be decoded at once")
        odd = lengths & 7 != 0
        if odd.any():
            at = int(odd.argmax())
            raise StateFormatError(
                name, None, f"row {at} has {lengths[at]} bytes: no multiple of 8"
            )
        pieces = Pieces(starts, lengths, np.zeros(len(rows), bool))
        try:
            columns = struct_columns(Memory(data, starts), self.struct, pieces)
        except BadRow as error:
            row, reason = error.args
            raise StateFormatError(name, None, f"row {row} of a block: {reason}") from error
        if not columns:  # only a struct array can have rows without columns
            empty = pa.Array.from_buffers(pa.struct([]), len(rows), [None], children=[])
            return pa.RecordBatch.from_struct_array(empty)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def encode(self, batch: Any, *, prefix: bytes = b"") -> Binaries:
        """Return the UnsafeRows of a batch's rows, each preceded by ``prefix``.

        Columns are matched by position, not by name, and cast to this codec's Arrow types if
        necessary.

        Raises CannotEncode if the columns do not match the schema, a value does not fit its type,
        or the rows have 2 GiB or more.
        """
        columns = _columns(batch, self.struct)
        data, offsets = encode_rows(self.struct, columns, batch.num_rows, prefix)
        return Binaries.between(data, offsets)


def _columns(batch: Any, struct_type: Struct) -> list[Any]:
    columns, fields = list(batch.columns), struct_type.fields
    if len(columns) != len(fields):
        raise CannotEncode(f"{len(columns)} columns in place of {len(fields)}")
    return columns


def _cast(column: Any, arrow: Any) -> Any:
    try:
        return column.cast(arrow)
    except pa.ArrowException as error:
        raise CannotEncode(f"rows cannot be encoded: {str(error)[:200]}") from error


def compile_schema(schema: Any) -> RowCodec:
    """Return a codec for rows of a schema, given as JSON of Spark's ``StructType``.

    Raises UnknownType.
    """
    return codec_of(parse_struct(schema))


def codec_of(struct: Struct) -> RowCodec:
    """Return a codec for rows of a struct type."""
    return RowCodec(struct, pa.schema(list(arrow_type(struct))))


#: Markers before an ordering column, which sort negative values, then positive values, then nulls.
_NEGATIVE, _POSITIVE, _NULL = 0, 1, 2
_SORTABLE: Final = frozenset({"byte", "short", "integer", "long", "float", "double"})
_TIMESTAMP = struct.Struct(">Q")
_TIMESTAMP_BYTES = 8
_SIGN: Final = 1 << 63


@dataclass(frozen=True)
class KeyCodec:
    """A codec for the keys of one column family, from :func:`compile_key`.

    ``whole`` is the codec of a bare key, ``encoder`` Spark's name for the encoding in RocksDB,
    ``parts`` the codecs of the rows in an encoded key. ``order`` has the ordinals of the columns in
    the order of the parts; the first ``ordering`` of them are sortable binaries.
    """

    whole: RowCodec
    encoder: str
    parts: tuple[RowCodec, ...]
    order: tuple[int, ...]
    ordering: int = 0

    def decode(self, keys: Sequence[bytes], *, framed: bool, name: str = "") -> Any:
        """Return the columns of a block of keys (without family ids), as a ``pyarrow.RecordBatch``.

        ``framed`` keys are encoded as in RocksDB; others are bare UnsafeRows. ``name`` is the
        file of the keys, for errors. Raises StateFormatError if a key does not match the schema and
        encoding, and EngineError for a block of 2 GiB or more.
        """
        if not framed:
            return self.whole.decode(keys, name=name)
        if self.encoder == NO_PREFIX:
            keys = Binaries.of(keys)
            if not keys.all_start_with_zero():
                raise StateFormatError(name, None, "a key does not start with the version 0")
            return self.whole.decode(keys, skip=1, name=name)
        rows = self._split(keys, name)
        columns: list[Any] = []
        for part, codec in enumerate(self.parts):
            columns += codec.decode([row[part] for row in rows], name=name).columns
        fields = self.whole.struct.fields
        for index in range(self.ordering):
            columns[index] = _from_sortable(columns[index], fields[self.order[index]], name)
        if self.encoder in {TIMESTAMP_PREFIX, TIMESTAMP_POSTFIX}:
            columns.append(_timestamps(keys, self.encoder))
        placed = dict(zip(self.order, columns, strict=True))
        ordered = [placed[i] for i in range(len(placed))]
        return pa.RecordBatch.from_arrays(ordered, schema=self.whole.schema)

    def encode(self, batch: Any, *, framed: bool) -> Binaries:
        """Return the keys of a batch's rows.

        Raises CannotEncode as :meth:`~flinkish.engine.rows.row_codec.RowCodec.encode` does.
        """
        if not framed:
            return self.whole.encode(batch)
        if self.encoder == NO_PREFIX:
            return self.whole.encode(batch, prefix=b"\x00")
        fields = self.whole.struct.fields
        every = _columns(batch, self.whole.struct)
        columns = [every[i] for i in self.order]
        for index in range(self.ordering):
            columns[index] = _to_sortable(columns[index], fields[self.order[index]])
        rows: list[list[bytes]] = []
        at = 0
        for codec in self.parts:
            part = columns[at : at + len(codec.struct.fields)]
            at += len(part)
            names = [str(i) for i in range(len(part))]
            rows.append(codec.encode(pa.RecordBatch.from_arrays(part, names=names)).rows())
        if self.encoder in {TIMESTAMP_PREFIX, TIMESTAMP_POSTFIX}:
            return Binaries.of(_with_timestamps(self.encoder, rows[0], columns[-1]))
        framed_rows = [[frame_sized_row(row) for row in rows[0]]]
        framed_rows += [[frame_row(row) for row in part] for part in rows[1:]]
        return Binaries.of([b"".join(pieces) for pieces in zip(*framed_rows, strict=True)])

    def _split(self, keys: Sequence[bytes], name: str) -> list[tuple[bytes, ...]]:
        rows = []
        for index, key in enumerate(keys):
            try:
                parts = split_key(key, self.encoder)
            except BadEncoding as error:
                raise StateFormatError(name, None, f"key {index} of a block: {error}") from error
            if len(parts) != len(self.parts):
                reason = f"{len(parts)} rows in place of {len(self.parts)}"
                raise StateFormatError(name, None, f"key {index} of a block: {reason}")
            rows.append(parts)
        return rows


def compile_key(schema: Any, encoder: Mapping[str, Any] | None = None) -> KeyCodec:
    """Return a codec for the keys of a column family.

    ``schema`` and ``encoder`` are JSON, as in schema files of format v3 (for other formats
    :func:`prefix_encoder` returns the encoder). ``encoder`` is None for keys without a prefix.
    Raises UnknownType, and UnsupportedState if the encoder is unknown or does not support a column.
    """
    struct_type = parse_struct(schema)
    fields = struct_type.fields
    whole = codec_of(struct_type)
    kind = str(encoder.get("keyStateEncoderType")) if encoder is not None else NO_PREFIX
    ordinals = tuple(range(len(fields)))
    try:
        if kind == NO_PREFIX:
            return KeyCodec(whole, kind, (whole,), ordinals)
        if kind in {TIMESTAMP_PREFIX, TIMESTAMP_POSTFIX} and fields and fields[-1].type == LONG:
            return KeyCodec(whole, kind, (codec_of(Struct(fields[:-1])),), ordinals)
        if kind == PREFIX_SCAN and encoder is not None:
            count = int(encoder["numColsPrefixKey"])
            parts = (codec_of(Struct(fields[:count])), codec_of(Struct(fields[count:])))
            return KeyCodec(whole, kind, parts, ordinals)
        if kind == RANGE_SCAN and encoder is not None:
            return _range_scan(whole, tuple(int(i) for i in encoder["orderingOrdinals"]))
    except UnsupportedState:
        raise
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UnsupportedState("", None, f"damaged key encoder {str(encoder)[:100]}") from error
    raise UnsupportedState("", None, f"the key encoder {kind[:60]!r} is not known")


def prefix_encoder(columns: int) -> dict[str, Any] | None:
    """Return the JSON of an encoder with a prefix of ``columns`` columns; None for 0."""
    if not columns:
        return None
    return {"keyStateEncoderType": PREFIX_SCAN, "numColsPrefixKey": columns}


def _range_scan(whole: RowCodec, first: tuple[int, ...]) -> KeyCodec:
    fields = whole.struct.fields
    for ordinal in first:
        data_type = fields[ordinal].type
        if not isinstance(data_type, Fixed) or data_type.name not in _SORTABLE:
            reason = f"the column {fields[ordinal].name!r} cannot be an ordering column"
            raise UnsupportedState("", None, reason)
    rest = tuple(i for i in range(len(fields)) if i not in first)
    ordered = codec_of(Struct(tuple(Field(fields[i].name, BINARY) for i in first)))
    parts = (ordered, codec_of(Struct(tuple(fields[i] for i in rest)))) if rest else (ordered,)
    return KeyCodec(whole, RANGE_SCAN, parts, first + rest, len(first))


def _width(data_type: DataType) -> int:
    assert isinstance(data_type, Fixed), data_type
    return data_type.width


def _is_float(data_type: DataType) -> bool:
    return isinstance(data_type, Fixed) and data_type.name in {"float", "double"}


def _from_sortable(column: Any, field: Field, name: str) -> Any:
    """Decode sortable binaries: marker | big-endian value, inverted if it is a negative float."""
    width = _width(field.type)
    values = column.to_pylist()
    if any(value is None or len(value) != width + 1 for value in values):
        reason = f"a value of the ordering column {field.name!r} does not have {width + 1} bytes"
        raise StateFormatError(name, None, reason)
    data = np.frombuffer(b"".join(values), np.uint8).reshape(-1, width + 1)
    marker = data[:, 0]
    words = np.ascontiguousarray(data[:, :0:-1]).view(f"<u{width}")[:, 0]
    if _is_float(field.type):
        words = np.where(marker == _NEGATIVE, ~words, words)
    negative = words >> np.array(8 * width - 1, words.dtype) != 0
    null = marker == _NULL
    expected = np.where(null, _NULL, np.where(negative, _NEGATIVE, _POSITIVE))
    if (marker != expected).any() or words[null].any():
        reason = f"a marker of the ordering column {field.name!r} is wrong"
        raise StateFormatError(name, None, reason)
    validity = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
    arrow = codec_of(Struct((field,))).schema.field(0).type
    return pa.Array.from_buffers(arrow, len(null), [validity, pa.py_buffer(words)])


def _to_sortable(column: Any, field: Field) -> Any:
    width = _width(field.type)
    arrow = codec_of(Struct((field,))).schema.field(0).type
    column = _cast(column, arrow)
    null = column.is_null().to_numpy(zero_copy_only=False)
    buffer = np.frombuffer(column.buffers()[1] or b"", f"<u{width}")
    words = buffer[column.offset : column.offset + len(column)]
    negative = words >> np.array(8 * width - 1, words.dtype) != 0
    if _is_float(field.type):
        words = np.where(negative, ~words, words)
    words = np.where(null, words.dtype.type(0), words)
    data = np.empty((len(null), width + 1), np.uint8)
    data[:, 0] = np.where(null, _NULL, np.where(negative, _NEGATIVE, _POSITIVE))
    data[:, 1:] = np.ascontiguousarray(words).view(np.uint8).reshape(-1, width)[:, ::-1]
    offsets = np.arange(len(null) + 1, dtype=np.int32) * (width + 1)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(null), buffers)


def _timestamps(keys: Sequence[bytes], encoder: str) -> Any:
    """Return the timestamps of keys as an array.

    A timestamp is 8 bytes of a key, big-endian, with the sign bit inverted, so that its bytes sort
    in the order of time.
    """
    first = encoder == TIMESTAMP_PREFIX
    pieces = [key[:_TIMESTAMP_BYTES] if first else key[-_TIMESTAMP_BYTES:] for key in keys]
    micros = np.frombuffer(b"".join(pieces), ">u8").astype(np.uint64) ^ np.uint64(_SIGN)
    return pa.array(micros.view(np.int64))


def _with_timestamps(encoder: str, rows: list[bytes], column: Any) -> list[bytes]:
    values = _cast(column, pa.int64()).to_pylist()
    if None in values:
        raise CannotEncode("the timestamp of a key is null")
    times = [_TIMESTAMP.pack((value & ((1 << 64) - 1)) ^ _SIGN) for value in values]
    both = zip(rows, times, strict=True)
    if encoder == TIMESTAMP_PREFIX:
        return [time + frame_row(row) for row, time in both]
    return [frame_row(row) + time for row, time in both]
