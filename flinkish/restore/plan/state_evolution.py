"""How the saved rows of an operator's state become the program's, column by column. Pure.

This module turns what :mod:`.schema_compatibility` says about two states into places: for each
column of the program, the saved column that it comes from, or its initial value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from flinkish.checkpoint.format.names import DEFAULT_STORE
from flinkish.checkpoint.format.schema_files import StoreInfo
from flinkish.operators.state_semantics import Initial, StateSemantics
from flinkish.restore.plan.state_columns import StateColumns, columns_of, same_columns

#: For each column of the program, the index of the saved column that it comes from, or None.
Places = tuple[int | None, ...]


@dataclass(frozen=True)
class StoreEvolution:
    """How the rows of one store (or column family) become those of the program.

    Attributes
    ----------
    key, value
        The program's schemas (JSON of Spark's ``StructType``); None keeps the old one.
    key_places, places
        Where their columns come from; None to match them by name.
    begins
        What new columns of the value hold in existing rows, by their index; null if not listed.
    recodes
        Functions that make the new bytes of columns of typed state, by the path of names to the
        column in the new value; picklable.
    """

    key: Mapping[str, Any] | None = None
    value: Mapping[str, Any] | None = None
    key_places: Places | None = None
    places: Places | None = None
    begins: Mapping[int, Any] = field(default_factory=dict)
    recodes: Mapping[tuple[str, ...], Callable[[bytes], bytes]] = field(default_factory=dict)


def evolution_by_name(
    saved: Sequence[StoreInfo], new: Sequence[StoreInfo]
) -> dict[str, StoreEvolution]:
    """Return the evolution of values whose fields the user names, by store.

    Keys have the same columns in the same order; only their nullability may be wider. Stores whose
    key and value stay the same are left out.
    """
    before = {store.name: store for store in saved}
    evolutions: dict[str, StoreEvolution] = {}
    for store in new:
        if (old := before.get(store.name)) is None:
            continue
        value = store.value_schema if store.value_schema != old.value_schema else None
        key = store.key_schema if _is_wider(old.key_schema, store.key_schema) else None
        if key is not None or value is not None:
            evolved = StoreEvolution(key, value, _as_they_are(key))
            evolutions[store.name or DEFAULT_STORE] = evolved
    return evolutions


def _is_wider(saved: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> bool:
    pairs = zip(_fields(saved), _fields(new), strict=False)
    return any(now["nullable"] and not was["nullable"] for was, now in pairs)


def evolution_by_meaning(
    saved: Sequence[StoreInfo],
    new: Sequence[StoreInfo],
    saved_meaning: StateSemantics | None,
    new_meaning: StateSemantics,
) -> dict[str, StoreEvolution] | None:
    """Return the evolution of every store by the meaning of its columns.

    None if it is unknown which column is which.
    """
    before = {store.name: store for store in saved}
    evolutions: dict[str, StoreEvolution] = {}
    for store in new:
        if store.name not in before:
            return None
        evolved = _store(before[store.name], store, saved_meaning, new_meaning)
        if evolved is None:
            return None
        evolutions[store.name or DEFAULT_STORE] = evolved
    return evolutions


def unchanged_rows(new: Sequence[StoreInfo]) -> dict[str, StoreEvolution]:
    """Return the evolution that leaves rows as they are, and gives them the program's schemas."""
    return {
        store.name or DEFAULT_STORE: StoreEvolution(
            store.key_schema,
            store.value_schema,
            _as_they_are(store.key_schema),
            _as_they_are(store.value_schema),
        )
        for store in new
    }


def _as_they_are(schema: Mapping[str, Any] | None) -> Places | None:
    return None if schema is None else tuple(range(len(schema["fields"])))


def _store(
    saved: StoreInfo,
    new: StoreInfo,
    saved_meaning: StateSemantics | None,
    new_meaning: StateSemantics,
) -> StoreEvolution | None:
    sides = ((saved, saved_meaning), (new, new_meaning))
    old_key, new_key = (columns_of(store, meaning, is_key=True) for store, meaning in sides)
    old_value, new_value = (columns_of(store, meaning, is_key=False) for store, meaning in sides)
    if old_key is None or new_key is None or old_value is None or new_value is None:
        return None
    key_places = _places(old_key, new_key)
    before = _fields(saved.value_schema)[: old_value.skipped]
    after = _fields(new.value_schema)[: new_value.skipped]
    leading = _leading(before, after, key_places)
    if leading is None or None in key_places:
        return None
    places = (*leading, *_places(old_value, new_value))
    begins = {
        new_value.skipped + index: column.initial.value
        for index, column in enumerate(new_value.columns)
        if places[new_value.skipped + index] is None and column.initial != Initial(None)
        if column.initial is not None
    }
    return StoreEvolution(new.key_schema, new.value_schema, key_places, places, begins)


def _places(old: StateColumns, new: StateColumns) -> Places:
    back = {now: then for then, now in same_columns(old.columns, new.columns).items()}
    index = {column.name: old.skipped + i for i, column in enumerate(old.columns)}
    return tuple(
        index[back[column.name]] if column.name in back else None for column in new.columns
    )


def _leading(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], key_places: Places
) -> Places | None:
    """Return the places of the columns that repeat the key before an aggregation's buffers.

    These columns keep their order if the key's columns do; else they are matched by unique names.
    The result is None if that is impossible.
    """
    if len(before) != len(after):
        return None
    if key_places == tuple(range(len(key_places))):
        return tuple(range(len(after)))
    names = [str(column["name"]) for column in before]
    wanted = [str(column["name"]) for column in after]
    if len(set(names)) != len(names) or sorted(names) != sorted(wanted):
        return None
    return tuple(names.index(name) for name in wanted)


def _fields(schema: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    return list((schema or {}).get("fields", ()))
