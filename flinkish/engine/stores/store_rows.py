"""All rows of a state store, in blocks."""

from __future__ import annotations

import contextlib
import itertools
import operator
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flinkish.checkpoint.format.names import HDFS, ROCKSDB
from flinkish.engine.errors import StateFormatError, UnsupportedState
from flinkish.engine.rows.arrow_parts import MAX_ROWS, in_pieces
from flinkish.engine.rows.encodings import FamilyShape, check_block
from flinkish.engine.stores.files import UNSAFE_ROW, StoreFiles
from flinkish.engine.stores.hdfs_store import read_hdfs_store
from flinkish.engine.stores.native import NativeError, Reader
from flinkish.engine.stores.rocksdb import merged, open_files
from flinkish.engine.stores.rocksdb_store import (
    RocksDBRows,
    closed_database,
    family_of,
    open_rocksdb_store,
)
from flinkish.engine.stores.sst_files import FAMILY_ID_BYTES, family_number

#: The name of the only column family of a store without column families.
DEFAULT_FAMILY = "default"
_key, _value = operator.itemgetter(0), operator.itemgetter(1)
#: The fewest rows that are read at once from each of many stores.
_FEWEST_ROWS = 1_000


@dataclass(frozen=True)
class RowBlock:
    """A block of rows of one column family; its keys and values may be :class:`.Binaries`.

    ``family`` is ``default`` in stores without column families. ``keys`` are without the family's
    id. ``framed`` rows are encoded as in RocksDB (:mod:`flinkish.engine.rows.encodings` decodes
    them); otherwise each key and value is an UnsafeRow, but a list is still encoded as in RocksDB.
    """

    family: str
    keys: Sequence[bytes]
    values: Sequence[bytes]
    framed: bool


@dataclass(frozen=True)
class RowCounts:
    """The number of rows of a store.

    ``families`` has the number of rows of each column family that has any. ``recorded`` is the
    total number that Spark recorded in the snapshot; None if the version is not a RocksDB snapshot,
    or Spark did not record the number.
    """

    families: dict[str, int] = field(default_factory=dict)
    recorded: int | None = None

    @property
    def total(self) -> int:
        """The number of rows of all families."""
        return sum(self.families.values())


def read_store(
    files: StoreFiles, shapes: Mapping[str, FamilyShape] | None = None
) -> Iterator[RowBlock]:
    """Yield all rows of ``files.version``, in blocks of at most ``MAX_ROWS`` rows of one family.

    Memory is bounded by a block, and a bounded part of the changes after the last snapshot.

    Rows of the families in ``shapes`` are checked against their shape; others are not checked.

    Raises StateFormatError, possibly after some rows, if a file is damaged, missing
    (MissingStateFile), of an unknown form (UnsupportedState), or has a row of a wrong structure.
    """
    _check_supported(files)
    if files.backend == HDFS:
        for rows in in_pieces(read_hdfs_store(files)):
            block = RowBlock(DEFAULT_FAMILY, *_columns(rows), framed=False)
            _check(block, shapes, f"version {files.version}")
            yield block
        return
    with open_rocksdb_store(files) as store:
        yield from _rocksdb_blocks(store, shapes)


@contextlib.contextmanager
def open_merged(
    stores: Sequence[StoreFiles], functions: Any = None
) -> Iterator[list[Iterator[RowBlock]]]:
    """Open RocksDB stores, and yield their blocks merged in key order, family by family.

    There is one iterator for all stores whose column families have the same ids, which is usually
    all of them. With ``functions`` of :func:`.native.library` a block is valid until the next one
    is read. Errors are those of :func:`read_store`, and NativeError.
    """
    if functions is not None:
        with _open_natively(stores, functions) as blocks:
            yield blocks
        return
    with contextlib.ExitStack() as stack:
        opened: dict[tuple[tuple[int, str], ...], list[RocksDBRows]] = {}
        for files in stores:
            _check_supported(files)
            store = stack.enter_context(open_rocksdb_store(files, len(stores)))
            families = tuple(sorted(store.metadata.families.items()))
            opened.setdefault(families, []).append(store)
        yield [_merged_blocks(group) for group in opened.values()]


@contextlib.contextmanager
def _open_natively(
    stores: Sequence[StoreFiles], functions: Any
) -> Iterator[list[Iterator[RowBlock]]]:
    with contextlib.ExitStack() as stack:
        groups: dict[tuple[tuple[int, str], ...], list[str]] = {}
        for files in stores:
            _check_supported(files)
            directory, metadata = stack.enter_context(closed_database(files))
            groups.setdefault(tuple(sorted(metadata.families.items())), []).append(directory)
        readers = [
            (
                dict(names),
                stack.enter_context(
                    Reader(functions, directories, family_bytes(names), open_files(len(stores)))
                ),
            )
            for names, directories in groups.items()
        ]
        yield [_native_blocks(reader, names) for names, reader in readers]


