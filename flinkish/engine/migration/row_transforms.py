"""Convert blocks of rows to their new form, and assign their new partitions.

Keys and values that need no change keep their bytes. The others are decoded, changed and encoded by
columns, a block at a time.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flinkish.engine.errors import EngineError, StateFormatError
from flinkish.engine.migration.migration_plan import FamilyMigration
from flinkish.engine.rows.binaries import Binaries
from flinkish.engine.rows.encodings import (
    NO_PREFIX,
    BadEncoding,
    are_rows,
    delimited,
    frame_sized_row,
    split_value,
)
from flinkish.engine.rows.row_codec import RowCodec, codec_of, compile_key
from flinkish.engine.rows.spark_hash import hash_columns, partition_of
from flinkish.engine.rows.types import Array, CalendarInterval, DataType, Map, Struct
from flinkish.engine.rows.value_formats import reshape, value_struct
from flinkish.engine.stores.partitioning import Path
from flinkish.engine.stores.store_rows import RowBlock

_VERSION = b"\x00"


@dataclass(frozen=True)
class MovedBlock:
    """Rows in their new form; ``partitions`` is None where they keep their partition."""

    keys: Binaries
    values: Binaries
    partitions: Any


class BlockTransform:
    """Applies a :class:`.FamilyMigration` to blocks of rows; created once in each task.

    ``partitions`` is the new number of partitions; None if all rows keep their partition. ``name``
    is the file or store of the rows, for errors. With ``interval_days`` the days of calendar
    intervals are hashed. With ``lists`` the values are lists; canonical state encodes lists as
    RocksDB does, although its other rows are bare. With ``canonical`` the new state is canonical,
    and the bytes that Spark leaves in a row where a calendar interval is null become zeros,
    because columns do not keep them.
    """

    def __init__(
        self,
        move: FamilyMigration,
        partitions: int | None,
        name: str,
        *,
        interval_days: bool = True,
        lists: bool = False,
        canonical: bool = False,
    ) -> None:
        self._move = move
        self._partitions = partitions
        self._name = name
        self._interval_days = interval_days
        self._lists = lists
        self._before = compile_key(move.before.key, move.before.encoder)
        self._after = compile_key(move.after.key, move.after.encoder)
        self._value_before = codec_of(value_struct(move.before.value, move.before.encoder))
        self._value_after = codec_of(value_struct(move.after.value, move.after.encoder))
        self._keys = self._key_change()
        self._values = self._value_change()
        self._clean_key = canonical and _has_intervals(self._after.whole.struct)
        self._clean_value = canonical and _has_intervals(self._value_after.struct)
        chosen = self._after if move.rehashed else self._before
        self._types = [_type_at(chosen.whole.struct, path) for path in move.partition_by]
        self._needs_columns = bool(self._types) and partitions is not None and partitions > 1

    def __call__(self, block: RowBlock) -> MovedBlock:
        """Transform a block; raise StateFormatError or EngineError for a row without a new form."""
        columns = None
        old_keys, old_values = Binaries.of(block.keys), Binaries.of(block.values)
        if self._needs_columns or self._keys is None or self._move.select is not None:
            framed = self._move.before.framed
            columns = self._before.decode(old_keys, framed=framed, name=self._name)
        keys = self._keys(old_keys) if self._keys is not None else self._encode_keys(columns)
        values = self._values(old_values, columns)
        if self._clean_key:
            keys = self._cleaned(self._after.whole, keys)
        if self._clean_value:
            clean = functools.partial(self._cleaned, self._value_after)
            values = self._each_row(values, clean) if self._lists else clean(values)
        return MovedBlock(keys, values, self._targets(columns, len(keys)))

    def _targets(self, columns: Any, rows: int) -> Any:
        if self._partitions is None:
            return None
        if not self._needs_columns:
            return np.zeros(rows, np.int64)
        if self._move.rehashed and self._move.key is not None:
            columns = self._move.key.apply(columns)
        chosen = [_column_at(columns, path) for path in self._move.partition_by]
        hashes = hash_columns(chosen, self._types, rows, interval_days=self._interval_days)
        return partition_of(hashes, self._partitions)

    def _key_change(self) -> Callable[[Binaries], Binaries] | None:
        """Return a conversion of whole keys; None if their columns must be encoded again."""
        before, after = self._move.before, self._move.after
        if self._move.key is not None:
            return None
        if before.framed == after.framed:
            if before.framed and before.encoder != after.encoder:
                return None
            return _same
        framed = before if before.framed else after
        if (framed.encoder or {}).get("keyStateEncoderType", NO_PREFIX) != NO_PREFIX:
            return None
        return self._unframe if before.framed else _frame

    def _encode_keys(self, columns: Any) -> Binaries:
        changed = self._move.key.apply(columns) if self._move.key is not None else columns
        return self._after.encode(changed, framed=self._move.after.framed)

    def _value_change(self) -> Callable[[Binaries, Any], Binaries]:
        move = self._move
        if not (move.value is None and move.select is None and move.reshape is None):
            return self._evolve
        if move.before.framed and move.after.framed:
            return lambda values, _: self._normal(values)
        if self._lists:
            return lambda values, _: self._normal(self._only_lists(values))
        if not move.before.framed and not move.after.framed:
            return lambda values, _: values
        if move.before.framed:
            return lambda values, _: self._unframe(values)
        return lambda values, _: _frame(values)

    def _normal(self, values: Binaries) -> Binaries:
        """Return values without delimiters in lists: see :func:`~.encodings.normal_value`."""
        try:
            return delimited(values)
        except BadEncoding as error:
            raise StateFormatError(self._name, None, f"a value: {error}") from error

    def _unframe(self, rows: Binaries) -> Binaries:
        if not are_rows(rows):
            reason = (
                "a row does not start with the version 0: lists cannot be in this backend, nor "
            )
            reason += "in canonical state where the operator's metadata does not name them"
            raise StateFormatError(self._name, None, reason)
        return Binaries.of([row[1:] for row in rows])

    def _evolve(self, values: Binaries, columns: Any) -> Binaries:
        move = self._move
        if self._lists and not (move.before.framed and move.after.framed):
            values = self._only_lists(values)
        framed = move.before.framed or self._lists
        if framed and not are_rows(values):
            return self._evolve_lists(values)
        skip = 1 if move.before.framed else 0
        batch = self._value_before.decode(values, skip=skip, name=self._name)
        if move.select is not None:
            sides = {"key": columns, "value": batch}
            chosen = [sides[side].column(place) for side, place in move.select]
            names = [str(i) for i in range(len(chosen))]
            batch = pa.RecordBatch.from_arrays(chosen, names=names)
        return self._value_after.encode(
            self._changed(batch), prefix=_VERSION if move.after.framed else b""
        )

    def _changed(self, batch: Any) -> Any:
        move = self._move
        if move.reshape is not None:
            batch = reshape(batch, move.reshape, self._name)
        return move.value.apply(batch) if move.value is not None else batch

    def _evolve_lists(self, values: Binaries) -> Binaries:
        if self._move.select is not None or not (self._move.after.framed or self._lists):
            raise EngineError(
                f"{self._name}: lists can be evolved only in RocksDB and in canonical state"
            )

        def evolved(rows: Binaries) -> Binaries:
            batch = self._changed(self._value_before.decode(rows, name=self._name))
            return self._value_after.encode(batch)

        return self._each_row(values, evolved)

    def _each_row(self, values: Binaries, change: Callable[[Binaries], Binaries]) -> Binaries:
        """Return framed values with ``change`` applied to each of their rows."""
        try:
            split = [split_value(value) for value in values]
        except BadEncoding as error:
            raise StateFormatError(self._name, None, f"a value: {error}") from error
        changed = iter(change(Binaries.of(list(itertools.chain.from_iterable(split)))))
        joined = [
            b"".join(frame_sized_row(row) for row in itertools.islice(changed, len(part)))
            if value[:1] != _VERSION
            else _VERSION + next(changed)
            for value, part in zip(values, split, strict=True)
        ]
        return Binaries.of(joined)

    def _cleaned(self, codec: RowCodec, rows: Binaries) -> Binaries:
        return codec.encode(codec.decode(rows, name=self._name))

    def _only_lists(self, values: Binaries) -> Binaries:
        if any(value[:1] == _VERSION for value in values):
            raise StateFormatError(self._name, None, "a value is not a list, unlike the others")
        return values


def _same(rows: Binaries) -> Binaries:
    return rows


def _frame(rows: Binaries) -> Binaries:
    return Binaries.of([_VERSION + row for row in rows])


def _has_intervals(data_type: DataType) -> bool:
    if isinstance(data_type, Struct):
        return any(_has_intervals(field.type) for field in data_type.fields)
    if isinstance(data_type, Array):
        return _has_intervals(data_type.element)
    if isinstance(data_type, Map):
        return _has_intervals(data_type.key) or _has_intervals(data_type.value)
    return isinstance(data_type, CalendarInterval)


def _type_at(struct: Struct, path: Path) -> DataType:
    data_type: DataType = struct
    for place in path:
        if not isinstance(data_type, Struct):
            raise EngineError(f"a key has no column at {path}")
        data_type = data_type.fields[place].type
    return data_type


def _column_at(batch: Any, path: Path) -> Any:
    column = batch.column(path[0])
    for place in path[1:]:
        column = column.flatten()[place]
    return column
