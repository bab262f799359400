"""What tests do with operator graphs."""

from __future__ import annotations

from dataclasses import replace

from flinkish.operators.graph import OperatorGraph
from flinkish.operators.hasher import HasherVersion, hash_v2, hash_v3


def hash_graph(graph: OperatorGraph, version: HasherVersion) -> dict[int, str]:
    """The operator id of every node, by key, in the order of ``graph.nodes``."""
    return hash_v2(graph) if version is HasherVersion.V2 else hash_v3(graph)


def flip(graph: OperatorGraph, key: int, position: int) -> OperatorGraph:
    """The graph with the ``chainable`` flag of one out-edge of ``key`` turned over."""
    node = graph.by_key[key]
    edges = list(node.out_edges)
    edges[position] = replace(edges[position], chainable=not edges[position].chainable)
    changed = replace(node, out_edges=tuple(edges))
    return replace(graph, nodes=tuple(changed if n.key == key else n for n in graph.nodes))
