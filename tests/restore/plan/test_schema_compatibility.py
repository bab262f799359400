"""Comparing the state of an operator with that of a new program: verdicts and reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from flinkish.checkpoint.format.schema_files import StoreInfo
from flinkish.messages.plan import StateChange
from flinkish.operators.state_semantics import (
    JOIN_TYPE,
    ONLY,
    OUTPUT_MODE,
    TIME_MODE,
    Column,
    Initial,
    StateSemantics,
    variable_ttl,
    variable_type,
)
from flinkish.restore.plan.schema_compatibility import compare_states

AGG, JOIN, DEDUP = "stateStoreSave", "symmetricHashJoin", "dedupe"
FUNCTION, PROCESSOR = "applyInPandasWithState", "transformWithStateInPandasExec"

Fields = str | dict[str, Any]


def struct(fields: Fields) -> dict[str, Any]:
    """``a long, b string!``: the exclamation mark says that it is never null."""
    if isinstance(fields, dict):
        listed = list(fields.items())
    else:
        listed = [(f.split()[0], f.split()[1]) for f in fields.split(", ") if f]
    return {
        "type": "struct",
        "fields": [
            {
                "name": name,
                "type": type_.rstrip("!") if isinstance(type_, str) else type_,
                "nullable": not (isinstance(type_, str) and type_.endswith("!")),
                "metadata": {},
            }
            for name, type_ in listed
        ],
    }


def columns(*names: str) -> tuple[Column, ...]:
    """``name=origin/detail``, the origin being the name by default; ``name!`` is never null."""
    found = []
    for each in names:
        rest, _, detail = each.partition("/")
        name, _, origin = rest.partition("=")
        nullable = not name.endswith("!")
        name = name.rstrip("!")
        found.append(Column(name, origin or name, detail, nullable))
    return tuple(found)


@dataclass(frozen=True)
class State:
    """One store and what its columns are."""

    key: Fields = "k string"
    value: Fields = "sum long"
    keys: Sequence[str] = ()
    values: Sequence[str] = ()
    store: str = "default"
    role: str = ONLY
    begins: bool = True

    @property
    def stores(self) -> tuple[StoreInfo, ...]:
        return (StoreInfo(self.store, struct(self.key), struct(self.value)),)

    @property
    def meaning(self) -> StateSemantics:
        return StateSemantics(
            {self.role: columns(*self.keys)} if self.keys else {},
            {self.role: columns(*self.values)} if self.values else {},
            initial={self.role: (Initial(None),) * len(self.values)} if self.begins else {},
        )


def compare(kind: str, old: State, new: State, *, known: bool = True) -> list[StateChange]:
    saved = old.meaning if known else None
    return list(compare_states(kind, old.stores, new.stores, saved, new.meaning))


def found(kind: str, old: State, new: State, *, known: bool = True) -> list[tuple[str, str]]:
    return [(c.verdict.value, c.reason) for c in compare(kind, old, new, known=known)]


def sums(
    *of: str, value: str = "", key: Fields = "k string", keys: Sequence[str] = ("k",)
) -> State:
    """An aggregation's state: one long for each aggregate."""
    buffers = value or ", ".join(f"b{i} long" for i, _ in enumerate(of))
    return State(key, buffers, keys, of)


TWO = sums("sum(v)", "sum(w)")
ONE = sums("sum(v)")
REORDERED = ("migrate", "columns-reordered")
REPLACED = ("migrate", "column-replaced")
KEY = ("incompatible", "key-changed")

