"""The steps of a program in its plan: which nodes are operators and which belong to one. Pure.

See :mod:`flinkish.driver.plan.plan_extraction` for the definition of a step.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinkish.driver.plan.node_matching import AGGREGATES
from flinkish.driver.plan.plan_nodes import PASSING, LogicalNode
from flinkish.driver.plan.plan_sources import SOURCES
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
#: Verbs for the names of stateful operators; the grouping columns follow.
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
        #: The operator that a tag on a step refers to, by the top of the step; None if it has none.
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
        #: Operators that flow out of a node, and whether nothing has redistributed them since.
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

        Raises InvalidUid when an operator has two names.
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
        """Return the operator that a tag on ``position`` refers to, or None.

        It is the operator of that step, or of a step below it.
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
        """Return for each node the top of the step it belongs to."""
        # Spark marks DataFrames unless spark.sql.analyzer.failAmbiguousSelfJoin is off. Without
        # marks every node is a step, except for the join below the projection of a USING join.
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
