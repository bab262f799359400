"""The state in a savepoint as tables: which one is meant, and its rows without Spark."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from flinkish.engine.checkpoints import read_checkpoint
from flinkish.engine.directories import Source
from flinkish.engine.errors import EngineError, StateFormatError, UnsupportedState
from flinkish.engine.frames import NoSuchState, StateTable, find_table, read_table
from flinkish.engine.plain_rows import plain_rows
from flinkish.engine.unsafe_rows import UnknownType
from flinkish.errors import Corrupt, Incompatible, UnsupportedFormat, UsageError
from flinkish.savepoint.model import OperatorRecord, QueryRecord
from flinkish.savepoint.reader import Savepoint
from flinkish.savepoint.statedir import saved_directory


@dataclass(frozen=True)
class SavedState:
    """One state of an operator of a savepoint; ``source`` has the query's files."""

    query: QueryRecord
    operator: OperatorRecord
    source: Source
    table: StateTable

    def describe(self) -> dict[str, Any]:
        """What it is, as JSON data."""
        return {
            "query": self.query.name,
            "batch_id": self.query.batch_id,
            "uid": self.operator.uid,
            "operator_id": self.operator.operator_id,
            "kind": self.operator.kind,
            "ordinal": self.operator.ordinal,
            "partitions": self.table.operator.partitions,
            "state": self.table.name,
        }


@dataclass(frozen=True)
class ShownRows:
    """Rows as JSON data, and whether there are ``more`` than were asked for."""

    rows: tuple[dict[str, Any], ...]
    more: bool


def open_state(savepoint: Savepoint, text: str) -> SavedState:
    """The state that ``UID[/STATE]`` means.

    UID is an operator's uid or one of its operator ids; of a savepoint with one such operator also
    its ordinal. Raises UsageError with the names there are, Corrupt, UnsupportedFormat.
    """
    query, operator, state = find_operator(savepoint, text)
    source = saved_directory(savepoint, query)
    with in_our_words(query):
        found = read_checkpoint(source, query.batch_id).operators
        engine = next((o for o in found if o.ordinal == operator.ordinal), None)
        if engine is None:
            raise StateFormatError(f"state/{operator.ordinal}", None, "the state is missing")
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
    return SavedState(query, operator, source, table)


def find_operator(savepoint: Savepoint, text: str) -> tuple[QueryRecord, OperatorRecord, str]:
    """The operator that ``UID[/STATE]`` means, and STATE. Pure. Raises UsageError."""
    every = [(query, operator) for query in savepoint.queries for operator in query.operators]
    # A uid may have slashes itself.
    splits = [(text, "")]
    if "/" in text:
        splits += [(text[:at], text[at + 1 :]) for at, c in enumerate(text) if c == "/"][::-1]
    for uid, state in splits:
        found = [(q, o) for q, o in every if uid in _names(o)]
        found = found or [(q, o) for q, o in every if uid == str(o.ordinal)]
        if len(found) == 1:
            return (*found[0], state)
        if found:
            queries = ", ".join(query.name for query, _ in found)
            raise UsageError(
                f"several operators of the savepoint are {uid!r}, of the queries {queries}",
                hint="name it by its uid or its operator id, see flinkish savepoint show",
            )
    known = ", ".join(sorted(_names(o)[0] if _names(o) else str(o.ordinal) for _, o in every))
    uid = text.partition("/")[0]
    raise UsageError(
        f"the savepoint has no operator {uid!r}; it has: {known or 'none with state'}",
        hint="flinkish savepoint show lists its operators",
    )


def _names(operator: OperatorRecord) -> list[str]:
    ids = (operator.operator_id, operator.operator_id_v2, operator.operator_id_v3)
    return [name for name in (operator.uid, *ids) if name]


def check_partition(state: SavedState, partition: int) -> None:
    """Raise UsageError where a state has no such partition."""
    partitions = state.table.operator.partitions
    if partition >= partitions:
        raise UsageError(
            f"the state has no partition {partition}",
            hint=f"it has {partitions}: 0 to {partitions - 1}",
        )


def show_rows(state: SavedState, limit: int, partition: int | None = None) -> ShownRows:
    """The first rows of a state, or of one of its partitions. Corrupt, UnsupportedFormat."""
    partitions = state.table.operator.partitions
    chosen = range(partitions) if partition is None else (partition,)
    with in_our_words(state.query):
        batches = read_table(state.source, state.table, chosen)
        every = itertools.chain.from_iterable(map(plain_rows, batches))
        rows = tuple(itertools.islice(every, limit))
        return ShownRows(rows, more=next(every, None) is not None)


@contextmanager
def in_our_words(query: QueryRecord) -> Iterator[None]:
    """Inside, errors of the engine become ours, with their exit codes."""
    try:
        yield
    except EngineError as error:
        text = f"query {query.name}: {error}"
        if isinstance(error, UnsupportedState):
            hint = "see the README for what the engine reads"
            raise UnsupportedFormat(text, hint=hint) from error
        if isinstance(error, StateFormatError):
            hint = "flinkish savepoint verify --level deep shows what is damaged"
            raise Corrupt(text, hint=hint) from error
        raise Incompatible(text) from error
    except UnknownType as error:
        raise UnsupportedFormat(f"query {query.name}: {error}") from error
