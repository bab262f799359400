"""State as tables: the rows of one state of an operator, with names and types for general use.

A table has the columns ``partition``, ``key`` and ``value``. The key is a struct of everything that
Spark finds the rows by. Besides the grouping key or the join keys, it has the row's ``index`` in
joins (in state format 4 the row's time), the start of session windows, the user's key of map state,
and the time of timers and of the indexes of the time to live. The value is a struct too (joins have
``matched``, states with a time to live ``value`` and ``ttlExpirationMs``), for list state a list of
structs. Types are those of :mod:`flinkish.engine.tables.decoding`.

Sources: Spark's ``StateDataSource`` (which has other columns), ``OperatorStateMetadataV2`` and
``SymmetricHashJoinStateManager``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa

from flinkish.checkpoint.format.names import DEFAULT_STORE, ROCKSDB
from flinkish.checkpoint.format.schema_files import FamilySchemas
from flinkish.engine.avro.state_avro import write_avro
from flinkish.engine.errors import EngineError, StateFormatError
from flinkish.engine.rows.arrow_parts import build
from flinkish.engine.rows.binaries import Binaries
from flinkish.engine.rows.encodings import BadEncoding, split_value
from flinkish.engine.rows.row_codec import codec_of, compile_key
from flinkish.engine.rows.types import Array, DataType, Struct, arrow_type
from flinkish.engine.stores.canonical import read_rows as every_row
from flinkish.engine.stores.canonical_families import families_of
from flinkish.engine.stores.checkpoints import OperatorState, StoreState, store_files
from flinkish.engine.stores.files import StateSource
from flinkish.engine.stores.partitioning import is_internal, key_encoder
from flinkish.engine.stores.store_rows import DEFAULT_FAMILY, RowBlock
from flinkish.engine.tables.decoding import (
    KEY,
    VALUE,
    ColumnDecoder,
    decoded_array,
    decoded_type,
    frame_struct,
    frame_type,
    to_frame,
)

#: The end of the names of further states with lists: in joins of state format 4 they have an empty
#: row for each row of a time and key.
_LISTS_TOO: Final = "-tsWithKey"
#: The states of joins that hold the buffered rows, after ``left-`` and ``right-``.
_JOIN_ROWS: Final = ("keyWithIndexToValue", "keyWithTsToValues")


class NoSuchState(EngineError):
    """There is no such operator, state or partition, or several states match.

    Also raised for a given operator that is not of the requested batch. ``names`` are the existing
    operators or states, where they are known.
    """

    def __init__(self, message: str, names: tuple[str, ...]) -> None:
        super().__init__(message)
        self.names = names

    def __reduce__(self) -> tuple[type[NoSuchState], tuple[str, tuple[str, ...]]]:
        return type(self), (str(self), self.names)


@dataclass(frozen=True)
class StateTable:
    """One state of an operator, as a table. Picklable.

    ``operator``, ``store`` and ``family`` hold its rows. ``state_key`` and ``state_value`` are the
    types in state; if values are ``lists``, ``state_value`` is the type of one element.
    ``decoders`` are for the columns of bytes that are decoded in the table.
    """

    operator: OperatorState
    store: StoreState
    family: FamilySchemas
    lists: bool
    state_key: Struct
    state_value: Struct
    decoders: tuple[ColumnDecoder, ...] = ()

    @property
    def name(self) -> str:
        """The column family's name; the store's name where the store has no column families."""
        return self.store.name if self.family.name == DEFAULT_FAMILY else self.family.name

    @property
    def key(self) -> DataType:
        """The key's type in the table: a struct."""
        return decoded_type(KEY, frame_struct(self.state_key), self.decoders)

    @property
    def value(self) -> DataType:
        """The value's type in the table: a struct, or an array of structs."""
        struct = frame_struct(self.state_value)
        return decoded_type(VALUE, Array(struct) if self.lists else struct, self.decoders)

    @property
    def schema(self) -> Any:
        """The ``pyarrow.Schema`` of its batches."""
        return pa.schema(
            [
                pa.field("partition", pa.int32()),
                pa.field("key", arrow_type(self.key)),
                pa.field("value", arrow_type(self.value)),
            ]
        )


def state_tables(operator: OperatorState) -> tuple[StateTable, ...]:
    """Return all states of an operator, including Spark's own (counters, timers, times to live).

    Raises StateFormatError if the operator's metadata, which records the list states, is damaged.
    """
    return tuple(
        StateTable(
            operator,
            store,
            family,
            lists=shape.lists or family.name.endswith(_LISTS_TOO),
            state_key=shape.key_struct,
            state_value=shape.value_struct,
        )
        for store in operator.stores
        for family, shape in zip(store.families, families_of(operator, store), strict=True)
    )


def find_table(
    operator: OperatorState, store: str | None = None, family: str | None = None
) -> StateTable:
    """Return a state of an operator.

    If no name is given, this is the operator's only state besides Spark's own states.

    ``store`` may also name a family of a store with column families, or, for a join, ``left`` or
    ``right`` for the buffered rows. Raises NoSuchState if no state or several match.
    """
    tables = state_tables(operator)
    matches = [table for table in tables if _is_named(table, store, family)]
    if store is None and family is None:
        matches = [table for table in matches if not is_internal(table.name)]
    names = tuple(table.name for table in tables)
    if len(matches) == 1:
        return matches[0]
    asked = "/".join(name for name in (store, family) if name)
    if matches:
        some = "" if not asked else f" named {asked!r}"
        message = f"the operator {operator.ordinal} has several states{some}: {', '.join(names)}"
    elif not asked:
        message = (
            f"the operator {operator.ordinal} has no state besides Spark's own; to use one of "
            f"these, name it: {', '.join(names) or 'none'}"
        )
    else:
        message = f"the operator {operator.ordinal} has no state {asked!r}: {', '.join(names)}"
    raise NoSuchState(message, names)