AGGREGATIONS: dict[str, tuple[State, State, list[tuple[str, str]]]] = {
    "the same": (TWO, TWO, []),
    "swapped": (TWO, sums("sum(w)", "sum(v)"), [REORDERED]),
    "renamed input": (ONE, sums("sum(amount)=sum(v)"), []),
    "same name, other logic": (ONE, sums("sum(v)=sum(other)"), []),
    "replaced": (ONE, sums("sum(w)"), [REPLACED]),
    "added": (ONE, TWO, [("migrate", "column-added")]),
    "added, never null": (
        ONE,
        sums("sum(v)", "count(1)", value="a long, b long!"),
        [("migrate", "column-added")],
    ),
    "added, and with what it begins is not known": (
        ONE,
        replace(TWO, begins=False),
        [("incompatible", "column-added")],
    ),
    "replaced, and with what it begins is not known": (
        ONE,
        replace(sums("sum(w)"), begins=False),
        [("incompatible", "column-replaced")],
    ),
    "removed": (TWO, ONE, [("migrate", "column-removed")]),
    "removed before others": (TWO, sums("sum(w)"), [("migrate", "column-removed")]),
    "wider type": (ONE, sums("sum(v)", value="s double"), [("migrate", "type-widened")]),
    "narrower type": (
        sums("sum(v)", value="s double"),
        ONE,
        [("incompatible", "type-changed")],
    ),
    "longer decimal": (
        sums("sum(v)", value="s decimal(20,2)"),
        sums("sum(v)", value="s decimal(22,3)"),
        [("migrate", "type-widened")],
    ),
    "decimal with fewer digits before the point": (
        sums("sum(v)", value="s decimal(20,2)"),
        sums("sum(v)", value="s decimal(22,5)"),
        [("incompatible", "type-changed")],
    ),
    "decimal of more digits than a number can have": (
        sums("sum(v)", value=f"s decimal({'9' * 5000},2)"),
        sums("sum(v)", value="s decimal(22,3)"),
        [("incompatible", "type-changed")],
    ),
    "decimal with fewer digits behind it": (
        sums("sum(v)", value="s decimal(20,2)"),
        sums("sum(v)", value="s decimal(22,1)"),
        [("incompatible", "type-changed")],
    ),
    "opaque, of another type": (
        sums("collect_list(v)/bigint", value="buf binary"),
        sums("collect_list(v)/string", value="buf binary"),
        [("incompatible", "definition-changed")],
    ),
    "several buffers": (
        sums("avg(v)", "avg(v)", value="sum double, count long"),
        sums("avg(v)", "avg(v)", value="sum double, count long"),
        [],
    ),
    "several buffers replaced": (
        sums("avg(v)", "avg(v)", value="sum double, count long"),
        sums("avg(w)", "avg(w)", value="sum double, count long"),
        [REPLACED],
    ),
    "keys before the buffers": (  # state format 1 has the whole row
        State("k string", "k string, s long, t long", ("k",), ("sum(v)", "sum(w)")),
        State("k string", "k string, s long, t long", ("k",), ("sum(w)", "sum(v)")),
        [REORDERED],
    ),
    "key renamed": (ONE, sums("sum(v)", key="u string", keys=("u=k",)), []),
    "other key": (ONE, sums("sum(v)", key="j string", keys=("j",)), [KEY]),
    "key added": (ONE, sums("sum(v)", key="k string, j string", keys=("k", "j")), [KEY]),
    "keys reordered": (
        sums("sum(v)", key="k string, j string", keys=("k", "j")),
        sums("sum(v)", key="j string, k string", keys=("j", "k")),
        [("migrate", "key-reordered")],
    ),
    "key of a wider type": (
        sums("sum(v)", key="k integer"),
        sums("sum(v)", key="k long"),
        [("migrate", "type-widened")],
    ),
    "key of a type that rounds": (
        sums("sum(v)", key="k long"),
        sums("sum(v)", key="k double"),
        [("incompatible", "type-changed")],
    ),
    "renamed in another place": (
        sums("avg(v)", "avg(v)", "sum(w)", value="sum double, count long, s long"),
        sums("sum(w)", "avg(x)=avg(v)", "avg(x)=avg(v)", value="s long, sum double, count long"),
        [REORDERED],
    ),
    "key may be null": (
        sums("sum(v)", key="k string!"),
        ONE,
        [("as-is", "nullability-widened")],
    ),
    "key is never null": (
        ONE,
        sums("sum(v)", key="k string!"),
        [("incompatible", "nullability-narrowed")],
    ),
    "windows cut differently": (
        sums("sum(v)", key="w long", keys=("w/10 minutes",)),
        sums("sum(v)", key="w long", keys=("w/20 minutes",)),
        [("incompatible", "definition-changed")],
    ),
}


@pytest.mark.parametrize("case", AGGREGATIONS)
def test_aggregations(case: str) -> None:
    old, new, expected = AGGREGATIONS[case]
    assert found(AGG, old, new) == expected


