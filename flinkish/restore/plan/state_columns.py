"""The columns of a saved state and of the program's, and which of them are the same. Pure.

A column is identified by its name in the program: that of the column, or of the aggregate whose
buffer it is (:class:`~flinkish.operators.state_semantics.StateSemantics`). A column with another
name is the same if it is computed from the same expression.

Joins of state format 4 store waiting rows by event time, which is compared too
(``SymmetricHashJoinStateManagerV4``). By this time Spark removes rows and, where a join key is the
event time, finds them. A join key with a watermark is also a column of the rows, so their schema
shows it. A row without an event time is stored by a number below 1024, below every watermark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.checkpoint.format.schema_files import StoreInfo
from flinkish.messages.plan import StateChange, StateVerdict
from flinkish.operators.state_semantics import (
    ONLY,
    WATERMARK_DELAY,
    Column,
    Initial,
    StateSemantics,
)
from flinkish.restore.plan.schema_messages import KEEP_OR_DROP, StatePart

_COLLATIONS = "__COLLATIONS"
#: Suffixes of the names of a join's stores that count or locate its rows.
_WITHOUT_ROWS = ("keyToNumValues", "tsWithKey")


@dataclass(frozen=True)
class StateColumn:
    """A column of a key or value.

    Attributes
    ----------
    name
        Identifies the column.
    shown
        The name for messages.
    nullable
        Whether the schema allows nulls.
    has_nulls
        Whether both the schema and the program allow nulls.
    told
        Whether the program says if the column may be null.
    whole
        What the column is a part of, for messages: the aggregate of a buffer.
    initial
        The value with which a buffer of the program begins; None if there is none or it is unknown.
    event_time
        Whether it has a watermark.
    """

    name: str
    shown: str
    type: Any
    nullable: bool
    has_nulls: bool
    told: bool = False
    origin: str | None = None
    detail: str = ""
    collations: Any = None
    whole: str = ""
    initial: Initial | None = None
    event_time: bool = False


@dataclass(frozen=True)
class StateColumns:
    """The columns of one store's key or value that are compared.

    Attributes
    ----------
    skipped
        The number of columns before these: in an aggregation's value, the columns that repeat the
        key, or are the session.
    """

    columns: tuple[StateColumn, ...]
    skipped: int = 0


def columns_of(
    store: StoreInfo, meaning: StateSemantics | None, *, is_key: bool
) -> StateColumns | None:
    """Return the columns of a store's key or value; None where its schema is not known.

    ``meaning`` has the program's names; None if they must not be used.
    """
    schema = store.key_schema if is_key else store.value_schema
    if schema is None:
        return None
    role = role_of(store.name)
    planned: Sequence[Column] = ()
    initial: Sequence[Initial | None] = ()
    if meaning is not None and (is_key or _holds_values(store.name)):
        planned = (meaning.keys if is_key else meaning.values).get(role, ())
        initial = () if is_key else meaning.initial.get(role, ())
    from_the_end = not is_key and role == ONLY
    listed = list(schema.get("fields", ()))
    skipped = 0
    if from_the_end and 0 < len(planned) <= len(listed):
        # The fields before the buffers repeat the key, or are the session.
        skipped = len(listed) - len(planned)
        listed = listed[skipped:]
    return StateColumns(tuple(_named(listed, planned, initial, buffers=from_the_end)), skipped)


def means_something(meaning: StateSemantics | None) -> bool:
    """Return whether a savepoint has the meaning of the columns of a state."""
    return meaning is not None and bool(meaning.keys or meaning.values)


def role_of(store: str) -> str:
    """Return the side of a join that a store belongs to, else :data:`ONLY`."""
    return next((side for side in ("left", "right") if store.startswith(side)), ONLY)


def _holds_values(store: str) -> bool:
    """Return whether a store's values are the program's, not a join's counts and times."""
    return role_of(store) == ONLY or not store.endswith(_WITHOUT_ROWS)


def fields_of(schema: Mapping[str, Any]) -> tuple[StateColumn, ...]:
    """Return the fields of a struct, by the names in its schema."""
    return tuple(_named(list(schema.get("fields", ())), (), (), buffers=False))


