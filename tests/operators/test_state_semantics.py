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
    assert StateSemantics.from_json({}) == StateSemantics()


def test_what_a_newer_flinkish_adds_is_passed_over() -> None:
    data = MEANING.to_json()
    data["more"] = 1
    data["keys"]["left"][0]["more"] = 2
    assert StateSemantics.from_json(data) == MEANING


def test_zones_in_arguments_of_python_functions_are_no_part_of_a_name() -> None:
    """Savepoints of earlier versions have them there."""
    shown = "<lambda>(date_format(ts, HH, Some(Asia/Tokyo)))"
    data = StateSemantics({ONLY: (Column(shown, shown),)}).to_json()
    assert "settings" not in data
    found = StateSemantics.from_json(data)
    plain = "<lambda>(date_format(ts, HH))"
    assert (found.keys[ONLY], found.settings) == ((Column(plain, plain),), None)