NESTED: dict[str, tuple[Fields, Fields, list[tuple[str, str]]]] = {
    "the same": ({"s": struct("a long")}, {"s": struct("a long")}, []),
    "field added": (
        {"s": struct("a long")},
        {"s": struct("a long, b string")},
        [("migrate", "column-added")],
    ),
    "fields swapped": (
        {"s": struct("a long, b long")},
        {"s": struct("b long, a long")},
        [REORDERED],
    ),
    "element of another type": (
        {"s": {"type": "array", "elementType": "string", "containsNull": True}},
        {"s": {"type": "array", "elementType": "long", "containsNull": True}},
        [("incompatible", "type-changed")],
    ),
    "elements never null": (
        {"s": {"type": "array", "elementType": "long", "containsNull": True}},
        {"s": {"type": "array", "elementType": "long", "containsNull": False}},
        [("incompatible", "nullability-narrowed")],
    ),
    "elements may be null": (
        {"s": {"type": "array", "elementType": "long", "containsNull": False}},
        {"s": {"type": "array", "elementType": "long", "containsNull": True}},
        [("as-is", "nullability-widened")],
    ),
    "column becomes an array": (
        "a long",
        {"a": {"type": "array", "elementType": "long", "containsNull": True}},
        [("incompatible", "type-changed")],
    ),
    "field becomes a struct": (
        {"s": struct("a long")},
        {"s": struct({"a": struct("b long")})},
        [("incompatible", "type-changed")],
    ),
    "struct becomes a map": (
        {"s": struct("a long")},
        {"s": {"type": "map", "keyType": "string", "valueType": "long"}},
        [("incompatible", "type-changed")],
    ),
    "keys of a map are not promoted": (
        {"s": {"type": "map", "keyType": "integer", "valueType": "integer"}},
        {"s": {"type": "map", "keyType": "long", "valueType": "long"}},
        [("incompatible", "type-changed"), ("migrate", "type-widened")],
    ),
}


@pytest.mark.parametrize("case", NESTED)
def test_nested_types(case: str) -> None:
    before, after, expected = NESTED[case]
    assert found(FUNCTION, State(value=before), State(value=after)) == expected


def test_a_key_that_becomes_nested_is_another_type() -> None:
    nested = State(key={"k": struct("a long")})
    assert found(FUNCTION, State(key="k long"), nested) == [("incompatible", "type-changed")]
    one = sums("sum(v)", key="k integer")
    grouped = replace(one, key={"k": struct("a long")})
    assert found(AGG, one, grouped) == [("incompatible", "type-changed")]


def test_a_field_of_a_state_type_has_no_origin_so_a_new_name_is_a_new_field() -> None:
    changes = found(FUNCTION, State(value="seen long"), State(value="number long"))
    assert changes == [("incompatible", "column-replaced")]


def test_the_worst_comes_first_and_each_says_what_made_the_difference() -> None:
    old = State("field0 string", "v long, w int", ("k",), ("v", "w"), "right-values", "right")
    new = State(
        "field0 string",
        "v string, w int, tax long",
        ("k",),
        ("v", "w", "tax"),
        "right-values",
        "right",
    )
    first, second = compare(JOIN, old, new)
    assert (first.reason, second.reason) == ("type-changed", "column-added")
    assert second.text == (
        "the join's right input gained column `tax`; `tax` is null in waiting rows"
    )
    assert (first.partial, second.partial) == (False, True)
    assert first.text == (
        "the join's right input: `v` was long and is now string; the join's state holds its rows"
    )
    assert first.store == "right-values"


def test_columns_of_spark_behind_those_of_a_join_are_not_taken_for_the_programs() -> None:
    def side(*names: str) -> State:
        value = ", ".join([*(f"{name} long" for name in names), "matched boolean"])
        return State("field0 string", value, ("k",), names, "left-values", "left")

    assert found(JOIN, side("a", "b"), side("a", "b")) == []
    assert found(JOIN, side("a", "b"), side("b", "a")) == [REORDERED]
    other_key = State("field0 string", "a long, matched boolean", ("j",), ("a",), "left-v", "left")
    key = State("field0 string", "a long, matched boolean", ("k",), ("a",), "left-v", "left")
    assert found(JOIN, key, other_key) == [KEY]


def test_nulls_are_judged_by_the_schema_and_by_the_program() -> None:
    """Spark 4.3 says of all columns that they could be null, and reads them as the program says."""

    def side(*, nullable: bool, in_schema: str = "w long") -> State:
        return State(
            "field0 string", in_schema, ("k",), ("w" if nullable else "w!",), "left", "left"
        )

    narrowed = [("incompatible", "nullability-narrowed")]
    assert found(JOIN, side(nullable=True), side(nullable=False)) == narrowed
    assert found(JOIN, side(nullable=False), side(nullable=True)) == []
    assert found(JOIN, side(nullable=False), side(nullable=False)) == []
    strict = side(nullable=False, in_schema="w long!")
    assert found(JOIN, side(nullable=True), strict) == narrowed
    assert found(JOIN, strict, side(nullable=True)) == [("as-is", "nullability-widened")]


