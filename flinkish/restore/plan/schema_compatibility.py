"""Compatibility of one operator's state with a new program. Pure.

Spark compares only the types of a state's columns (``StateSchemaCompatibilityChecker``:
``equalsIgnoreNameAndCompatibleNullability``, of the new schema and the stored one), so two columns
of one type that are exchanged silently take each other's values. Here columns are compared by name:
that of the column, or of the aggregate whose buffer it is.
:class:`~flinkish.operators.state_semantics.StateSemantics` has these names. Without it (checkpoints
that flinkish did not write) only the names of the state schema are known, which has a sum as
``sum`` and a join's key as ``field0``. An exchange of two sums, or the sum of another column,
cannot be seen there: the verdict is then positive, and a change ``meaning-unknown`` says what was
not compared.

The rules follow Flink's serializer snapshots:

* a column with the same name, place and type: as is. Also where it could not be null and now can,
  as in Flink: Spark refuses that, but no row has to change, so the restore lets Spark write the
  schema anew (except for formats that keep schemas by version);
* a column whose name has changed, but not what it is computed from: as is;
* in the value: additional nullable columns, fewer columns, another order, a type that Avro
  promotes: the rows can be rewritten (``migrate``); in the key: only another order can;
* everything else is incompatible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flinkish.checkpoint.operators import StoreInfo
from flinkish.operators.state_semantics import ONLY, Column, StateSemantics
from flinkish.restore.plan import schema_messages
from flinkish.restore.plan.schema_messages import KEEP_OR_DROP, StatePart
from flinkish.restore.plan.verdicts import StateChange, Verdict

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
_TRANSFORM = "transformWithState"
#: The reason of a change that needs only another schema.
NULLABILITY_WIDENED = "nullability-widened"
_COLLATIONS = "__COLLATIONS"


@dataclass(frozen=True)
class _Field:
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
        Whether the schema and the program allow nulls.
    told
        Whether the program says whether the column may be null.
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


def compare_states(
    kind: str,
    saved: Sequence[StoreInfo],
    new: Sequence[StoreInfo],
    saved_meaning: StateSemantics | None,
    new_meaning: StateSemantics,
    *,
    schema_by_version: bool = False,
    nulls_known: bool = True,
) -> tuple[StateChange, ...]:
    """Return all relevant differences; none when the state can be taken unchanged.

    Parameters
    ----------
    kind
        Spark's name of the operator, the same on both sides.
    saved, new
        The stores (or column families) with their schemas; one without a schema is not compared.
    saved_meaning
        None if the savepoint does not have it.
    schema_by_version
        Whether the state's format keeps its schemas by version, so that Spark cannot write the
        schema anew.
    nulls_known
        Whether the saved schemas say which columns may be null. From 4.3 on Spark marks all columns
        as nullable (``spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled``), except
        for queries that an older Spark started.
    """
    changes = list(_traits(kind, saved_meaning, new_meaning))
    before, after = {s.name: s for s in saved}, {s.name: s for s in new}
    if before and after:
        changes += _variables(kind, before, after)
    for name in before.keys() & after.keys():
        changes += _store(kind, before[name], after[name], saved_meaning, new_meaning, nulls_known)
    unseen = schema_messages.unseen(kind)
    if saved_meaning is None and unseen and new_meaning.keys:
        text = f"the checkpoint does not say {unseen}: they are taken in their order"
        changes.append(StateChange("", Verdict.AS_IS, "meaning-unknown", text))
    if not schema_by_version:
        changes = [_with_a_new_schema(change) for change in changes]
    distinct = {(change.reason, change.text): change for change in changes}
    order = list(Verdict)

    def rank(change: StateChange) -> tuple[Any, ...]:
        other = change.reason != "key-changed"  # other differences often follow from it
        return -order.index(change.verdict), other, change.store, change.text

    return tuple(sorted(distinct.values(), key=rank))


def _with_a_new_schema(change: StateChange) -> StateChange:
    if change.reason != NULLABILITY_WIDENED:
        return change
    return replace(change, verdict=Verdict.AS_IS, advice="")


def _traits(kind: str, saved: StateSemantics | None, new: StateSemantics) -> Iterator[StateChange]:
    for trait, before in (saved.traits if saved is not None else {}).items():
        after = new.traits.get(trait)
        if after is not None and after != before:
            yield StateChange(
                "",
                Verdict.INCOMPATIBLE,
                trait.split(" of ")[0].replace(" ", "-") + "-changed",
                f"the {trait} was {before} and is {after}: "
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
                    name, Verdict.AS_IS, "variable-added", f"state variable `{name}` starts empty"
                )
        for name in sorted(before.keys() - after.keys()):
            if not name.startswith("$"):
                yield StateChange(
                    name,
                    Verdict.AS_IS,
                    "variable-removed",
                    f"state variable `{name}` is no longer declared; its rows are left unread",
                )
    elif before.keys() != after.keys():
        yield StateChange(
            "",
            Verdict.INCOMPATIBLE,
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
) -> Iterator[StateChange]:
    role = next((side for side in ("left", "right") if saved.name.startswith(side)), ONLY)
    known = saved_meaning is not None and bool(saved_meaning.keys or saved_meaning.values)
    for is_key in (True, False):
        before = saved.key_schema if is_key else saved.value_schema
        after = new.key_schema if is_key else new.value_schema
        if before is None or after is None:
            continue
        part = schema_messages.part_of(kind, role, is_key=is_key, store=saved.name)
        part = replace(part, nulls_known=nulls_known)
        olds, news = (
            _fields(
                schema,
                (meaning.keys if is_key else meaning.values).get(role, ()) if known else (),
                from_the_end=not is_key and role == ONLY,
            )
            for schema, meaning in ((before, saved_meaning or new_meaning), (after, new_meaning))
        )
        yield from _compare(saved.name, part, olds, news, is_key=is_key)


def _fields(
    schema: Mapping[str, Any], columns: Sequence[Column] = (), *, from_the_end: bool = False
) -> list[_Field]:
    """Return the fields of a struct, with the program's names for them.

    Parameters
    ----------
    columns
        The program's columns for the first fields (the rows of a join's input, before Spark's own
        columns) or for the last ones (the buffers of an aggregation, after the keys).
    from_the_end
        Whether ``columns`` are those of the last fields.
    """
    listed = list(schema.get("fields", ()))
    if from_the_end and 0 < len(columns) <= len(listed):
        # The fields before the buffers repeat the key, or are the session.
        listed = listed[len(listed) - len(columns) :]
    known = dict(enumerate(columns)) if len(columns) <= len(listed) else {}
    # An aggregate with several buffers has the same name for each of them.
    several = {c.name for i, c in known.items() if from_the_end and known.get(i + 1) == c}
    found: list[_Field] = []
    seen: dict[str, int] = {}
    for i, entry in enumerate(listed):
        column = known.get(i)
        shown = column.name if column is not None else str(entry["name"])
        if column is not None and shown in several:
            shown = f"{shown}: {entry['name']}"
        nullable = bool(entry.get("nullable", True))
        # Case does not distinguish columns, but it does distinguish texts in an aggregate's filter.
        name = shown if "'" in shown else shown.casefold()
        # State formats may hold a column twice (the keys of a session in its value).
        number = seen[name] = seen.get(name, 0) + 1
        found.append(
            _Field(
                name=name + (f"#{number}" if number > 1 else ""),
                shown=shown,
                type=entry["type"],
                nullable=nullable,
                has_nulls=nullable and (column is None or column.nullable),
                told=column is not None and not from_the_end,
                origin=column.origin if column is not None else None,
                detail=column.detail if column is not None else "",
                collations=(entry.get("metadata") or {}).get(_COLLATIONS),
            )
        )
    return found


def _compare(
    store: str, part: StatePart, saved: Sequence[_Field], new: Sequence[_Field], *, is_key: bool
) -> Iterator[StateChange]:
    """Yield the differences of two lists of columns, including nested ones."""
    before, after = {f.name: f for f in saved}, {f.name: f for f in new}
    renamed = _renamed(saved, new, before, after)
    lost = [f for f in saved if f.name not in after and f.name not in renamed]
    gained = [f for f in new if f.name not in before and f.name not in renamed.values()]
    yield from _lost_and_gained(store, part, lost, gained, saved, new, is_key=is_key)
    stayed_before = [renamed.get(f.name, f.name) for f in saved if f not in lost]
    stayed_after = [f.name for f in new if f not in gained]
    if stayed_before != stayed_after:
        old, now = _listed(f.shown for f in saved), _listed(f.shown for f in new)
        yield StateChange(
            store,
            Verdict.MIGRATE,
            "key-reordered" if is_key else "columns-reordered",
            f"{part.subject} has its {part.columns} in another order ({old}; now {now}); "
            f"{part.because}. Spark would not notice where types are alike",
            "put them back in their order, or let the state be rewritten",
        )
    for field in saved:
        other = after.get(renamed.get(field.name, field.name))
        if other is not None and field not in lost:
            yield from _same_column(store, part, field, other, is_key=is_key)


def _renamed(
    saved: Sequence[_Field],
    new: Sequence[_Field],
    before: Mapping[str, _Field],
    after: Mapping[str, _Field],
) -> dict[str, str]:
    """Return the columns, old name -> new, that are renamed in place and computed from the same."""
    return {
        old.name: now.name
        for old, now in zip(saved, new, strict=False)
        if old.name not in after
        and now.name not in before
        and old.origin is not None
        and (old.origin, old.detail) == (now.origin, now.detail)
    }


def _lost_and_gained(
    store: str,
    part: StatePart,
    lost: Sequence[_Field],
    gained: Sequence[_Field],
    saved: Sequence[_Field],
    new: Sequence[_Field],
    *,
    is_key: bool,
) -> Iterator[StateChange]:
    if not lost and not gained:
        return
    places = {f.name: i for i, f in enumerate(saved)}
    if is_key:
        old, now = _listed(f.shown for f in saved), _listed(f.shown for f in new)
        text = f"{part.subject} was ({old}) and is ({now}); {part.because}"
        yield StateChange(store, Verdict.INCOMPATIBLE, "key-changed", text, KEEP_OR_DROP)
        return
    replaced = [
        (f, new[places[f.name]])
        for f in lost
        if places[f.name] < len(new) and new[places[f.name]] in gained
    ]
    for old_field, new_field in replaced:
        yield StateChange(
            store,
            Verdict.INCOMPATIBLE,
            "column-replaced",
            f"{part.subject} has {part.column} `{new_field.shown}` where it had "
            f"`{old_field.shown}`; {part.because}",
            "if it is the same under a new name, give it its old name; " + KEEP_OR_DROP,
        )
    for field in lost:
        if field not in [old for old, _ in replaced]:
            yield StateChange(
                store,
                Verdict.MIGRATE,
                "column-removed",
                f"{part.subject} lost {part.column} `{field.shown}`; {part.because}",
                part.keep,
            )
    for field in gained:
        if field not in [now for _, now in replaced]:
            yield StateChange(
                store,
                Verdict.MIGRATE if field.nullable else Verdict.INCOMPATIBLE,
                "column-added",
                f"{part.subject} gained {part.column} `{field.shown}`; {part.because}",
                "let the state be rewritten: rows from before have no value there"
                if field.nullable
                else f"it must not be null, and rows from before have no value; {KEEP_OR_DROP}",
            )


def _same_column(
    store: str, part: StatePart, saved: _Field, new: _Field, *, is_key: bool
) -> Iterator[StateChange]:
    known = part.nulls_known or saved.told
    narrowed = known and saved.has_nulls and not new.has_nulls
    widened = new.nullable and not saved.nullable
    yield from _nullability(store, part, saved.shown, narrowed=narrowed, widened=widened)
    if saved.detail != new.detail:
        what = "cut in another way"
        if part.buffers:
            what = f"computed from another type ({saved.detail}; now {new.detail})"
        text = f"{part.subject}: `{saved.shown}` is {what}; {part.because}"
        yield StateChange(store, Verdict.INCOMPATIBLE, "definition-changed", text, KEEP_OR_DROP)
    if saved.collations != new.collations:
        yield _type_change(store, part, saved.shown, "a collation", "another one", is_key=True)
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
        yield from _compare(store, nested, _fields(saved), _fields(new), is_key=is_key)
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

    Spark refuses nulls in a column without nulls, though only the schema would have to change. It
    accepts a column that had nulls as one without, and reads its nulls as values.
    """
    if narrowed:
        yield StateChange(
            store,
            Verdict.INCOMPATIBLE,
            "nullability-narrowed",
            f"{part.subject}: `{name}` could be null and no longer can; {part.because}",
            "let it be null again, for example with coalesce behind the operator; " + KEEP_OR_DROP,
        )
    elif widened:
        yield StateChange(
            store,
            Verdict.MIGRATE,
            NULLABILITY_WIDENED,
            f"{part.subject}: `{name}` could not be null and now can; {part.because}",
            "let the state be rewritten, or keep it from being null, for example with coalesce",
        )


def _type_change(
    store: str, part: StatePart, name: str, saved: Any, new: Any, *, is_key: bool
) -> StateChange:
    wider = not is_key and new in _PROMOTIONS.get(str(saved), frozenset())
    return StateChange(
        store,
        Verdict.MIGRATE if wider else Verdict.INCOMPATIBLE,
        "type-widened" if wider else "type-changed",
        f"{part.subject}: `{name}` was {_type(saved)} and is {_type(new)}; {part.because}",
        "let the state be rewritten, or cast it back" if wider else f"cast it back; {KEEP_OR_DROP}",
    )


def _type(type_: Any) -> str:
    return str(type_.get("type")) if isinstance(type_, Mapping) else str(type_)


def _listed(names: Any) -> str:
    return ", ".join(names) or "none"
