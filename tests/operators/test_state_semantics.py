"""What state columns are to a program, as a savepoint keeps it."""

from __future__ import annotations

import json

from flinkish.operators.state_semantics import (
    JOIN_TYPE,
    ONLY,
    TIME_ZONE,
    Column,
    Dependence,
    StateSemantics,
    without_zones,
)

MEANING = StateSemantics(
    keys={"left": (Column("user", "lower(name)"),), "right": (Column("who", "who"),)},
    values={
        ONLY: (Column("sum(a)", "sum(x)"), Column("collect_list(b)", "collect_list(b)", "int"))
    },
    traits={JOIN_TYPE: "inner"},
    settings=(Dependence(TIME_ZONE, "UTC", "key `h`", "hour(ts)", certain=False),),
)


def test_it_survives_json() -> None:
    assert StateSemantics.from_json(json.loads(json.dumps(MEANING.to_json()))) == MEANING
    nothing = StateSemantics().to_json()
    assert nothing == {"keys": {}, "values": {}, "traits": {}}
    assert StateSemantics.from_json(nothing) == StateSemantics()


def test_zones_in_arguments_of_python_functions_are_no_part_of_a_name() -> None:
    shown = "<lambda>(date_format(ts, HH, Some(Asia/Tokyo)))"
    assert without_zones(shown) == "<lambda>(date_format(ts, HH))"
