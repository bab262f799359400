"""Matching of the stateful nodes of the analyzed plan to the physical operators. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from flinkish.driver.plan.plan_nodes import STATEFUL, LogicalNode, PhysicalOperator
from flinkish.errors import Incompatible

#: Logical nodes that are aggregations.
AGGREGATES = frozenset({"Aggregate", "Distinct", "Except", "Intersect"})


def stateful_positions(nodes: Sequence[LogicalNode], output_mode: str) -> list[int]:
    """Return the positions of the nodes that keep state, in pre-order. Pure.

    A limit keeps state unless it cuts the complete or updated result of an aggregation
    (``StreamingGlobalLimitStrategy``). A join keeps state when both sides are streams.
    """
    aggregates = _aggregates_below(nodes)
    positions = []
    for position, node in enumerate(nodes):
        if node.name == "Join":
            stateful = len(node.children) > 1
        elif node.name == "GlobalLimit":
            stateful = output_mode.lower() == "append" or not aggregates[position]
        else:
            stateful = node.name in STATEFUL
        if stateful:
            positions.append(position)
    return positions


def match_stateful(
    nodes: Sequence[LogicalNode], physical: Sequence[PhysicalOperator], output_mode: str
) -> tuple[Sequence[LogicalNode], dict[int, PhysicalOperator]]:
    """Match every stateful node to its physical operator. Pure.

    Where the optimizer has removed stateful nodes (the outer one of two limits), the others are
    matched if kinds and traces allow exactly one way to do so.

    Returns ``nodes``, and the physical operators by the position of their node. Raises Incompatible
    if the two plans do not match, or match in more than one way.
    """
    stateful = stateful_positions(nodes, output_mode)
    ways = _embeddings(nodes, stateful, physical)
    if len(ways) != 1:
        ours = ", ".join(nodes[p].name for p in stateful) or "none"
        theirs = ", ".join(f"{op.node.ordinal} {op.node.kind}" for op in physical) or "none"
        why = "do not fit" if not ways else "fit in more than one way"
        raise Incompatible(
            f"the stateful operators of the analyzed plan ({ours}) {why} those that Spark would "
            f"run ({theirs})",
            hint="split the query into simpler steps, or report it with the query's explain()",
        )
    return nodes, dict(zip(ways[0], physical, strict=True))


def _embeddings(
    nodes: Sequence[LogicalNode], stateful: Sequence[int], physical: Sequence[PhysicalOperator]
) -> list[tuple[int, ...]]:
    """Return up to two ways to find ``physical``, in order, among ``stateful``."""
    if len(stateful) == len(physical):
        exact = all(_fits(nodes[p], p, op) for p, op in zip(stateful, physical, strict=True))
        return [tuple(stateful)] if exact else []
    ways: list[tuple[int, ...]] = [()]
    for done, operator in enumerate(physical):
        left = len(physical) - done - 1
        longer: list[tuple[int, ...]] = []
        for way in ways:
            start = stateful.index(way[-1]) + 1 if way else 0
            longer += [
                (*way, p)
                for p in stateful[start : len(stateful) - left]
                if _fits(nodes[p], p, operator)
            ]
        ways = longer[:1000]
    return ways[:2]


def _fits(node: LogicalNode, position: int, operator: PhysicalOperator) -> bool:
    if operator.link is not None and operator.link != position:
        return False
    return operator.node.kind in STATEFUL[node.name]


def _aggregates_below(nodes: Sequence[LogicalNode]) -> list[bool]:
    """Return for each node whether a streaming aggregation is below it."""
    below = [False] * len(nodes)
    for position in range(len(nodes) - 1, -1, -1):  # children before their parents
        below[position] = any(
            below[child] or nodes[child].name in AGGREGATES for child in nodes[position].children
        )
    return below
