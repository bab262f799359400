"""Canonical state: the rows of a state store as an Avro object container file.

Each record is ``{key, value}``. The schema in the header is that of
:func:`~flinkish.engine.avro.schemas.avro_schema`, so any Avro tool that supports the codec reads
the rows. They are encoded by whole columns (:mod:`flinkish.engine.avro.encoder`). Rows without
arrays and maps are decoded by whole columns too (:mod:`flinkish.engine.avro.decoder`), other rows
by fastavro, or by :mod:`flinkish.avro.decoding` if elements of an array may take no bytes.
:mod:`flinkish.avro.container` writes and reads the container, so that errors have the offset of the
damaged block, and fastavro does not convert values to Python's types.
"""

from __future__ import annotations

import functools
import io
import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, NamedTuple

import pyarrow as pa
from fastavro import parse_schema, schemaless_reader
from fastavro.schema import SchemaParseException, to_parsing_canonical_form

from flinkish.avro.container import (
    COMPRESS,
    DECOMPRESS,
    MAGIC,
    SYNC_BYTES,
    Block,
    ContainerReader,
    UnsupportedAvro,
    encode_long,
)
from flinkish.avro.decoding import (
    DamagedAvro,
    Decode,
    compile_schema,
    has_empty_items,
    read_value,
    takes_no_bytes,
)
from flinkish.checkpoint.format.text import parse_json
from flinkish.engine.avro.decoder import RowDecoder
from flinkish.engine.avro.encoder import array_of_batch, encode_records
from flinkish.engine.avro.record_columns import Wire, compile_list, compile_wire
from flinkish.engine.avro.schemas import avro_schema, spark_struct
from flinkish.engine.bounds import most_of
from flinkish.engine.errors import StateFormatError, UnsupportedState
from flinkish.engine.rows.row_bytes import CannotEncode
from flinkish.engine.rows.types import Array, Field, Struct, arrow_type
from flinkish.engine.rows.unsafe_rows import UnknownType

#: The format version of the files, in their metadata under ``FORMAT_KEY``.
FORMAT: Final = "1"
FORMAT_KEY: Final = "flinkish.format"
#: ``true`` in the metadata of files whose values are lists of records.
LISTS_KEY: Final = "flinkish.lists"
#: The maximum number of rows in a block that is written, in a pair of batches that is read, and in
#: a block that is read if it has fewer bytes than rows.
BLOCK_ROWS: Final = 10_000
#: Approximate bytes of a block's columns; as Python objects they need several times as much.
BLOCK_BYTES: Final = 4 << 20
#: The maximum number of rows in a block of a file that is read.
_MAX_ROWS: Final = 1_000_000
#: The maximum number of array elements without bytes in a block; six bytes can mean 2^40 nulls.
_MAX_EMPTY: Final = 10_000_000
_MAX_HEADER: Final = 1 << 26
#: The maximum number of bytes of a block, compressed or not.
_MAX_BLOCK: Final = 1 << 30
_NAME: Final = "flinkish.row"


class AvroState(NamedTuple):
    """The content of a canonical file.

    ``metadata`` has the entries given to :func:`write_avro` and the ``flinkish.`` entries of the
    file itself. ``value`` is the schema of the values, or of one record of their lists; None for
    keys alone. ``blocks`` are pairs of a batch of keys and a batch of values (None for keys alone).
    """

    metadata: dict[str, str]
    key: Struct
    value: Struct | None
    blocks: Iterator[tuple[Any, Any]]


def list_column(value: Struct) -> Struct:
    """Return the schema of the value batches of a file with lists.

    It has one column, a list of ``value``.
    """
    return Struct((Field("list", Array(value), nullable=False),))


def row_schema(key: Struct, value: Struct | None, *, lists: bool = False) -> dict[str, Any]:
    """Return the Avro schema of a file's records, as in its header."""
    fields = [{"name": "key", "type": avro_schema(key, f"{_NAME}.key")}]
    if value is not None:
        name = f"{_NAME}.value"
        schema: Any = avro_schema(value, f"{name}.element" if lists else name)
        fields.append(
            {"name": "value", "type": {"type": "array", "items": schema} if lists else schema}
        )
    return {"type": "record", "name": _NAME, "fields": fields}


