"""State as tables: the rows of one state of an operator, with names and types for everybody.

A table has the columns ``partition``, ``key`` and ``value``. The key is a struct of all that Spark
finds the rows by: of joins the join keys and the row's ``index`` (in state format 4 its time), of
session windows the start, of map state the user's key, of timers and of what watches the time to
live its time. The value is a struct too (of joins with ``matched``, with a time to live ``value``
and ``ttlExpirationMs``); of list state it is a list of structs. Types are those of
:mod:`flinkish.engine.tables.frame_types`.

Knowledge from Spark's ``StateDataSource`` (which has other columns), ``OperatorStateMetadataV2``
and ``SymmetricHashJoinStateManager``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped,unused-ignore]

from flinkish.checkpoint.format.names import DEFAULT_STORE, ROCKSDB
from flinkish.checkpoint.format.schema_files import FamilySchemas
from flinkish.engine.errors import EngineError, StateFormatError
from flinkish.engine.rows.arrow_parts import build
from flinkish.engine.rows.encodings import BadEncoding, split_value
from flinkish.engine.rows.key_codec import compile_key
from flinkish.engine.rows.row_codec import codec_of
from flinkish.engine.rows.types import Array, DataType, Struct, arrow_type
from flinkish.engine.stores.canonical import families_of
from flinkish.engine.stores.canonical import read_rows as every_row
from flinkish.engine.stores.checkpoints import OperatorState, StoreState, store_files
from flinkish.engine.stores.directories import StateSource
from flinkish.engine.stores.partitioning import is_internal, key_encoder
from flinkish.engine.stores.store_rows import DEFAULT_FAMILY, RowBlock
from flinkish.engine.tables.frame_types import frame_struct, to_frame

_VERSION: Final = b"\x00"
#: In joins of state format 4: a list with an empty row for each row of that time and key.
_LISTS_TOO: Final = "-tsWithKey"
#: Of joins the states that hold the buffered rows, behind ``left-`` and ``right-``.
_JOIN_ROWS: Final = ("keyWithIndexToValue", "keyWithTsToValues")


class NoSuchState(EngineError):
    """An operator has no state of that name, or several and none was named.

    ``names`` are those it has.
    """

    def __init__(self, message: str, names: tuple[str, ...]) -> None:
        super().__init__(message)
        self.names = names

    def __reduce__(self) -> tuple[type[NoSuchState], tuple[str, tuple[str, ...]]]:
        return type(self), (str(self), self.names)


@dataclass(frozen=True)
class StateTable:
    """One state of an operator, as a table. Picklable.

    Attributes:
        operator, store, family: where its rows are.
        lists: values are lists.
        state_key: the key's type in state.
        state_value: the value's, or that of one element of a list.
    """

    operator: OperatorState
    store: StoreState
    family: FamilySchemas
    lists: bool
    state_key: Struct
    state_value: Struct

    @property
    def name(self) -> str:
        """The column family's name; that of the store where it has only one."""
        return self.store.name if self.family.name == DEFAULT_FAMILY else self.family.name

    @property
    def key(self) -> Struct:
        """The key's type, as the table has it."""
        return frame_struct(self.state_key)

    @property
    def value(self) -> DataType:
        """The value's type, as the table has it: a struct, or an array of structs."""
        struct = frame_struct(self.state_value)
        return Array(struct) if self.lists else struct

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
    """All states of an operator, Spark's own ones (counters, timers, times to live) too.

    Raises StateFormatError when the operator's metadata is damaged, which tells what lists are.
    """
    return tuple(
        StateTable(
            operator,
            store,
            family,
            lists=found.lists or family.name.endswith(_LISTS_TOO),
            state_key=found.key_struct,
            state_value=found.value_struct,
        )
        for store in operator.stores
        for family, found in zip(store.families, families_of(operator, store), strict=True)
    )


def find_table(
    operator: OperatorState, store: str | None = None, family: str | None = None
) -> StateTable:
    """A state of an operator.

    Args:
        operator: the operator.
        store: its store's name; of a store with column families also the name of one of these,
            and of a join ``left`` or ``right`` for the rows that wait.
        family: the column family's name.

    Without any name it is the operator's only state, Spark's own ones not counted. Raises
    NoSuchState.
    """
    tables = state_tables(operator)
    found = [table for table in tables if _is_named(table, store, family)]
    if store is None and family is None:
        found = [table for table in found if not is_internal(table.name)]
    names = tuple(table.name for table in tables)
    if len(found) == 1:
        return found[0]
    asked = "/".join(name for name in (store, family) if name)
    if found:
        some = "" if not asked else f" named {asked!r}"
        message = f"the operator {operator.ordinal} has several states{some}: {', '.join(names)}"
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
    """The rows of a state, in this process.

    Args:
        source: the checkpoint's directory.
        operator: the operator, as :func:`~.checkpoints.read_checkpoint` gives it.
        store, family: which state (:func:`find_table`).
        partitions: those to read; all by default.

    Yields:
        A ``pyarrow.RecordBatch`` of :attr:`StateTable.schema` for each block of rows.

    Raises:
        NoSuchState: there is no such state, or no such partition.
        StateFormatError: a file is damaged, missing or of a form that is not known; rows may have
            been given by then.
    """
    table = find_table(operator, store, family)
    chosen = range(operator.partitions) if partitions is None else tuple(partitions)
    return read_table(source, table, chosen)


def read_table(source: StateSource, table: StateTable, partitions: Iterable[int]) -> Iterator[Any]:
    """The rows of some partitions of a state; see :func:`read_rows`."""
    for partition in partitions:
        for keys, values in read_blocks(source, table, partition):
            columns = [
                pa.array(np.full(len(keys), partition, np.int32)),
                to_frame(keys, table.state_key),
                to_frame(values, Array(table.state_value) if table.lists else table.state_value),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=table.schema)


def read_blocks(
    source: StateSource, table: StateTable, partition: int
) -> Iterator[tuple[Any, Any]]:
    """The rows of one partition as the state schemas have them: arrays of keys and of values.

    Keys are a struct array, values one too, or a list array of structs. Errors are those of
    :func:`read_rows`.
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
        if framed and not all(value[:1] == _VERSION for value in block.values):
            raise StateFormatError(name, None, f"a value of {table.name!r} is a list")
        skip = 1 if framed else 0
        yield keys, _as_struct(value_codec.decode(block.values, skip=skip, name=name))


def _as_struct(batch: Any) -> Any:
    """A batch as one array; names in it may repeat."""
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
