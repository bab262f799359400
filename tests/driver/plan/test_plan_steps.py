"""Stateful operators found in two plans of one query: plans as data, without Spark."""

from __future__ import annotations

import pytest

from flinkish.driver.plan.plan_extraction import assemble
from flinkish.driver.plan.plan_nodes import LogicalNode, PhysicalOperator
from flinkish.driver.plan.plan_steps import match_stateful
from flinkish.errors import Incompatible
from flinkish.operators.hasher import HasherVersion
from flinkish.operators.identity import PlannedNode


def _physical(*kinds: str, links: dict[int, int] | None = None) -> list[PhysicalOperator]:
    return [PhysicalOperator(PlannedNode(i, k), (links or {}).get(i)) for i, k in enumerate(kinds)]


def _chain(*names: str) -> list[LogicalNode]:
    last = len(names) - 1
    return [
        LogicalNode(name, step=True, children=() if i == last else (i + 1,))
        for i, name in enumerate(names)
    ]


@pytest.mark.parametrize(
    "physical",
    [
        _physical("dedupe", "stateStoreSave"),  # another order
        _physical("dedupe"),  # one of two
        _physical("stateStoreSave", "dedupe", "dedupe", "dedupe"),  # one too many
        _physical("stateStoreSave", "dedupe", "dedupe", links={1: 2}),  # traces that disagree
        _physical("stateStoreSave", "dedupe", "globalLimit"),  # another kind
    ],
)
def test_plans_that_do_not_match_are_refused(physical: list[PhysicalOperator]) -> None:
    nodes = _chain("Aggregate", "Deduplicate", "Deduplicate", "StreamingRelation")
    with pytest.raises(Incompatible, match=r"do not match|more than one way"):
        match_stateful(nodes, physical, "update")


def test_what_the_optimizer_removed_is_stateless() -> None:
    nodes = _chain("Aggregate", "Deduplicate", "Deduplicate", "StreamingRelation")
    _, matched = match_stateful(nodes, _physical("stateStoreSave"), "update")
    assert list(matched) == [0]


def test_a_trace_tells_which_of_two_alike_is_left() -> None:
    nodes = _chain("Deduplicate", "Deduplicate", "StreamingRelation")
    with pytest.raises(Incompatible, match="more than one way"):
        match_stateful(nodes, _physical("dedupe"), "append")
    _, matched = match_stateful(nodes, _physical("dedupe", links={0: 1}), "append")
    assert list(matched) == [1]
    planned = assemble(nodes, matched, None, hasher=HasherVersion.V3)
    assert [n.stateful for n in planned.graph] == [False, True, False, False]
