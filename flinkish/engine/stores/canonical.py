"""Canonical state: a store of one partition as Avro files, one for each column family.

``<family>.avro`` holds the rows of one family (:mod:`flinkish.engine.avro.state_avro`), decoded:
all columns of the key, independent of its encoding in RocksDB, and the value, or the list of
values. No state store backend of Spark is needed to read them. The metadata in each file's header
identifies it: ``state.store``, ``state.family`` (the exact name, which may differ from the file's
name), ``state.version``, ``state.key`` and ``state.value`` (JSON of Spark's schemas),
``state.encoder`` (JSON of the key's encoder, if there is one), ``state.lists`` and
``state.internal`` (``true`` or ``false``).

A container file that is cut off between two blocks looks complete. Therefore ``_counts.json``
records the number of rows of each file. It also records each file's CRC-32C, because deflate has no
checksum. It is written last, so a store without it is incomplete. A family without rows has a file
too.

One column has another type in Avro than in Spark's schema: the timeouts of
``flatMapGroupsWithState`` in state format 1 are longs
(:func:`~flinkish.engine.rows.value_formats.value_struct`).

Between tasks, the rows of a canonical store are bytes, as the rows of other stores are: keys and
values are bare UnsafeRows, lists are encoded as in RocksDB
(:func:`~flinkish.engine.rows.encodings.join_list`, without a delimiter).
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, Final, cast

import numpy as np
import pyarrow as pa

from flinkish.checkpoint.format.names import CANONICAL, COUNTS
from flinkish.checkpoint.format.text import spark_json
from flinkish.engine.avro.state_avro import LISTS_KEY, AvroState, read_avro, write_avro
from flinkish.engine.errors import StateFormatError
from flinkish.engine.rows.arrow_parts import build, list_parts
from flinkish.engine.rows.encodings import BadEncoding, join_list, split_value
from flinkish.engine.rows.row_bytes import CannotEncode
from flinkish.engine.rows.row_codec import RowCodec, codec_of
from flinkish.engine.rows.types import Array, Struct, arrow_type
from flinkish.engine.stores.canonical_families import (
    CanonicalFamily,
    FileCounts,
    Summed,
    counts_json,
    families_of,
    read_counts,
)
from flinkish.engine.stores.checkpoints import OperatorState, StoreState
from flinkish.engine.stores.files import StoreFiles, open_state_file
from flinkish.engine.stores.store_rows import RowBlock, read_store

#: Every Avro tool reads deflate; zstandard is faster, but many tools need an extra library for it.
DEFAULT_CODEC: Final = "deflate"
_BLOCK_ROWS: Final = 10_000
_BLOCK_BYTES: Final = 4 << 20
_FAMILY: Final = "state.family"
_INTERNAL: Final = "state.internal"
_VERSION: Final = "state.version"
_SPOOL: Final = pa.schema([("key", pa.large_binary()), ("value", pa.large_binary())])

#: The keys and the values of a block of rows.
Block = tuple[list[bytes], list[bytes]]


def read_rows(files: StoreFiles, operator: OperatorState, store: StoreState) -> Iterator[RowBlock]:
    """Yield all rows of a store of any backend, in blocks.

    See :func:`~flinkish.engine.stores.store_rows.read_store` and :func:`read_canonical`.
    """
    if files.backend == CANONICAL:
        return read_canonical(files, families_of(operator, store))
    return read_store(files)


def write_canonical(
    rows: Iterable[tuple[int, list[bytes], list[bytes]]],
    create: Callable[[str], BinaryIO],
    families: Sequence[CanonicalFamily],
    version: int,
    *,
    codec: str = DEFAULT_CODEC,
    scratch: str | None = None,
) -> int:
    """Write a store of one partition as Avro files.

    Memory is bounded by a block of rows. The rows of several families may come in any order; as the
    files are written one after another, these rows are first written to the local disk.

    Returns the number of rows. Each block of ``rows`` is the index of a family in ``families``
    (whose names are unique), keys and values, both as bytes in the form that the module describes.
    ``create`` opens a path relative to the store's directory for writing. ``codec`` is Avro's name.
    ``scratch`` is a local directory; None means the system's temporary directory.

    Raises StateFormatError if a row does not match its schema, CannotEncode for a null where the
    schema allows none and for rows too large for a block, and ValueError for an unknown codec.
    """
    with tempfile.TemporaryDirectory(prefix="canonical-", dir=scratch) as directory:
        if len(families) == 1:
            parts: list[Iterator[Block]] = [((keys, values) for _, keys, values in rows)]
        else:
            parts = _spooled(rows, directory, len(families))
        counts = {}
        for family, blocks in zip(families, parts, strict=True):
            metadata = {
                "state.store": family.store,
                _FAMILY: family.name,
                _VERSION: str(version),
                "state.key": spark_json(family.key),
                "state.value": spark_json(family.value),
                **({"state.encoder": spark_json(family.encoder)} if family.encoder else {}),
                "state.lists": _flag(family.lists),
                _INTERNAL: _flag(family.internal),
            }
            with create(family.file) as file:
                summed = Summed(file)
                written = write_avro(
                    cast(BinaryIO, summed),
                    family.key_struct,
                    family.value_struct,
                    _batches(family, blocks),
                    codec=codec,
                    metadata=metadata,
                    lists=family.lists,
                )
            counts[family.file] = FileCounts(written, summed.crc)
    with create(COUNTS) as file:
        file.write(counts_json(counts, version))
    return sum(count.rows for count in counts.values())


def read_canonical(files: StoreFiles, families: Sequence[CanonicalFamily]) -> Iterator[RowBlock]:
    """Yield all rows of a canonical store, in blocks of at most 10,000 rows of one family.

    The blocks are not framed, but lists are encoded as in RocksDB.

    The store must have ``families``; their ``encoder`` and ``internal`` are not compared.

    Raises StateFormatError, possibly after some rows, if a file is damaged, cut short, of another
    version of the state or of other schemas, or missing (MissingStateFile); UnsupportedState if a
    newer release wrote it, or it has an unknown codec or another version of Avro's container.
    """
    counts = read_counts(files)
    for family in families:
        expected = counts.get(family.file)
        if expected is None:
            raise StateFormatError(COUNTS, None, f"the family {family.name!r} is not in it")
        rows = 0
        with open_state_file(files, family.file) as file:
            summed = Summed(file)
            state = read_avro(cast(BinaryIO, summed), family.file)
            _check(state, family, files.version)
            codecs = codec_of(family.key_struct), codec_of(family.value_struct)
            for keys, values in state.blocks:
                rows += keys.num_rows
                yield _block(family, codecs, keys, values)
        if rows != expected.rows:
            reason = f"{rows} rows in place of {expected.rows}: it is cut short, or another file"
            raise StateFormatError(family.file, None, reason)
        if summed.crc != expected.crc32c:
            raise StateFormatError(family.file, None, f"its checksum is not that in {COUNTS}")


def internal_families(files: StoreFiles) -> frozenset[str]:
    """Return the column families that the files of a canonical store mark as Spark's own.

    Errors are those of :func:`read_canonical`.
    """
    internal = set()
    for name in read_counts(files):
        with open_state_file(files, name) as file:
            metadata = read_avro(file, name).metadata
        if metadata.get(_INTERNAL) == "true":
            internal.add(metadata.get(_FAMILY, ""))
    return frozenset(internal)


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _check(state: AvroState, family: CanonicalFamily, version: int) -> None:
    """Check that a file belongs to the family, by its header."""
    metadata = state.metadata
    named = tuple(metadata.get(name) for name in ("state.store", _FAMILY, _VERSION))
    expected = (family.store, family.name, str(version))
    if named != expected:
        is_of, should = (f"store {s!r}, family {f!r}, version {v}" for s, f, v in (named, expected))
        raise StateFormatError(family.file, 0, f"it is of {is_of}, not of {should}")
    if (metadata.get(LISTS_KEY) == "true") != family.lists:
        reason = "its values are lists" if not family.lists else "its values are not lists"
        raise StateFormatError(family.file, 0, f"{reason}, contrary to the operator's metadata")
    if (state.key, state.value) != (family.key_struct, family.value_struct):
        reason = "its schema is not that of the state's schema file"
        raise StateFormatError(family.file, 0, reason)


def _block(
    family: CanonicalFamily, codecs: tuple[RowCodec, RowCodec], keys: Any, values: Any
) -> RowBlock:
    try:
        encoded = codecs[0].encode(keys).rows()
        if not family.lists:
            return RowBlock(family.name, encoded, codecs[1].encode(values).rows(), framed=False)
        offsets, elements = list_parts(values.column(0))
        rows = codecs[1].encode(pa.RecordBatch.from_struct_array(elements)).rows()
    except CannotEncode as error:
        raise StateFormatError(family.file, None, str(error)) from error
    lists = [rows[start:end] for start, end in itertools.pairwise(offsets.tolist())]
    if not all(lists):
        raise StateFormatError(family.file, None, "a list without elements, which Spark never has")
    return RowBlock(family.name, encoded, [join_list(part) for part in lists], framed=False)


def _batches(family: CanonicalFamily, blocks: Iterable[Block]) -> Iterator[tuple[Any, Any]]:
    """Convert rows to pairs of batches: one of keys, and one of values or lists."""
    key_codec, value_codec = codec_of(family.key_struct), codec_of(family.value_struct)
    where = f"{family.store}/{family.name}"
    for keys, values in _gathered(blocks):
        columns = key_codec.decode(keys, name=where)
        if not family.lists:
            yield columns, value_codec.decode(values, name=where)
            continue
        try:
            split = [split_value(value) for value in values]
        except BadEncoding as error:
            raise StateFormatError(where, None, f"a value: {error}") from error
        rows = value_codec.decode(list(itertools.chain.from_iterable(split)), name=where)
        yield columns, _lists(family.value_struct, rows, [len(part) for part in split])


def _lists(struct: Struct, rows: Any, lengths: list[int]) -> Any:
    """Group rows into a batch with one column of lists."""
    arrow = arrow_type(Array(struct))
    elements = build(arrow.value_type, np.zeros(rows.num_rows, bool), list(rows.columns))
    offsets = np.cumsum([0, *lengths])
    column = build(arrow, np.zeros(len(lengths), bool), [elements], offsets)
    return pa.RecordBatch.from_arrays([column], names=["list"])


def _gathered(blocks: Iterable[Block]) -> Iterator[Block]:
    """Merge small blocks into larger ones, as Spark's shuffle may yield many blocks of few rows."""
    keys: list[bytes] = []
    values: list[bytes] = []
    size = 0
    for some_keys, some_values in blocks:
        keys += some_keys
        values += some_values
        size += sum(map(len, some_keys)) + sum(map(len, some_values))
        if len(keys) >= _BLOCK_ROWS or size >= _BLOCK_BYTES:
            yield keys, values
            keys, values, size = [], [], 0
    if keys:
        yield keys, values


def _spooled(
    rows: Iterable[tuple[int, list[bytes], list[bytes]]], directory: str, count: int
) -> list[Iterator[Block]]:
    """Return the blocks of each family, after writing each family to a local file."""
    paths = [os.path.join(directory, str(place)) for place in range(count)]
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    writers = [pa.ipc.new_stream(path, _SPOOL, options=options) for path in paths]
    try:
        for place, keys, values in rows:
            columns = [pa.array(keys, pa.large_binary()), pa.array(values, pa.large_binary())]
            writers[place].write_batch(pa.RecordBatch.from_arrays(columns, schema=_SPOOL))
    finally:
        for writer in writers:
            writer.close()
    return [_unspooled(path) for path in paths]


def _unspooled(path: str) -> Iterator[Block]:
    with pa.OSFile(path) as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            yield batch.column(0).to_pylist(), batch.column(1).to_pylist()
