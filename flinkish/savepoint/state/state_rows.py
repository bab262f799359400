"""The state in a savepoint as tables: lookup of a state, and its rows without Spark."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flinkish.engine.errors import StateFormatError
from flinkish.engine.rows.types import parse_type
from flinkish.engine.stores.checkpoints import read_checkpoint
from flinkish.engine.stores.files import StateSource
from flinkish.engine.tables.decoding import KEY, VALUE, ColumnDecoder, plain_rows
from flinkish.engine.tables.frames import NoSuchState, StateTable, find_table, read_table
from flinkish.errors import UsageError
from flinkish.savepoint.format.contents import OperatorRecord, QueryRecord
from flinkish.savepoint.format.operator_lookup import find_operator
from flinkish.savepoint.format.reader import OpenSavepoint
from flinkish.savepoint.state.engine_errors import converted_errors
from flinkish.savepoint.state.state_directories import saved_directory
from flinkish.state.declared import MAP_KEY, MAP_KEY_PATH, from_text, typed_columns
from flinkish.state.plain import plain_state, plain_type
from flinkish.state.snapshots import StatePlace


@dataclass(frozen=True)
class SavedState:
    """One state of an operator of a savepoint; ``source`` has the query's files."""

    query: QueryRecord
    operator: OperatorRecord
    source: StateSource
    table: StateTable

    def describe(self) -> dict[str, Any]:
        """Describe the state as JSON data."""
        return {
            "query": self.query.name,
            "batch_id": self.query.batch_id,
            "uid": self.operator.uid,
            "operator_id": self.operator.operator_id,
            "kind": self.operator.state.kind,
            "ordinal": self.operator.state.ordinal,
            "partitions": self.table.operator.partitions,
            "state": self.table.name,
        }


@dataclass(frozen=True)
class ShownRows:
    """Rows as JSON data, and whether there are ``more`` than requested."""

    rows: tuple[dict[str, Any], ...]
    more: bool


def open_state(savepoint: OpenSavepoint, text: str, *, raw: bool = False) -> SavedState:
    """Open the state that ``[QUERY/]UID[/STATE]`` names.

    UID is an operator's uid, one of its operator ids or its ordinal.

    With ``raw`` the values of typed state stay bytes. Raises UsageError, which lists the names, if
    no state or several states match; Corrupt or UnsupportedFormat if the state cannot be read.
    """
    query, operator, state = find_operator(savepoint, text)
    source = saved_directory(savepoint, query)
    with converted_errors(query.name):
        operators = read_checkpoint(source, query.batch_id).operators
        engine = next((o for o in operators if o.ordinal == operator.state.ordinal), None)
        if engine is None:
            raise StateFormatError(f"state/{operator.state.ordinal}", None, "the state is missing")
        try:
            table = find_table(engine, state or None)
        except NoSuchState as error:
            names = ", ".join(error.names)
            uid = text.removesuffix(f"/{state}") if state else text
            raise UsageError(
                f"the operator {uid!r} has no state {state!r}; it has: {names}"
                if state and state not in error.names
                else f"the operator {uid!r} has several states: {names}",
                hint=f"name one: {uid}/{error.names[0]}",
            ) from error
    serializers = operator.facts.meaning.serializers if operator.facts.meaning is not None else {}
    if serializers and not raw:
        table = typed_table(table, operator.state.kind, serializers, operator.uid or text)
    return SavedState(query, operator, source, table)


def check_partition(state: SavedState, partition: int) -> None:
    """Raise UsageError if the state has no such partition."""
    partitions = state.table.operator.partitions
    if partition >= partitions:
        raise UsageError(
            f"the state has no partition {partition}",
            hint=f"it has {partitions}: 0 to {partitions - 1}",
        )


def show_rows(state: SavedState, limit: int, partition: int | None = None) -> ShownRows:
    """Return the first ``limit`` rows of a state, or of one of its partitions.

    Raises Corrupt or UnsupportedFormat if the state cannot be read.
    """
    partitions = state.table.operator.partitions
    chosen = range(partitions) if partition is None else (partition,)
    with converted_errors(state.query.name):
        batches = read_table(state.source, state.table, chosen)
        every = itertools.chain.from_iterable(map(plain_rows, batches))
        rows = tuple(itertools.islice(every, limit))
        return ShownRows(rows, more=next(every, None) is not None)


def typed_table(
    table: StateTable, kind: str | None, serializers: Mapping[str, Sequence[str]], operator: str
) -> StateTable:
    """Return a table that shows the values of its typed states.

    A column of bytes that only the program can read stays as it is. ``kind`` is Spark's name for
    the operator; ``operator`` is its uid, for errors; ``serializers`` are the savepoint's snapshots
    (:class:`~.state_semantics.StateSemantics`). Raises Corrupt if a snapshot is damaged.
    """
    return replace(table, decoders=tuple(_decoders(table, kind, serializers, operator)))


def _decoders(
    table: StateTable, kind: str | None, serializers: Mapping[str, Sequence[str]], operator: str
) -> Iterator[ColumnDecoder]:
    for name, path in typed_columns(kind, table.name, table.family.value):
        place = StatePlace(name, operator)
        if name in serializers:
            values = plain_state([from_text(each) for each in serializers[name]], place)
            if values is not None:
                yield _decoder((VALUE, *path), values.json, values.read)
        # Spark finds entries by the bytes of keys, so all keys have the newest snapshot's form.
        for snapshot in serializers.get(name + MAP_KEY, ())[-1:]:
            keys = plain_type(from_text(snapshot), place)
            if keys is not None:
                yield _decoder((KEY, *MAP_KEY_PATH), keys.json, keys.read)


def _decoder(path: tuple[str, ...], json: Any, read: Callable[[bytes], Any]) -> ColumnDecoder:
    return ColumnDecoder(path, parse_type(json), read)
