from __future__ import annotations

import pytest

from flinkish.errors import InvalidGraph
from flinkish.operators.graph import Edge, OperatorGraph, OperatorNode, OutEdge, connect


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
        ([node(1)], (2,), "sources are 2, operators without inputs 1"),
        ([node(1), node(2)], (1,), "sources are 1, operators without inputs 1, 2"),
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
