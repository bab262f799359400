"""The steps of a program in its plan, and the physical operators of the stateful steps. Pure.

See :mod:`flinkish.driver.plan.plan_extraction` for the definition of a step.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinkish.driver.plan.plan_nodes import PASSING, STATEFUL, LogicalNode, PhysicalOperator
from flinkish.driver.plan.plan_sources import SOURCES
from flinkish.errors import Incompatible
from flinkish.operators.tagging import Tag, merge

_KINDS = {
    "CollectMetrics": "observe",
    "EventTimeWatermark": "watermark",
    "FlatMapGroupsInArrow": "applyInArrow",
    "FlatMapGroupsInPandas": "applyInPandas",
    "GlobalLimit": "limit",
    "Join": "join with static data",
    "PythonMapInArrow": "mapInArrow",
    "RebalancePartitions": "repartition",
    "RepartitionByExpression": "repartition",
}
#: Words for the names of operators; the columns of the operator follow.
_VERBS = {
    "Aggregate": "aggregate by",
    "Deduplicate": "dropDuplicates",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
    "EventTimeWatermark": "watermark on",
}


class Steps:
    """The operators among the nodes of a plan, and the edges between them.

    ``stateful`` are the positions of the stateful nodes.
    """

    def __init__(self, nodes: Sequence[LogicalNode], stateful: frozenset[int]) -> None:
        self._nodes = nodes
        self._stateful = stateful
        self._top = self._tops()
        members: dict[int, list[int]] = {}
        for position in range(len(nodes)):
            members.setdefault(self._top[position], []).append(position)
        #: By the top of a step: the operator to which a tag on the step refers, or None.
        self._principal = {top: self._choose(inside) for top, inside in members.items()}
        self._operators = frozenset(p for p in self._principal.values() if p is not None) | stateful

    def operators(self) -> list[int]:
        """Return the positions of the operators in post-order: inputs first, left to right."""
        order: list[int] = []
        stack = [(0, False)]
        while stack:
            position, below_done = stack.pop()
            if below_done:
                order.append(position)
                continue
            stack.append((position, True))
            stack += [(child, False) for child in reversed(self._nodes[position].children)]
        return [position for position in order if position in self._operators]

    def edges(self) -> list[tuple[int, int | None, bool]]:
        """Return edges as (source, target, chainable); the target None is the sink."""
        #: By node: the operators whose output it passes on, and whether no exchange lies between.
        out: list[list[tuple[int, bool]]] = [[] for _ in self._nodes]
        edges: list[tuple[int, int | None, bool]] = []
        for position in range(len(self._nodes) - 1, -1, -1):
            node = self._nodes[position]
            breaks = node.exchange or position in self._stateful
            flow = [
                (source, chainable and not breaks)
                for child in node.children
                for source, chainable in out[child]
            ]
            if position in self._operators:
                edges += [(source, position, chainable) for source, chainable in flow]
                flow = [(position, True)]
            out[position] = flow
        return edges + [(source, None, chainable) for source, chainable in out[0]]

    def tags(self) -> dict[int, Tag]:
        """Return the tag of each operator.

        Raises InvalidUid when two tags of an operator contradict each other.
        """
        tags: dict[int, Tag] = {}
        for position, node in enumerate(self._nodes):
            if node.tag is None:
                continue
            target = self._named(position)
            if target is not None:
                tags[target] = merge(tags[target], node.tag) if target in tags else node.tag
        return tags

    def _named(self, position: int) -> int | None:
        """Return the operator to which a tag on ``position`` refers, or None.

        It is the operator of the step at ``position``, or of a step below that step.
        """
        while True:
            if position in self._operators:
                return position
            chosen = self._principal.get(position)
            if chosen is not None:
                return chosen
            if len(self._nodes[position].children) != 1:
                return None
            (position,) = self._nodes[position].children

    def _tops(self) -> list[int]:
        """Return for each node the top of its step."""
        # Spark marks DataFrames unless spark.sql.analyzer.failAmbiguousSelfJoin is off. Without
        # marks, every node is a step, except for the join below the projection of a USING join.
        marked = any(node.step for node in self._nodes)
        tops = list(range(len(self._nodes)))
        for position, node in enumerate(self._nodes):
            for child in node.children:
                below = self._nodes[child]
                if below.step or below.tag is not None or below.name in SOURCES:
                    continue
                if marked or node.hidden_output:
                    tops[child] = tops[position]
        return tops

    def _choose(self, inside: Sequence[int]) -> int | None:
        """Return the operator of a step: its outermost stateful node, else the most descriptive."""
        for position in inside:
            if position in self._stateful:
                return position
        own = [p for p in inside if self._nodes[p].name not in PASSING]
        telling = [p for p in own if self._nodes[p].name != "Project"]
        return next(iter(telling or own), None)


def kind_of(node: LogicalNode) -> str:
    """Return the kind of a stateless operator, in terms of the DataFrame API."""
    if node.source is not None:
        return f"{node.source} source"
    if node.name in _KINDS:
        return _KINDS[node.name]
    return node.name[:1].lower() + node.name[1:]


def name_of(node: LogicalNode, kind: str) -> str:
    """Return a name for an operator without a uid; it is never part of an id."""
    if node.name == "Join" and kind == "symmetricHashJoin":
        return f"{node.label} join"
    if not node.label or node.name not in _VERBS:
        return "aggregate" if node.name in AGGREGATES else kind
    return f"{_VERBS[node.name]} {node.label}"


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
        match, how = ("match", " in more than one way") if ways else ("do not match", "")
        raise Incompatible(
            f"the stateful operators of the analyzed plan ({ours}) {match} those that Spark would "
            f"run ({theirs}){how}",
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