def _named(
    listed: Sequence[Mapping[str, Any]],
    columns: Sequence[Column],
    initial: Sequence[Initial | None],
    *,
    buffers: bool,
) -> list[StateColumn]:
    """Return fields of a schema with the program's names for the first of them, or for all."""
    by_index = dict(enumerate(columns)) if len(columns) <= len(listed) else {}
    begins = dict(enumerate(initial)) if len(initial) == len(columns) else {}
    # An aggregate with several buffers has the same name for each of them.
    several = {c.name for i, c in by_index.items() if buffers and by_index.get(i + 1) == c}
    named: list[StateColumn] = []
    seen: dict[str, int] = {}
    for i, entry in enumerate(listed):
        column = by_index.get(i)
        label = column.name if column is not None else str(entry["name"])
        if column is not None and label in several:
            label = f"{label}: {entry['name']}"
        nullable = bool(entry.get("nullable", True))
        # Case does not distinguish columns, but it does distinguish texts in an aggregate's filter.
        name = label if "'" in label else label.casefold()
        if by_index and column is None:
            name += " of Spark"  # a join's `matched` is not the input's
        # State formats may hold a column twice (the keys of a session in its value).
        number = seen[name] = seen.get(name, 0) + 1
        named.append(
            StateColumn(
                name=name + (f"#{number}" if number > 1 else ""),
                shown=label,
                type=entry["type"],
                nullable=nullable,
                has_nulls=nullable and (column is None or column.nullable),
                told=column is not None and not buffers,
                origin=column.origin if column is not None else None,
                detail=column.detail if column is not None else "",
                collations=(entry.get("metadata") or {}).get(_COLLATIONS),
                whole=column.name if column is not None else label,
                event_time=WATERMARK_DELAY in (entry.get("metadata") or {}),
                initial=begins.get(i) if column is not None else None,
            )
        )
    return named


def same_columns(saved: Sequence[StateColumn], new: Sequence[StateColumn]) -> dict[str, str]:
    """Return the new name of each old column, by its old name; removed columns are left out.

    Columns of one name are the same. So are those that are computed from the same expression: in
    order if there are as many of them as before, else those in the same place.
    """
    before, after = {c.name for c in saved}, {c.name for c in new}
    same = {c.name: c.name for c in saved if c.name in after}
    left = [c for c in saved if c.name not in after]
    right = [c for c in new if c.name not in before]
    for source in dict.fromkeys(map(_source, left)):
        olds = [c for c in left if _source(c) == source]
        news = [c for c in right if _source(c) == source]
        if source is not None and len(olds) == len(news):
            same |= {old.name: now.name for old, now in zip(olds, news, strict=True)}
    for old, now in zip(saved, new, strict=False):
        free = old in left and now in right and old.name not in same
        if free and now.name not in same.values() and _source(old) == _source(now) is not None:
            same[old.name] = now.name
    return same


def _source(column: StateColumn) -> tuple[str, str] | None:
    return None if column.origin is None else (column.origin, column.detail)


def event_time_changes(
    store: str, part: StatePart, saved: Sequence[StateColumn], new: Sequence[StateColumn]
) -> Iterator[StateChange]:
    """Yield the change where another column gives the time by which rows are stored.

    A program without an event time removes no rows, and finds rows that are stored by event time.
    """
    same = same_columns(saved, new)
    before = [column for column in saved if column.event_time]
    after = [column for column in new if column.event_time]
    if not after or {same.get(column.name) for column in before} == {c.name for c in after}:
        return
    yield StateChange(
        store,
        StateVerdict.INCOMPATIBLE,
        "event-time-changed",
        f"{part.subject}: its event time was {_names_of(before)} and is now {_names_of(after)}; "
        "joins of state format 4 store waiting rows by that time, and would remove them "
        "too early or too late",
        f"keep the watermark on the column that had it; {KEEP_OR_DROP}",
    )


def _names_of(columns: list[StateColumn]) -> str:
    return " and ".join(f"`{column.shown}`" for column in columns) or "none"
