"""The state in a savepoint as tables: lookup of a state, and its rows without Spark."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

from flinkish.engine.errors import StateFormatError
from flinkish.engine.stores.checkpoints import read_checkpoint
from flinkish.engine.stores.directories import StateSource
from flinkish.engine.tables.frames import NoSuchState, StateTable, find_table, read_table
from flinkish.engine.tables.plain_rows import plain_rows
from flinkish.errors import UsageError
from flinkish.savepoint.format.contents import OperatorRecord, QueryRecord
from flinkish.savepoint.format.operator_lookup import find_operator
from flinkish.savepoint.format.reader import OpenSavepoint
from flinkish.savepoint.state.engine_errors import in_our_words
from flinkish.savepoint.state.state_directories import saved_directory
from flinkish.savepoint.state.typed_tables import typed_table


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
    with in_our_words(query.name):
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
    with in_our_words(state.query.name):
        batches = read_table(state.source, state.table, chosen)
        every = itertools.chain.from_iterable(map(plain_rows, batches))
        rows = tuple(itertools.islice(every, limit))
        return ShownRows(rows, more=next(every, None) is not None)
