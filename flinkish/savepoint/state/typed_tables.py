"""Tables of state with the values of typed state in place of its bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flinkish.engine.rows.types import parse_type
from flinkish.engine.tables.decoding import KEY, VALUE, ColumnDecoder
from flinkish.engine.tables.frames import StateTable
from flinkish.state.declared import MAP_KEY, from_text
from flinkish.state.places import MAP_KEY_PATH, typed_columns
from flinkish.state.plain import plain_state, plain_type
from flinkish.state.snapshots import StatePlace


def typed_table(
    table: StateTable, kind: str | None, serializers: Mapping[str, Sequence[str]], operator: str
) -> StateTable:
    """Return a table that shows the values of its typed states.

    A column of bytes that only the program can read stays as it is. ``kind`` is Spark's name of the
    operator, ``operator`` its uid, for errors; ``serializers`` are the savepoint's snapshots
    (:class:`~flinkish.operators.state_semantics.StateSemantics`). Raises Corrupt if a snapshot is
    damaged.
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
        # Spark finds entries by the bytes of their keys, which have one form only.
        for snapshot in serializers.get(name + MAP_KEY, ())[-1:]:
            keys = plain_type(from_text(snapshot), place)
            if keys is not None:
                yield _decoder((KEY, *MAP_KEY_PATH), keys.json, keys.read)


def _decoder(path: tuple[str, ...], json: Any, read: Callable[[bytes], Any]) -> ColumnDecoder:
    return ColumnDecoder(path, parse_type(json), read)