def test_schemas_that_call_everything_nullable_say_nothing() -> None:
    """A state of Spark 4.3 and the same program on an older one."""
    array = {"type": "array", "elementType": "long", "containsNull": True}
    strict = {**array, "containsNull": False}
    saved = State("k string", {"c": "long", "s": array}, ("k",), ("count(1)", "collect_list(v)"))
    older = State("k string", {"c": "long!", "s": strict}, ("k",), saved.values)

    def verdicts(new: State, *, nulls_known: bool, known: bool = True) -> set[str]:
        changes = compare_states(
            *(AGG, saved.stores, new.stores, saved.meaning if known else None, new.meaning),
            nulls_known=nulls_known,
        )
        return {change.reason for change in changes}

    assert verdicts(older, nulls_known=False) == set()
    assert verdicts(older, nulls_known=False, known=False) == {"meaning-unknown"}
    assert verdicts(older, nulls_known=True) == {"nullability-narrowed"}
    # But what the program says of its own columns counts.
    other_key = replace(older, key="k string!", keys=("k!",))
    assert verdicts(other_key, nulls_known=False) == {"nullability-narrowed"}


def test_a_window_is_never_null() -> None:
    """Spark 4.3 says that it might be, 3.5 that it is not."""
    before = State("window long", "c long", ("window/1 hour",), ("count(1)",))
    after = State("window long!", "c long", ("window!/1 hour",), ("count(1)",))
    changes = compare_states(AGG, before.stores, after.stores, before.meaning, after.meaning)
    assert changes == ()


def test_without_a_meaning_the_schema_is_compared_and_what_it_hides_is_said() -> None:
    unknown = ("as-is", "meaning-unknown")
    assert found(AGG, TWO, sums("sum(w)", "sum(v)"), known=False) == [unknown]
    assert found(AGG, ONE, sums("sum(v)", value="b0 string"), known=False) == [
        ("incompatible", "type-changed"),
        unknown,
    ]
    assert found(DEDUP, State(keys=("k",)), State(keys=("k",)), known=False) == []
    (change,) = compare(AGG, TWO, TWO, known=False)
    assert "the input columns of its aggregates" in change.text


TRAITS = [
    (JOIN, JOIN_TYPE, "inner", "left outer", "join-type-changed"),
    (PROCESSOR, TIME_MODE, "NoTime", "ProcessingTime", "time-mode-changed"),
    (PROCESSOR, OUTPUT_MODE, "Update", "Append", "output-mode-changed"),
    (PROCESSOR, variable_type("x"), "ValueState", "ListState", "type-changed"),
    (PROCESSOR, variable_ttl("x"), "off", "on", "time-to-live-changed"),
]


@pytest.mark.parametrize(("kind", "trait", "before", "after", "reason"), TRAITS)
def test_traits(kind: str, trait: str, before: str, after: str, reason: str) -> None:
    old, new = (StateSemantics(traits={trait: value}) for value in (before, after))
    (change,) = compare_states(kind, (), (), old, new)
    assert (change.verdict.value, change.reason) == ("incompatible", reason)
    assert f"the {trait} was {before} and is now {after}" in change.text
    assert compare_states(kind, (), (), old, old) == ()
    # A savepoint that does not say it, and a variable that is no longer there.
    assert compare_states(kind, (), (), StateSemantics(), new) == ()
    assert compare_states(kind, (), (), old, StateSemantics()) == ()


def test_variables_come_and_go_but_other_stores_do_not() -> None:
    def stores(*names: str) -> tuple[StoreInfo, ...]:
        return tuple(StoreInfo(name, struct("k string"), struct("v long")) for name in names)

    def reasons(kind: str, before: Sequence[str], after: Sequence[str]) -> list[tuple[str, str]]:
        changes = compare_states(
            kind, stores(*before), stores(*after), StateSemantics(), StateSemantics()
        )
        return [(c.verdict.value, c.reason) for c in changes]

    assert reasons(PROCESSOR, ["a"], ["a", "b", "$timers"]) == [("as-is", "variable-added")]
    assert reasons(PROCESSOR, ["a", "b", "$timers"], ["b"]) == [("as-is", "variable-removed")]
    assert reasons(JOIN, ["left-a"], ["default"]) == [("incompatible", "stores-changed")]
    assert reasons(JOIN, ["left-a"], []) == []  # its schema is not known