def write_avro(
    file: BinaryIO,
    key: Struct,
    value: Struct | None,
    batches: Iterator[tuple[Any, Any]],
    *,
    codec: str = "zstandard",
    metadata: Mapping[str, str] | None = None,
    lists: bool = False,
) -> int:
    """Write rows as an Avro object container file.

    Returns the number of rows. ``batches`` are pairs of record batches with equal numbers of rows:
    keys, and values (None if ``value`` is); columns are matched by position. Every Avro tool
    supports the codec ``deflate``, few ``zstandard``; other codecs raise ValueError. So do
    names in ``metadata`` that begin with ``avro.`` or ``flinkish.``, which are reserved. With
    ``lists``, values are lists of records of ``value``; see :func:`list_column`.

    Raises CannotEncode if a batch does not match its schema, has a null where the schema allows
    none, or has rows too large for a block (1 GiB).
    """
    if codec not in COMPRESS:
        raise ValueError(f"unsupported Avro codec {codec} (supported: {', '.join(COMPRESS)})")
    reserved = [name for name in metadata or {} if name.startswith(("avro.", "flinkish."))]
    if reserved:
        raise ValueError(f"the name {reserved[0]} is reserved in a file's metadata")
    form = _Form.of(key, value, lists)
    sync = os.urandom(SYNC_BYTES)
    header = {
        "avro.codec": codec,
        "avro.schema": json.dumps(row_schema(key, value, lists=lists)),
        **(metadata or {}),
        FORMAT_KEY: FORMAT,
        **({LISTS_KEY: "true"} if lists else {}),
    }
    file.write(MAGIC + encode_long(len(header)))
    for name, text in header.items():
        for part in (name.encode(), text.encode()):
            file.write(encode_long(len(part)) + part)
    file.write(b"\0" + sync)
    rows = 0
    for keys, values in batches:
        for count, data in form.encode(keys, values):
            if len(data) > _MAX_BLOCK:
                raise CannotEncode(f"{count} rows cannot be one block: they take {len(data)} bytes")
            packed = COMPRESS[codec](data)
            file.write(b"".join((encode_long(count), encode_long(len(packed)), packed, sync)))
            rows += count
    return rows


def read_avro(file: BinaryIO, name: str) -> AvroState:
    """Read a file of :func:`write_avro`; its blocks are read lazily.

    ``file`` must stay open while blocks are read; ``name`` is for errors.

    Raises StateFormatError, also while blocks are read, if the file is damaged, cut short or not
    such a file, and UnsupportedState for another version, codec or Avro version. A file that ends
    between two blocks looks complete: its number of rows must be recorded elsewhere to detect this.
    """
    container = ContainerReader(file, max_header=_MAX_HEADER, max_block=_MAX_BLOCK)
    header, sync = _header(container, name)
    version = header.get(FORMAT_KEY)
    if version is None:
        raise StateFormatError(name, 0, f"not canonical state: the metadata has no {FORMAT_KEY}")
    if version != FORMAT:
        reason = f"version {version} of canonical state: only {FORMAT} is read; use a newer release"
        raise UnsupportedState(name, 0, reason)
    codec = header.get("avro.codec", "null")
    if codec not in DECOMPRESS:
        raise UnsupportedState(
            name, 0, f"unsupported Avro codec {codec} (supported: {', '.join(DECOMPRESS)})"
        )
    lists = header.get(LISTS_KEY) == "true"
    key, value = _schemas(header.get("avro.schema", ""), name, lists)
    form = _Form.of(key, value, lists)
    metadata = {k: v for k, v in header.items() if not k.startswith("avro.")}
    blocks = container.blocks(sync, functools.partial(decompress, codec))
    return AvroState(metadata, key, value, _batches(blocks, name, form))


def _header(container: ContainerReader, name: str) -> tuple[dict[str, str], bytes]:
    try:
        metadata, sync = container.header()
        return {key: value.decode() for key, value in metadata.items()}, sync
    except DamagedAvro as error:
        raise StateFormatError(name, 0, error.reason) from error
    except UnsupportedAvro as error:
        raise UnsupportedState(name, 0, error.message) from error
    except UnicodeDecodeError as error:
        reason = "the metadata is damaged: it is not UTF-8"
        raise StateFormatError(name, 0, reason) from error


def decompress(codec: str, packed: bytes) -> bytes:
    """Return the content of a block; raise ValueError if it is damaged or too large."""
    return DECOMPRESS[codec](packed, min(_MAX_BLOCK, most_of(len(packed))))


def _schemas(text: str, name: str, lists: bool) -> tuple[Struct, Struct | None]:
    try:
        schema = parse_json(text)
        types = {field["name"]: field["type"] for field in schema["fields"]}
        key = spark_struct(types["key"])
        value = None
        if "value" in types:
            value = spark_struct(types["value"]["items"] if lists else types["value"])
        # The header's schema must have the same wire form as the schema that blocks are read by.
        derived = row_schema(key, value, lists=lists)
        same = _canonical(schema) == _canonical(derived)
    except (ValueError, TypeError, KeyError, SchemaParseException, UnknownType) as error:
        raise StateFormatError(name, 0, f"the header has no schema of a state: {error}") from error
    if not same:
        raise StateFormatError(name, 0, "the header's schema is not a state schema")
    return key, value


def _canonical(schema: Any) -> str:
    return to_parsing_canonical_form(schema)


