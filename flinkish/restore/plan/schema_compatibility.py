"""Compatibility of one operator's state with a new program. Pure.

Spark compares only the types of a state's columns (``StateSchemaCompatibilityChecker``:
``equalsIgnoreNameAndCompatibleNullability``, of the new schema and the stored one), so if two
columns of one type are exchanged, each silently takes the other's values. Here columns are compared
by name: that of the column, or of the aggregate whose buffer it is.
:class:`~.state_semantics.StateSemantics` has these names. Without it (checkpoints that flinkish did
not write) only the names in the state schema are known, where a sum is ``sum``, and a join's key is
``field0``. An exchange of two sums, or the sum of another column, cannot be seen in that schema.
The verdict is then positive, and a change ``meaning-unknown`` says what was not compared.

The rules follow Flink's serializer snapshots:

* a column with the same name, place and type: as is, even if it becomes nullable, as in Flink.
  Spark refuses that, but no row has to change, so the restore lets Spark write a new schema (except
  for formats that keep schemas by version);
* a column whose name has changed, but not what it is computed from: as is;
* in the value, additional nullable columns, fewer columns, another order, or a type that Avro
  promotes; in the key, another order, or a wider number where the savepoint knows the meaning of
  the columns: the rows can be rewritten (``migrate``);
* where the savepoint knows the meaning of an aggregation's buffers, or of the columns of a join's
  rows, all of these may be exchanged for others: an aggregate that is new starts at the restore,
  and a column that is new is null in the rows that wait. Keys or rows from before then have
  incomplete results (``partial``), so the user has to agree;
* everything else is incompatible.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from flinkish.checkpoint.format.schema_files import StoreInfo
from flinkish.messages.plan import StateChange, StateVerdict
from flinkish.operators.state_semantics import StateSemantics
from flinkish.restore.plan import schema_messages
from flinkish.restore.plan.schema_messages import KEEP_OR_DROP, StatePart
from flinkish.restore.plan.state_columns import (
    StateColumn,
    columns_of,
    event_time_changes,
    fields_of,
    means_something,
    role_of,
    same_columns,
)

#: Avro's promotions (specification, "Schema Resolution"), in the names of Spark's types.
_PROMOTIONS: Mapping[str, frozenset[str]] = {
    "byte": frozenset({"short", "integer", "long", "float", "double"}),
    "short": frozenset({"integer", "long", "float", "double"}),
    "integer": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"binary"}),
    "binary": frozenset({"string"}),
}
#: The promotions that keep different numbers different, so that keys may take them.
_KEY_PROMOTIONS: Mapping[str, frozenset[str]] = {
    "byte": frozenset({"short", "integer", "long", "float", "double"}),
    "short": frozenset({"integer", "long", "float", "double"}),
    "integer": frozenset({"long", "double"}),
    "float": frozenset({"double"}),
}
_DECIMAL = re.compile(r"decimal\((\d{1,9}),\s*(-?\d{1,9})\)")
_TRANSFORM = "transformWithState"
JOIN: Final = "symmetricHashJoin"
#: Kinds whose state evolves by the meaning of its columns, as recorded in the savepoint.
BY_MEANING = frozenset(
    {
        *("stateStoreSave", "sessionWindowStateStoreSaveExec", JOIN),
        *("dedupe", "dedupeWithinWatermark"),
    }
)
#: The reason of a change that needs only another schema.
NULLABILITY_WIDENED = "nullability-widened"


def compare_states(
    kind: str,
    saved: Sequence[StoreInfo],
    new: Sequence[StoreInfo],
    saved_meaning: StateSemantics | None,
    new_meaning: StateSemantics,
    *,
    schema_by_version: bool = False,
    nulls_known: bool = True,
    rows_by_time: bool = False,
) -> tuple[StateChange, ...]:
    """Return all relevant differences, also those with which the state can be taken ``AS_IS``.

    ``kind`` is Spark's name for the program's operator. ``saved`` and ``new`` are the stores (or
    column families); one without a schema is not compared. ``saved_meaning`` is None if the
    savepoint does not have it. ``schema_by_version``: the state's format keeps its schemas by
    version, so that Spark cannot write the schema anew. ``nulls_known``: the saved schemas say
    which columns may be null; Spark 4.3 and later mark all columns as nullable
    (``spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled``), except for queries that
    an older Spark started. ``rows_by_time``: the state's format keeps rows by the time of the
    column that has a watermark.
    """
    changes = list(_traits(kind, saved_meaning, new_meaning))
    before, after = {s.name: s for s in saved}, {s.name: s for s in new}
    if before and after:
        changes += _variables(kind, before, after)
    for name in before.keys() & after.keys():
        stores, meanings = (before[name], after[name]), (saved_meaning, new_meaning)
        changes += _store(kind, *stores, *meanings, nulls_known, rows_by_time)
    unseen = schema_messages.unseen(kind)
    if saved_meaning is None and unseen and new_meaning.keys:
        text = f"the checkpoint does not record {unseen}: they are matched in order"
        changes.append(StateChange("", StateVerdict.AS_IS, "meaning-unknown", text))
    if not schema_by_version:
        changes = [_with_a_new_schema(change) for change in changes]
    distinct = {(change.reason, change.text): change for change in changes}
    order = list(StateVerdict)

    def rank(change: StateChange) -> tuple[Any, ...]:
        other = change.reason != "key-changed"  # other differences often follow from it
        return -order.index(change.verdict), other, change.store, change.text

    return tuple(sorted(distinct.values(), key=rank))


def _with_a_new_schema(change: StateChange) -> StateChange:
    if change.reason != NULLABILITY_WIDENED:
        return change
    return replace(change, verdict=StateVerdict.AS_IS, advice="")


def _traits(kind: str, saved: StateSemantics | None, new: StateSemantics) -> Iterator[StateChange]:
    for trait, before in (saved.traits if saved is not None else {}).items():
        after = new.traits.get(trait)
        if after is not None and after != before:
            yield StateChange(
                "",
                StateVerdict.INCOMPATIBLE,
                trait.split(" of ")[0].replace(" ", "-") + "-changed",
                f"the {trait} was {before} and is now {after}: "
                f"{schema_messages.why_trait(kind, trait)}",
                KEEP_OR_DROP,
            )


def _variables(
    kind: str, before: Mapping[str, StoreInfo], after: Mapping[str, StoreInfo]
) -> Iterator[StateChange]:
    if kind.startswith(_TRANSFORM):
        # Spark adds and drops variables itself; names with a $ are Spark's own.
        for name in sorted(after.keys() - before.keys()):
            if not name.startswith("$"):
                yield StateChange(
                    name,
                    StateVerdict.AS_IS,
                    "variable-added",
                    f"state variable `{name}` starts empty",
                )
        for name in sorted(before.keys() - after.keys()):
            if not name.startswith("$"):
                yield StateChange(
                    name,
                    StateVerdict.AS_IS,
                    "variable-removed",
                    f"state variable `{name}` is no longer declared; its rows are left unread",
                )
    elif before.keys() != after.keys():
        yield StateChange(
            "",
            StateVerdict.INCOMPATIBLE,
            "stores-changed",
            f"its state is kept in other stores ({_listed(before)}; now {_listed(after)})",
            KEEP_OR_DROP,
        )


def _store(
    kind: str,
    saved: StoreInfo,
    new: StoreInfo,
    saved_meaning: StateSemantics | None,
    new_meaning: StateSemantics,
    nulls_known: bool,
    rows_by_time: bool,
) -> Iterator[StateChange]:
    has_meaning = means_something(saved_meaning)
    meanings = (saved_meaning, new_meaning) if has_meaning else (None, None)
    for is_key in (True, False):
        olds, news = (
            columns_of(store, meaning, is_key=is_key)
            for store, meaning in zip((saved, new), meanings, strict=True)
        )
        if olds is None or news is None:
            continue
        part = schema_messages.part_of(kind, role_of(saved.name), is_key=is_key, store=saved.name)
        part = replace(part, nulls_known=nulls_known, evolves=has_meaning and kind in BY_MEANING)
        yield from _compare(saved.name, part, olds.columns, news.columns, is_key=is_key)
        if rows_by_time and not is_key:
            yield from event_time_changes(saved.name, part, olds.columns, news.columns)


def _compare(
    store: str,
    part: StatePart,
    saved: Sequence[StateColumn],
    new: Sequence[StateColumn],
    *,
    is_key: bool,
) -> Iterator[StateChange]:
    """Yield the differences of two lists of columns, including nested ones."""
    after = {f.name: f for f in new}
    same = same_columns(saved, new)
    lost = [f for f in saved if f.name not in same]
    gained = [f for f in new if f.name not in same.values()]
    yield from _lost_and_gained(store, part, lost, gained, saved, new, is_key=is_key)
    if [same[f.name] for f in saved if f not in lost] != [f.name for f in new if f not in gained]:
        old, now = _listed(f.shown for f in saved), _listed(f.shown for f in new)
        yield StateChange(
            store,
            StateVerdict.MIGRATE,
            "key-reordered" if is_key else "columns-reordered",
            f"{part.subject} has its {part.columns} in another order ({old}; now {now}); "
            f"{part.because}. Spark does not notice if the types are the same",
            "restore their order, or let the state be rewritten",
        )
    for field in saved:
        if field.name in same:
            yield from _same_column(store, part, field, after[same[field.name]], is_key=is_key)


def _lost_and_gained(
    store: str,
    part: StatePart,
    lost: Sequence[StateColumn],
    gained: Sequence[StateColumn],
    saved: Sequence[StateColumn],
    new: Sequence[StateColumn],
    *,
    is_key: bool,
) -> Iterator[StateChange]:
    if not lost and not gained:
        return
    if is_key:
        old, now = _listed(f.shown for f in saved), _listed(f.shown for f in new)
        text = f"{part.subject} was ({old}) and is now ({now}); {part.because}"
        yield StateChange(store, StateVerdict.INCOMPATIBLE, "key-changed", text, KEEP_OR_DROP)
        return
    places = {f.name: i for i, f in enumerate(saved)}
    replaced = {
        f.name: new[places[f.name]]
        for f in lost
        if places[f.name] < len(new) and new[places[f.name]] in gained
    }
    for field in lost:
        if field.name in replaced:
            yield _replaced(store, part, field, replaced[field.name])
        else:
            yield StateChange(
                store,
                StateVerdict.MIGRATE,
                "column-removed",
                f"{part.subject} lost {part.column} `{field.whole}`; {part.because}",
                part.keep,
            )
    for field in gained:
        if field not in replaced.values():
            yield _gained(store, part, field)


def _replaced(store: str, part: StatePart, old: StateColumn, new: StateColumn) -> StateChange:
    text = f"{part.subject} has {part.column} `{new.whole}` where it had `{old.whole}`"
    because, advice = _without_values(part, new)
    possible = part.evolves and advice is None
    same = "if it is the same under a new name, give it its old name; "
    return StateChange(
        store,
        StateVerdict.MIGRATE if possible else StateVerdict.INCOMPATIBLE,
        "column-replaced",
        f"{text}; {because if part.evolves else part.because}",
        same + (part.agree if possible else advice or KEEP_OR_DROP),
        partial=possible,
    )


def _gained(store: str, part: StatePart, field: StateColumn) -> StateChange:
    text = f"{part.subject} gained {part.column} `{field.whole}`"
    because, advice = _without_values(part, field)
    if not part.evolves:
        because, rewritten = part.because, "rows from before have no value there"
        advice = None if field.nullable else f"it must not be null, and {rewritten}; {KEEP_OR_DROP}"
        agree = f"let the state be rewritten: {rewritten}"
    else:
        agree = part.agree
    return StateChange(
        store,
        StateVerdict.MIGRATE if advice is None else StateVerdict.INCOMPATIBLE,
        "column-added",
        f"{text}; {because}",
        agree if advice is None else advice,
        partial=part.evolves and advice is None,
    )


def _without_values(part: StatePart, field: StateColumn) -> tuple[str, str | None]:
    """Return what old rows have for a new column, and None; or why they lack it, and the advice."""
    if part.buffers:
        if field.initial is None:
            return (
                f"{part.because}, and Spark does not say which initial value this one has",
                KEEP_OR_DROP,
            )
        return f"`{field.whole}` starts at the restore for existing keys", None
    if field.event_time:
        return (
            "waiting rows have no such time, so they would wait forever",
            f"keep the event time as it was; {KEEP_OR_DROP}",
        )
    if not field.has_nulls:
        return (
            "it is never null in the program, but waiting rows have no value for it",
            f"make it nullable there, for example by reading it without coalesce; {KEEP_OR_DROP}",
        )
    return f"`{field.whole}` is null in waiting rows", None


def _same_column(
    store: str, part: StatePart, saved: StateColumn, new: StateColumn, *, is_key: bool
) -> Iterator[StateChange]:
    # A window is never null, as rows without a time have no window; Spark 4.3 calls it nullable.
    is_window = is_key and bool(saved.detail) and bool(new.detail)
    is_comparable = (part.nulls_known or saved.told) and not is_window
    narrowed = is_comparable and saved.has_nulls and not new.has_nulls
    widened = new.nullable and not saved.nullable
    yield from _nullability(store, part, saved.shown, narrowed=narrowed, widened=widened)
    if saved.detail != new.detail:
        what = "cut differently"
        if part.buffers:
            what = f"computed from another type ({saved.detail}; now {new.detail})"
        text = f"{part.subject}: `{saved.shown}` is {what}; {part.because}"
        yield StateChange(
            store, StateVerdict.INCOMPATIBLE, "definition-changed", text, KEEP_OR_DROP
        )
    if saved.collations != new.collations:
        text = f"{part.subject}: `{saved.shown}` has another collation than before; {part.because}"
        yield StateChange(store, StateVerdict.INCOMPATIBLE, "type-changed", text, KEEP_OR_DROP)
    yield from _types(store, part, saved.shown, saved.type, new.type, is_key=is_key)


def _types(
    store: str, part: StatePart, name: str, saved: Any, new: Any, *, is_key: bool
) -> Iterator[StateChange]:
    """Yield the differences of two Spark types (as JSON), nested fields by name."""
    if saved == new:
        return
    kinds = tuple(t.get("type") if isinstance(t, Mapping) else None for t in (saved, new))
    if kinds == ("struct", "struct"):
        inside = f"{part.subject}: `{name}`"
        nested = replace(part, subject=inside, column="field", columns="fields", buffers=False)
        yield from _compare(store, nested, fields_of(saved), fields_of(new), is_key=is_key)
        return
    if kinds == ("array", "array"):
        inner = (each["elementType"] for each in (saved, new))
        yield from _types(store, part, f"{name}[]", *inner, is_key=is_key)
        old_nulls, new_nulls = (bool(t.get("containsNull")) for t in (saved, new))
    elif kinds == ("map", "map"):
        yield from _types(
            store, part, f"{name} (keys)", saved["keyType"], new["keyType"], is_key=True
        )
        yield from _types(
            store, part, f"{name} (values)", saved["valueType"], new["valueType"], is_key=is_key
        )
        old_nulls, new_nulls = (bool(t.get("valueContainsNull")) for t in (saved, new))
    elif kinds == ("udt", "udt"):
        inner = (each.get("sqlType") for each in (saved, new))
        yield from _types(store, part, name, *inner, is_key=is_key)
        return
    else:
        yield _type_change(store, part, name, saved, new, is_key=is_key)
        return
    narrowed = part.nulls_known and old_nulls and not new_nulls
    widened = new_nulls and not old_nulls
    yield from _nullability(store, part, f"{name}[]", narrowed=narrowed, widened=widened)


def _nullability(
    store: str, part: StatePart, name: str, *, narrowed: bool, widened: bool
) -> Iterator[StateChange]:
    """Yield the change of a column that gains or loses nulls.

    Spark refuses a column that becomes nullable, though only the schema would have to change. It
    accepts a column that ceases to be nullable, and then reads its nulls as values.
    """
    if narrowed:
        yield StateChange(
            store,
            StateVerdict.INCOMPATIBLE,
            "nullability-narrowed",
            f"{part.subject}: `{name}` was nullable and no longer is; {part.because}",
            "make it nullable again, for example with coalesce after the operator; " + KEEP_OR_DROP,
        )
    elif widened:
        yield StateChange(
            store,
            StateVerdict.MIGRATE,
            NULLABILITY_WIDENED,
            f"{part.subject}: `{name}` was not nullable and now is; {part.because}",
            "let the state be rewritten, or make it non-nullable, for example with coalesce",
        )


def _type_change(
    store: str, part: StatePart, name: str, saved: Any, new: Any, *, is_key: bool
) -> StateChange:
    wider = _widens(saved, new, is_key=is_key and part.evolves, decimals=part.evolves)
    wider = wider and (part.evolves or not is_key)
    return StateChange(
        store,
        StateVerdict.MIGRATE if wider else StateVerdict.INCOMPATIBLE,
        "type-widened" if wider else "type-changed",
        f"{part.subject}: `{name}` was {_type(saved)} and is now {_type(new)}; {part.because}",
        "let the state be rewritten, or cast it back" if wider else f"cast it back; {KEEP_OR_DROP}",
    )


def _widens(saved: Any, new: Any, *, is_key: bool, decimals: bool) -> bool:
    if not isinstance(new, str):
        return False
    if is_key:
        return new in _KEY_PROMOTIONS.get(str(saved), frozenset())
    old, now = (_DECIMAL.fullmatch(str(each)) for each in (saved, new))
    if old and now and decimals:
        more = [int(now[i]) - int(old[i]) for i in (1, 2)]
        return more[1] >= 0 and more[0] >= more[1]
    return new in _PROMOTIONS.get(str(saved), frozenset())


def _type(type_: Any) -> str:
    return str(type_.get("type")) if isinstance(type_, Mapping) else str(type_)


def _listed(names: Any) -> str:
    return ", ".join(names) or "none"
