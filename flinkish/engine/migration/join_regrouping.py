"""Regroup the rows of joins: lists by key and time become rows by key and index, or back.

All rows of a join key are in one state partition, so the task that reads the partition can number
and collect the rows before they go to new partitions. Rows of format 4 come from RocksDB sorted by
key, then by time. Rows that are not in the required order go through a sorter on the local disk.
Memory is bounded by a block of rows and the rows of one key and time.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import rocksdict

from flinkish.engine.errors import EngineError, StateFormatError
from flinkish.engine.migration.migration_plan import (
    EventTime,
    FamilyMigration,
    JoinLayout,
    StoreMigration,
)
from flinkish.engine.rows.arrow_parts import in_pieces
from flinkish.engine.rows.encodings import (
    TIMESTAMP_POSTFIX,
    BadEncoding,
    frame_row,
    join_list,
    split_value,
)
from flinkish.engine.rows.row_codec import compile_key
from flinkish.engine.stores.rocksdb import (
    make_scratch,
    open_files,
    pieces_of,
    remove_scratch,
    rocksdb_errors,
    without_log,
)
from flinkish.engine.stores.store_rows import RowBlock

_TIME_BYTES: Final = 8
_INDEX: Final = struct.Struct(">q")
_COUNT: Final = struct.Struct("<Bqq")
_LONG: Final = struct.Struct("<q")
_POSTFIX: Final = {"keyStateEncoderType": TIMESTAMP_POSTFIX}
#: A row whose only column, of type void, is null (``TsWithKeyTypeStore.EMPTY_ROW``).
_EMPTY_ROW: Final = _LONG.pack(1) + bytes(8)
#: Times of rows without an event time are below this (``bucketCountForNoEventTime``).
_BUCKETS: Final = 1024
_SORTING: Final = "RocksDB, sorting"
#: A join has four states, each of which may need a sorter.
_SORTERS: Final = 4

Rows = Iterator[tuple[bytes, bytes]]


def regrouped(blocks: Iterable[RowBlock], store: StoreMigration, name: str) -> Iterator[RowBlock]:
    """Yield the rows of a store's partition; those of families with a ``regroup`` are regrouped.

    The regrouped rows are framed as in RocksDB, in the form ``before`` of their family's migration.

    ``blocks`` are all rows of the partition. ``name`` is the store's, for errors.
    """
    with contextlib.ExitStack() as stack:
        workers: dict[str, _Exploding | _Collecting] = {}
        for family in store.families:
            if family.regroup is not None:
                exploding = family.regroup.layout in (JoinLayout.INDEXED, JoinLayout.COUNTS)
                kind = _Exploding if exploding else _Collecting
                workers[family.source] = kind(family, name, stack)
        for block in blocks:
            worker = workers.get(block.family)
            if worker is None:
                yield block
            else:
                yield from worker.add(block)
        for worker in workers.values():
            yield from worker.finish()


class _Exploding:
    """Turns lists by key and time, sorted by both, into rows by key and index, or into counts.

    Rows that do not come from RocksDB are unsorted, and are sorted first.
    """

    def __init__(self, move: FamilyMigration, name: str, stack: contextlib.ExitStack) -> None:
        assert move.regroup is not None
        self._family = move.source
        self._counts = move.regroup.layout is JoinLayout.COUNTS
        self._source = compile_key(move.regroup.source.key, _POSTFIX)
        self._target = compile_key(move.before.key)
        self._name = name
        self._sorter = None if move.regroup.source.framed else stack.enter_context(Sorter())
        self._key: bytes | None = None
        self._count = 0

    def add(self, block: RowBlock) -> Iterator[RowBlock]:
        if self._sorter is None:
            yield from self._explode(block.keys, block.values)
            return
        columns = self._source.decode(block.keys, framed=False, name=self._name)
        self._sorter.put(self._source.encode(columns, framed=True), block.values)

    def finish(self) -> Iterator[RowBlock]:
        for piece in in_pieces(self._sorter.rows()) if self._sorter is not None else ():
            yield from self._explode([key for key, _ in piece], [value for _, value in piece])
        if self._counts and self._key is not None:
            yield RowBlock(self._family, [self._key], [_count(self._count)], framed=True)
        self._key = None

    def _explode(self, keys: Sequence[bytes], values: Sequence[bytes]) -> Iterator[RowBlock]:
        try:
            lists = [split_value(value) for value in values]
        except BadEncoding as error:
            raise StateFormatError(self._name, None, f"a value: {error}") from error
        firsts: list[int] = []
        counted: list[tuple[bytes, int]] = []
        for key, rows in zip(keys, lists, strict=True):
            own = key[:-_TIME_BYTES]
            if own != self._key:
                if self._key is not None:
                    counted.append((self._key, self._count))
                self._key, self._count = own, 0
            firsts.append(self._count)
            self._count += len(rows)
        if self._counts:
            if counted:
                counts = [_count(count) for _, count in counted]
                yield RowBlock(self._family, [key for key, _ in counted], counts, framed=True)
            return
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        starts = np.cumsum(lengths) - lengths
        indexes = np.arange(lengths.sum()) + np.repeat(np.array(firsts) - starts, lengths)
        columns = self._source.decode(keys, framed=True, name=self._name)
        repeated = columns.take(pa.array(np.repeat(np.arange(len(lists)), lengths)))
        values_batch = pa.RecordBatch.from_arrays(
            [*repeated.columns[:-1], pa.array(indexes, pa.int64())],
            schema=self._target.whole.schema,
        )
        framed = [frame_row(row) for rows in lists for row in rows]
        yield RowBlock(
            self._family, self._target.encode(values_batch, framed=True), framed, framed=True
        )


class _Collecting:
    """Turns rows by key and index into lists by key and time, or empty rows by time and key."""

    def __init__(self, move: FamilyMigration, name: str, stack: contextlib.ExitStack) -> None:
        assert move.regroup is not None
        assert move.regroup.time is not None
        self._family = move.source
        self._times = move.regroup.layout is JoinLayout.TIMES
        self._source = compile_key(move.regroup.source.key, move.regroup.source.encoder)
        self._target = compile_key(move.before.key, _POSTFIX)
        self._time = move.regroup.time
        self._width = len(move.regroup.source.value["fields"])
        self._name = name
        self._sorter = stack.enter_context(Sorter())

    def add(self, block: RowBlock) -> Iterator[RowBlock]:
        if self._times and self._time.column is None:
            return
        columns = self._source.decode(block.keys, framed=block.framed, name=self._name)
        indexes = columns.column(columns.num_columns - 1)
        rows = [value[1:] for value in block.values] if block.framed else block.values
        times = self._times_of(rows, columns, indexes)
        batch = pa.RecordBatch.from_arrays(
            [*columns.columns[:-1], times], schema=self._target.whole.schema
        )
        keys = self._target.encode(batch, framed=True)
        numbers = map(_INDEX.pack, indexes.to_pylist())
        sort_keys = [key + number for key, number in zip(keys, numbers, strict=True)]
        self._sorter.put(sort_keys, [b""] * len(rows) if self._times else rows)
        yield from ()

    def finish(self) -> Iterator[RowBlock]:
        for piece in in_pieces(self._lists()):
            keys, values = [key for key, _ in piece], [value for _, value in piece]
            yield RowBlock(self._family, keys, values, framed=True)

    def _lists(self) -> Rows:
        current: bytes | None = None
        rows: list[bytes] = []
        for sort_key, row in self._sorter.rows():
            key = sort_key[: -_INDEX.size]
            if key != current:
                if current is not None:
                    yield self._list(current, rows)
                current, rows = key, []
            rows.append(row)
        if current is not None:
            yield self._list(current, rows)

    def _list(self, key: bytes, rows: list[bytes]) -> tuple[bytes, bytes]:
        if self._times:
            return key[-_TIME_BYTES:] + key[:-_TIME_BYTES], join_list([_EMPTY_ROW] * len(rows))
        return key, join_list(rows)

    def _times_of(self, rows: Sequence[bytes], columns: Any, indexes: Any) -> Any:
        if self._time.column is None:
            return pa.array(indexes.to_numpy() % _BUCKETS, pa.int64())
        times = pa.array(event_times(rows, self._width, self._time, self._name), pa.int64())
        for place in self._time.keys:
            if not _instants(columns.column(place)).equals(times):
                raise EngineError(
                    f"{self._name}: the join key {place + 1} is a time, but not the event time of "
                    "each row. Joins of state format 4 store their rows by one of these two times, "
                    "and the state does not record by which"
                )
        return times


def event_times(rows: Sequence[bytes], width: int, time: EventTime, name: str) -> list[int]:
    """Return the event times of buffered rows, as Spark does (``extractEventTimeFn``): 0 for null.

    The times are in microseconds since the epoch. ``width`` is the number of columns of the
    UnsafeRows ``rows``. Raises StateFormatError if a row is too short, or its window is outside it.
    """
    assert time.column is not None
    slot = 8 * (-(-width // 64) + time.column)
    try:
        times = [_LONG.unpack_from(row, slot)[0] for row in rows]
        if time.window:  # a window's end follows a word of null bits and its start
            if min(times, default=0) < 0:
                raise StateFormatError(name, None, "the window of a row is outside the row")
            times = [  # the word of a null is 0
                _LONG.unpack_from(row, (word >> 32) + 16)[0] if word else 0
                for row, word in zip(rows, times, strict=True)
            ]
    except struct.error as error:
        raise StateFormatError(name, None, f"a row has no event time: {error}") from error
    return times


def _instants(column: Any) -> Any:
    """Return timestamps, or the ends of windows, as microseconds; 0 for null."""
    if pa.types.is_struct(column.type):
        column = column.flatten()[1]
    return column.cast(pa.int64()).fill_null(0)


def _count(count: int) -> bytes:
    return _COUNT.pack(0, 0, count)


class Sorter:
    """Sorts rows by key with a database on the local disk. A context manager.

    If RocksDB fails, the methods raise EngineError, or StorageError if the machine refuses.
    """

    def __init__(self) -> None:
        self._directory = make_scratch("state-sort-")
        options: Any = rocksdict.Options(True)
        options.create_if_missing(True)
        options.set_compression_type(rocksdict.DBCompressionType.lz4())
        options.set_max_open_files(open_files(_SORTERS))
        self._write = without_log()
        try:
            with rocksdb_errors(_SORTING):
                self._database: Any = rocksdict.Rdict(self._directory, options=options)
        except BaseException:
            remove_scratch(self._directory)
            raise

    def __enter__(self) -> Sorter:
        return self

    def put(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Add rows with keys that are all different."""
        changes = rocksdict.WriteBatch(raw_mode=True)
        for key, value in zip(keys, values, strict=True):
            changes.put(key, value)
        with rocksdb_errors(_SORTING):
            self._database.write(changes, self._write)

    def rows(self) -> Rows:
        """Yield every row in the order of the keys."""
        with rocksdb_errors(_SORTING):
            for piece in pieces_of(self._database):
                yield from piece

    def __exit__(self, *_: object) -> None:
        try:
            with rocksdb_errors(_SORTING):
                self._database.close()
        finally:
            remove_scratch(self._directory)