def _is_named(table: StateTable, store: str | None, family: str | None) -> bool:
    if family is not None:
        return table.family.name == family and store in {None, table.store.name}
    if store is None:
        return True
    if store == DEFAULT_STORE:
        return table.store.name == store
    return table.name in {store, *(f"{store}-{rows}" for rows in _JOIN_ROWS)}


def read_rows(
    source: StateSource,
    operator: OperatorState,
    store: str | None = None,
    family: str | None = None,
    partitions: Iterable[int] | None = None,
) -> Iterator[Any]:
    """Read the rows of a state in this process.

    Yields a ``pyarrow.RecordBatch`` of :attr:`StateTable.schema` for each block. ``store`` and
    ``family`` are as in :func:`find_table`. Raises NoSuchState, also for a missing partition, and
    StateFormatError, possibly after some rows, if a file is damaged, missing or of unknown form.
    """
    table = find_table(operator, store, family)
    chosen = range(operator.partitions) if partitions is None else tuple(partitions)
    return read_table(source, table, chosen)


def read_table(source: StateSource, table: StateTable, partitions: Iterable[int]) -> Iterator[Any]:
    """Yield the rows of some partitions of a state; see :func:`read_rows`."""
    for partition in partitions:
        for keys, values in read_blocks(source, table, partition):
            columns = [
                pa.array(np.full(len(keys), partition, np.int32)),
                _column(KEY, keys, table.state_key, table),
                _column(
                    VALUE,
                    values,
                    Array(table.state_value) if table.lists else table.state_value,
                    table,
                ),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=table.schema)


def _column(name: str, array: Any, data_type: DataType, table: StateTable) -> Any:
    framed = to_frame(array, data_type)
    place = f"{table.operator.directory}/{table.name}"
    return decoded_array(name, framed, frame_type(data_type), table.decoders, place)


def read_blocks(
    source: StateSource, table: StateTable, partition: int
) -> Iterator[tuple[Any, Any]]:
    """Yield the rows of one partition in the types of the state schemas, as (keys, values).

    Keys are a struct array. Values are a struct array or a list array of structs. Errors are those
    of :func:`read_rows`.
    """
    operator, family = table.operator, table.family
    if partition not in range(operator.partitions):
        reason = f"there is no partition {partition}: 0 to {operator.partitions - 1}"
        raise NoSuchState(f"the operator {operator.ordinal}: {reason}", (table.name,))
    key_codec = compile_key(family.key, key_encoder(operator, table.store, family))
    value_codec = codec_of(table.state_value)
    name = f"{operator.directory}/{partition}/{table.store.directory}"
    framed = operator.backend == ROCKSDB
    files = store_files(source, operator, partition, table.store)
    for block in every_row(files, operator, table.store):
        if block.family != family.name:
            continue
        keys = _as_struct(key_codec.decode(block.keys, framed=framed, name=name))
        if table.lists:
            yield keys, _lists(value_codec, block, name)
            continue
        if framed and not Binaries.of(block.values).all_start_with_zero():
            raise StateFormatError(name, None, f"a value of {table.name!r} is a list")
        skip = 1 if framed else 0
        yield keys, _as_struct(value_codec.decode(block.values, skip=skip, name=name))


def write_table(file: BinaryIO, source: StateSource, table: StateTable, partition: int) -> int:
    """Write a partition of a state as an Avro object container file; return the number of rows.

    Any Avro tool reads it; see :mod:`~.state_avro`. Raises StateFormatError if a state file is
    damaged, missing or unsupported; the output is then incomplete. Raises NoSuchState if there is
    no such partition, and CannotEncode as :func:`~.state_avro.write_avro` does.
    """
    return write_avro(
        file,
        table.state_key,
        table.state_value,
        _batches(source, table, partition),
        codec="deflate",  # every Avro tool supports it
        metadata={"state": table.name, "partition": str(partition)},
        lists=table.lists,
    )


def _batches(source: StateSource, table: StateTable, partition: int) -> Iterator[tuple[Any, Any]]:
    for keys, values in read_blocks(source, table, partition):
        if table.lists:
            yield columns_of(keys), pa.RecordBatch.from_arrays([values], names=["list"])
        else:
            yield columns_of(keys), columns_of(values)


def columns_of(structs: Any) -> Any:
    """Return the fields of a struct array without nulls as a batch, named by their positions."""
    if not structs.type.num_fields:
        return pa.RecordBatch.from_struct_array(structs)
    names = [str(i) for i in range(structs.type.num_fields)]
    return pa.RecordBatch.from_arrays(structs.flatten(), names=names)


def _as_struct(batch: Any) -> Any:
    """Return a batch as one struct array; names in it may repeat."""
    arrow = pa.struct(list(batch.schema))
    return build(arrow, np.zeros(batch.num_rows, bool), list(batch.columns))


def _lists(codec: Any, block: RowBlock, name: str) -> Any:
    try:
        split = [split_value(value) for value in block.values]
    except BadEncoding as error:
        raise StateFormatError(name, None, f"a value: {error}") from error
    rows = list(itertools.chain.from_iterable(split))
    elements = _as_struct(codec.decode(rows, name=name))
    offsets = np.cumsum([0, *map(len, split)])
    null = np.zeros(len(split), bool)
    return build(arrow_type(Array(codec.struct)), null, [elements], offsets)
