"""What transformWithState writes of itself, and the meaning of expressions; needs no Spark."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.checkpoint.format.operator_files import (
    OperatorMetadata,
    OperatorStore,
    write_operator_metadata,
)
from flinkish.driver.plan.state_semantics import _partial, _renamed, with_properties
from flinkish.errors import Incompatible
from flinkish.operators.state_semantics import (
    ONLY,
    OUTPUT_MODE,
    TIME_MODE,
    Column,
    StateSemantics,
    variable_ttl,
    variable_type,
)

MEANING = StateSemantics({ONLY: (Column("k", "k"),)})
#: As Spark 4.3.0 writes it.
PROPERTIES = {
    "timeMode": "ProcessingTime",
    "outputMode": "Update",
    "stateVariables": [
        {"stateName": "total", "stateVariableType": "ValueState", "ttlEnabled": True},
        {
            "stateName": "$procTimers_keyToTimestamp",
            "stateVariableType": "TimerState",
            "ttlEnabled": False,
        },
    ],
}


def _file(properties: Any) -> bytes:
    store = OperatorStore("default", 0, 2, ("file:/c/state/0/_stateSchema/default/0_x",))
    return write_operator_metadata(
        OperatorMetadata(2, 0, "transformWithStateInPandasExec", (store,), json.dumps(properties))
    )


def test_the_newest_properties_become_traits() -> None:
    older = _file({**PROPERTIES, "timeMode": "NoTime"})
    files = {"_metadata/v2/9": older, "_metadata/v2/10": _file(PROPERTIES), "_stateSchema/x": b""}
    found = with_properties(MEANING, files)
    assert found.keys == MEANING.keys
    assert found.traits == {
        TIME_MODE: "ProcessingTime",
        OUTPUT_MODE: "Update",
        variable_type("total"): "ValueState",
        variable_ttl("total"): "on",
    }
    assert StateSemantics.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_operators_of_other_kinds_have_none() -> None:
    assert with_properties(MEANING, {}) is MEANING
    assert with_properties(MEANING, {"_metadata/metadata": b"v1\n{}"}) is MEANING
    # A join of the third format has such metadata too.
    joins = _file({"useVirtualColumnFamilies": True})
    assert with_properties(MEANING, {"_metadata/v2/0": joins}) == MEANING


@pytest.mark.parametrize(
    "content", [b"v2\n{", _file([1]), _file({"stateVariables": [{"stateName": "x"}]})]
)
def test_an_unknown_form_is_refused(content: bytes) -> None:
    with pytest.raises(Incompatible, match="unknown form"):
        with_properties(MEANING, {"_metadata/v2/0": content})


def chain(*names: str) -> Any:
    """A physical plan of nodes with these class names, from the top."""
    plan: Any = None
    for place, name in reversed([*enumerate(names)]):
        children = [] if plan is None else [plan]
        plan = SimpleNamespace(
            place=place,
            getClass=lambda name=name: SimpleNamespace(getSimpleName=lambda: name),
            children=lambda children=children: SimpleNamespace(
                size=lambda: len(children), apply=lambda number: children[number]
            ),
        )
    return plan


#: What Spark 4.3.0 plans below a StateStoreSave.
AGGREGATION = (
    *("WholeStageCodegenExec", "HashAggregateExec", "InputAdapter", "StateStoreRestoreExec"),
    *("WholeStageCodegenExec", "HashAggregateExec", "InputAdapter", "ShuffleExchangeExec"),
    *("WholeStageCodegenExec", "HashAggregateExec"),
)


@pytest.mark.parametrize(
    "below",
    [
        ("ProjectExec", "FileSourceScanExec"),
        ("HashAggregateExec", "InputAdapter", "StateStoreSaveExec", *AGGREGATION),
        ("SortAggregateExec", "SortExec", "SessionWindowStateStoreSaveExec", *AGGREGATION),
    ],
)
def test_the_buffers_are_those_of_the_operator_itself(below: tuple[str, ...]) -> None:
    """Also right above another aggregation, as max(count) above count by a window and a key."""
    assert _partial(chain(*AGGREGATION, *below)).place == len(AGGREGATION) - 1


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ({"a": "b", "b": "c"}, "sum(((b * 10) + c))"),
        ({"a": "c", "b": "c"}, "sum(((c * 10) + c))"),
        ({"b": "a", "a": "b"}, "sum(((b * 10) + a))"),
        ({"a": r"split(s, '\\d')"}, r"sum(((split(s, '\\d') * 10) + b))"),
        ({}, "sum(((a * 10) + b))"),
    ],
)
def test_a_column_is_followed_once(named: dict[str, str], text: str) -> None:
    """A select may give one column the name that another one had."""
    assert _renamed("sum(((a * 10) + b))", named) == text