def _batches(blocks: Iterator[Block], name: str, form: _Form) -> Iterator[tuple[Any, Any]]:
    while True:
        try:
            block = next(blocks, None)
        except DamagedAvro as error:
            raise StateFormatError(name, error.offset, error.reason) from error
        if block is None:
            return
        count = block.count
        try:
            # Each row takes a byte at least, unless rows have no fields.
            if count > max(len(block.data), BLOCK_ROWS) or count > _MAX_ROWS:
                raise ValueError(f"{count} rows in {len(block.data)} bytes")
            keys, values = form.decode(count, block.data)
        except (
            *(ValueError, TypeError, EOFError, LookupError, ArithmeticError),
            DamagedAvro,
        ) as error:
            reason = f"a damaged block: {error or type(error).__name__}"
            raise StateFormatError(name, block.offset, reason) from error
        for at in range(0, count, BLOCK_ROWS):
            part = None if values is None else values.slice(at, BLOCK_ROWS)
            yield keys.slice(at, BLOCK_ROWS), part


@dataclass(frozen=True)
class _Form:
    """The conversion between pairs of batches and the bytes of a block.

    fastavro reads a block as one record with an array of rows: the number of rows, the rows as in
    the block, and a zero.

    ``types`` are the types of keys and of values, if there are values: structs, or arrays for lists
    of records. ``parts`` and ``arrows`` are their wire forms and Arrow types by their names on the
    wire. ``schema`` is the schema of the block's record, as parsed by fastavro.
    ``rows`` decodes rows without arrays and maps in place of fastavro; None for other rows.
    ``decode_bounded`` decodes a block in place of fastavro and counts elements that take no bytes;
    None if there are none.
    """

    types: tuple[Struct | Array, ...]
    parts: dict[str, Wire]
    arrows: dict[str, Any]
    schema: Any
    rows: RowDecoder | None
    decode_bounded: Decode | None

    @classmethod
    def of(cls, key: Struct, value: Struct | None, lists: bool) -> _Form:
        types: dict[str, Struct | Array] = {"k": key}
        if value is not None:
            types["v"] = Array(value) if lists else value
        names = (f"r{i}" for i in itertools.count(2))  # r0 is the block, r1 a row
        parts = {name: compile_wire(data_type, names) for name, data_type in types.items()}
        if lists and value is not None:
            parts["v"] = compile_list(value, names)
        arrows = {name: arrow_type(data_type) for name, data_type in types.items()}
        fields = [{"name": name, "type": wire.schema} for name, wire in parts.items()]
        row = {"type": "record", "name": "r1", "fields": fields}
        rows = {"name": "rows", "type": {"type": "array", "items": row}}
        block = {"type": "record", "name": "r0", "fields": [rows]}
        bounded = has_empty_items(block)
        decode_bounded = compile_schema(block, counted=takes_no_bytes) if bounded else None
        every = tuple(types.values())
        return cls(every, parts, arrows, parse_schema(block), RowDecoder.of(every), decode_bounded)

    def encode(self, keys: Any, values: Any) -> Iterator[tuple[int, bytes]]:
        """Yield the blocks of a pair of batches: the number of rows, and their bytes."""
        batches = (keys,) if values is None else (keys, values)
        if len(batches) != len(self.parts) or len({b.num_rows for b in batches}) != 1:
            raise CannotEncode("keys and values differ in their rows, or one of them is missing")
        count = keys.num_rows
        arrays = [array_of_batch(b, a) for b, a in zip(batches, self.arrows.values(), strict=True)]
        size = sum(array.nbytes for array in arrays)
        step = max(1, min(BLOCK_ROWS, BLOCK_BYTES * count // max(size, 1)))
        for at in range(0, count, step):
            rows = min(step, count - at)
            slices = (array.slice(at, rows) for array in arrays)
            yield rows, encode_records(list(zip(self.types, slices, strict=True)), rows)

    def decode(self, count: int, data: bytes) -> tuple[Any, Any]:
        """Return the batches of a block.

        Raises ValueError, TypeError, EOFError, LookupError, ArithmeticError or DamagedAvro if the
        bytes do not match the schema.
        """
        if self.rows is not None:
            return self._batches_of(self.rows.decode(data, count))
        whole = b"".join((encode_long(count), data, b"\0" if count else b""))
        # fastavro annotates a schemaless record as any JSON value; this one is always a dict.
        block: Any
        if self.decode_bounded is not None:
            block = read_value(self.decode_bounded, whole, max_items=_MAX_EMPTY)
            rest = b""
        else:
            framed = io.BytesIO(whole)
            block = schemaless_reader(framed, self.schema, None)
            rest = framed.read(1)
        rows = block["rows"]
        if len(rows) != count or rest:
            raise ValueError(f"its bytes are not those of {count} rows")
        return self._batches_of(
            [wire.from_python([row[name] for row in rows]) for name, wire in self.parts.items()]
        )

    @staticmethod
    def _batches_of(arrays: Sequence[Any]) -> tuple[Any, Any]:
        batches = []
        for array in arrays:
            if pa.types.is_struct(array.type):
                batches.append(pa.RecordBatch.from_struct_array(array))
            else:
                batches.append(pa.RecordBatch.from_arrays([array], names=["list"]))
        return batches[0], batches[1] if len(batches) == 2 else None
