from __future__ import annotations

import pytest

from flinkish.errors import InvalidGraph, MissingUid
from flinkish.operators.graph import (
    Edge,
    OperatorGraph,
    OperatorNode,
    OutEdge,
    connect,
    coverage,
    require_uids,
)


def node(key: int, inputs: tuple[int, ...] = (), outputs: tuple[int, ...] = ()) -> OperatorNode:
    edges = tuple(OutEdge(target) for target in outputs)
    return OperatorNode(key, f"n{key}", in_edges=inputs, out_edges=edges)


def test_edges_keep_their_order() -> None:
    operators = [node(key) for key in (1, 2, 3)]
    graph = connect(operators, [Edge(2, 3), Edge(1, 3, chainable=True), Edge(2, 3)])
    assert graph.sources == (1, 2)
    assert graph.by_key[3].in_edges == (2, 1, 2)
    assert graph.by_key[2].out_edges == (OutEdge(3), OutEdge(3))
    assert graph.topological == (1, 2, 3)
    assert graph.by_key[1].out_edges == (OutEdge(3, chainable=True),)


@pytest.mark.parametrize(
    ("nodes", "sources", "message"),
    [
        ([node(1), node(1)], (), "operator keys used twice: 1"),
        ([node(1, outputs=(2,)), node(2)], (), "at one end only: 1 -> 2"),
        ([node(1), node(2, inputs=(1,))], (), "at one end only: 1 -> 2"),
        ([node(1, outputs=(2, 2)), node(2, inputs=(1,))], (), "at one end only: 1 -> 2"),
        ([node(1)], (2,), "sources are 2, but the operators without inputs are 1"),
        ([node(1), node(2)], (1,), "sources are 1, but the operators without inputs are 1, 2"),
        (
            [node(1, outputs=(2,)), node(2, (1, 3), (3,)), node(3, (2,), (2, 4)), node(4, (3,))],
            (),
            "in or after a cycle: 2, 3, 4",
        ),
    ],
)
def test_what_is_no_graph(
    nodes: list[OperatorNode], sources: tuple[int, ...], message: str
) -> None:
    with pytest.raises(InvalidGraph, match=message):
        OperatorGraph(tuple(nodes), sources)


def test_an_edge_to_nowhere() -> None:
    with pytest.raises(InvalidGraph, match="edge 1 -> 7: no operator 7"):
        connect([node(1)], [Edge(1, 7)])


def test_an_operator_describes_itself() -> None:
    operator = OperatorNode(1, "count", "aggregate", stateful=True, location="app.py:12")
    assert operator.describe() == '"count" (stateful aggregate, app.py:12)'


SOURCE = OperatorNode(1, "flights", "file source", location="app.py:3")
FILTER = OperatorNode(2, "filter", "filter", uid="late-only")
DEDUP = OperatorNode(3, "dedup", "deduplicate", uid="dedup-flights", stateful=True)
COUNT = OperatorNode(4, "count", "aggregate", stateful=True, location="app.py:12")
HASHED = OperatorNode(5, "join", "join", uid_hash="0" * 32, stateful=True)
ALL = [SOURCE, FILTER, DEDUP, COUNT, HASHED]


def test_the_line() -> None:
    found = coverage(ALL)
    assert (found.stateful, found.with_uid, found.missing) == (3, 2, (COUNT,))
    assert found.message() == (
        '2 of 3 stateful operators have a uid; missing: "count" (stateful aggregate, app.py:12)'
    )


def test_nothing_missing() -> None:
    assert coverage([DEDUP]).message() == "1 of 1 stateful operator has a uid"
    assert coverage([SOURCE]).message() == "no stateful operators"


def test_without_generated_uids_every_operator_is_listed_stateful_first() -> None:
    with pytest.raises(MissingUid) as caught:
        require_uids(ALL)
    assert caught.value.message == (
        "Auto generated UIDs have been disabled but no UID or hash has been assigned to operators "
        '"count" (stateful aggregate, app.py:12), "flights" (file source, app.py:3)'
    )
    require_uids([FILTER, DEDUP, HASHED])