def family_bytes(families: Collection[object]) -> int:
    """Return the number of bytes of a family's id at the start of a store's keys."""
    return FAMILY_ID_BYTES if families else 0


def _native_blocks(reader: Reader, families: Mapping[int, str]) -> Iterator[RowBlock]:
    skip = family_bytes(families)
    for keys, values in reader.blocks():
        yield RowBlock(native_family(keys[0], families), keys.without(skip), values, framed=True)


def native_family(key: bytes, families: Mapping[int, str]) -> str:
    """Return the column family of a key; raise NativeError if it is unknown."""
    if not families:
        return DEFAULT_FAMILY
    number = family_number(key)
    if number is None or number not in families:
        raise NativeError(f"a key of the unknown column family {number}")
    return families[number]


def _merged_blocks(stores: Sequence[RocksDBRows]) -> Iterator[RowBlock]:
    most = max(_FEWEST_ROWS, MAX_ROWS // len(stores))
    pieces = merged([store.pieces(most) for store in stores])
    # An error names all stores, because its row may come from any of them.
    name = ", ".join(dict.fromkeys(store.chain.name for store in stores))
    return _blocks_of(pieces, stores[0].metadata.families, name)


def count_rows(files: StoreFiles, shapes: Mapping[str, FamilyShape] | None = None) -> RowCounts:
    """Read all rows of a store, as :func:`read_store` does, and count them.

    Parameters and errors are those of :func:`read_store`.
    """
    counts: Counter[str] = Counter()
    if files.backend == HDFS:
        for block in read_store(files, shapes):
            counts[block.family] += len(block.keys)
        return RowCounts(dict(counts))
    _check_supported(files)
    with open_rocksdb_store(files) as store:
        for block in _rocksdb_blocks(store, shapes):
            counts[block.family] += len(block.keys)
        recorded = None if store.chain.changes else store.metadata.rows
        return RowCounts(dict(counts), recorded)


def _check_supported(files: StoreFiles) -> None:
    if files.backend not in {HDFS, ROCKSDB}:
        raise UnsupportedState("", None, f"unknown state store backend {files.backend!r}")
    if files.row_checksums:
        raise UnsupportedState("", None, "state with row checksums is not supported yet")
    if files.encoding != UNSAFE_ROW:
        raise UnsupportedState(
            "", None, f"state encoded as {files.encoding!r} is not supported yet"
        )


def _rocksdb_blocks(
    store: RocksDBRows, shapes: Mapping[str, FamilyShape] | None
) -> Iterator[RowBlock]:
    name = store.chain.name
    for block in _blocks_of(store.pieces(), store.metadata.families, name):
        _check(block, shapes, name)
        yield block


def _blocks_of(
    pieces: Iterable[list[tuple[bytes, bytes]]], families: Mapping[int, str], name: str
) -> Iterator[RowBlock]:
    for piece in pieces:
        # Keys are in order and begin with their family's id, so most pieces have one family.
        for rows in _by_family(piece) if families else (piece,):
            keys, values = _columns(rows)
            family = DEFAULT_FAMILY
            if families:
                family = family_of(keys[0], families, name)
                keys = [key[FAMILY_ID_BYTES:] for key in keys]
            yield RowBlock(family, keys, values, framed=True)


def _by_family(piece: list[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    if piece and piece[0][0][:FAMILY_ID_BYTES] == piece[-1][0][:FAMILY_ID_BYTES]:
        yield piece
        return
    for _, group in itertools.groupby(piece, lambda row: row[0][:FAMILY_ID_BYTES]):
        yield list(group)


def _columns(rows: list[tuple[bytes, bytes]]) -> tuple[list[bytes], list[bytes]]:
    return list(map(_key, rows)), list(map(_value, rows))


def _check(block: RowBlock, shapes: Mapping[str, FamilyShape] | None, name: str) -> None:
    shape = shapes.get(block.family) if shapes else None
    if shape is None:
        return
    bad_row = check_block(block.keys, block.values, shape, framed=block.framed)
    if bad_row:
        key = block.keys[bad_row[0]].hex()[:64]
        reason = f"row with the key {key} of {block.family}: {bad_row[1]}"
        raise StateFormatError(name, None, reason)
