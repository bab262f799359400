"""Operator graphs: those of which Apache Flink 2.3.0 computed the ids, and changes of graphs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from flinkish.operators import golden
from flinkish.operators.graph import OperatorGraph
from flinkish.operators.hasher import HasherVersion, hash_v2, hash_v3

PATH = Path(__file__).parents[1] / "data" / "golden_operator_ids.json.gz"


@cache
def recorded() -> dict[str, Any]:
    return dict(golden.load(str(PATH)))


@cache
def graphs() -> dict[str, OperatorGraph]:
    return {entry["graph"]: golden.read_graph(entry) for entry in recorded()["graphs"]}


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
