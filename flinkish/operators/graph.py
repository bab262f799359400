"""The operator graph of a query, which the hashers, the coverage and ``flinkish info`` use.

The counterpart of Flink's ``StreamGraph``. A ``key`` identifies each node, an integer that only
orders the sources; ids, uids and states never depend on its value. The order of a node's in-edges
and out-edges is part of the graph (a join's left and right), the order of the nodes is not.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from flinkish.errors import InvalidGraph


@dataclass(frozen=True)
class OutEdge:
    """An edge to ``target``; ``chainable`` when it has no exchange."""

    target: int
    chainable: bool = False


@dataclass(frozen=True)
class OperatorNode:
    """One operator.

    Attributes
    ----------
    kind
        A word for people ("aggregate", "file source"); nothing depends on it.
    stateful
        Whether the operator owns state that a savepoint holds.
    location
        Place in the user's program (``app.py:12``), where known.
    in_edges
        Keys of the inputs, in order.
    """

    key: int
    name: str
    kind: str = "operator"
    uid: str | None = None
    uid_hash: str | None = None
    stateful: bool = False
    location: str | None = None
    in_edges: tuple[int, ...] = ()
    out_edges: tuple[OutEdge, ...] = ()

    @property
    def identified(self) -> bool:
        """True when the user gave it a uid or a uid hash."""
        return self.uid is not None or self.uid_hash is not None

    def describe(self) -> str:
        """Return the operator for an error message: ``"count" (stateful aggregate, app.py:12)``."""
        facts = ("stateful " if self.stateful else "") + self.kind
        where = f", {self.location}" if self.location else ""
        return f'"{self.name}" ({facts}{where})'


@dataclass(frozen=True)
class Edge:
    """An edge for :func:`connect`; ``chainable`` when it has no exchange."""

    source: int
    target: int
    chainable: bool = False


@dataclass(frozen=True)
class OperatorGraph:
    """A valid operator graph; its constructor raises InvalidGraph otherwise.

    Valid: keys are unique, both ends of every edge list it, there is no cycle, and ``sources`` are
    exactly the nodes without inputs (they are computed if not given).
    """

    nodes: tuple[OperatorNode, ...]
    sources: tuple[int, ...] = field(default=())

    def __post_init__(self) -> None:
        roots = tuple(sorted(node.key for node in self.nodes if not node.in_edges))
        if not self.sources:
            object.__setattr__(self, "sources", roots)
        _check(self, roots)

    @cached_property
    def by_key(self) -> dict[int, OperatorNode]:
        """The nodes by their keys."""
        return {node.key: node for node in self.nodes}

    @cached_property
    def topological(self) -> tuple[int, ...]:
        """All keys, inputs before their consumers; the same for any order of ``nodes``."""
        return tuple(_topological(self))

    def __iter__(self) -> Iterator[OperatorNode]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)


def connect(operators: Iterable[OperatorNode], edges: Iterable[Edge]) -> OperatorGraph:
    """Return the graph of operators (given without edges) and edges; InvalidGraph if it is invalid.

    The order of ``edges`` is the order of every node's in-edges and of its out-edges.
    """
    nodes = list(operators)
    inputs: dict[int, list[int]] = {node.key: [] for node in nodes}
    outputs: dict[int, list[OutEdge]] = {node.key: [] for node in nodes}
    for edge in edges:
        for end in (edge.source, edge.target):
            if end not in inputs:
                raise InvalidGraph(f"edge {edge.source} -> {edge.target}: no operator {end}")
        inputs[edge.target].append(edge.source)
        outputs[edge.source].append(OutEdge(edge.target, edge.chainable))
    return OperatorGraph(
        tuple(
            replace(n, in_edges=tuple(inputs[n.key]), out_edges=tuple(outputs[n.key]))
            for n in nodes
        )
    )


def _check(graph: OperatorGraph, roots: tuple[int, ...]) -> None:
    keys = Counter(node.key for node in graph.nodes)
    duplicates = sorted(key for key, count in keys.items() if count > 1)
    if duplicates:
        raise InvalidGraph(f"operator keys used twice: {_listed(duplicates)}")
    forward = Counter((n.key, edge.target) for n in graph.nodes for edge in n.out_edges)
    backward = Counter((source, n.key) for n in graph.nodes for source in n.in_edges)
    if forward != backward:
        odd = sorted((forward - backward) + (backward - forward))
        wrong = _listed(f"{source} -> {target}" for source, target in odd)
        raise InvalidGraph(f"edges listed at one end only: {wrong}")
    missing = sorted({end for edge in forward for end in edge} - set(keys))
    if missing:
        raise InvalidGraph(f"edges to unknown operators: {_listed(missing)}")
    if sorted(graph.sources) != list(roots):
        raise InvalidGraph(
            f"sources are {_listed(sorted(graph.sources))}, "
            f"operators without inputs {_listed(roots)}"
        )
    if len(graph.topological) < len(graph.nodes):
        rest = sorted(set(keys) - set(graph.topological))
        raise InvalidGraph(f"operators in or after a cycle: {_listed(rest)}")


def _topological(graph: OperatorGraph) -> Iterator[int]:
    waiting = {node.key: len(node.in_edges) for node in graph.nodes}
    ready = deque(sorted(key for key, inputs in waiting.items() if not inputs))
    while ready:
        key = ready.popleft()
        yield key
        for edge in graph.by_key[key].out_edges:
            waiting[edge.target] -= 1
            if not waiting[edge.target]:
                ready.append(edge.target)


def _listed(values: Iterable[object]) -> str:
    return ", ".join(str(value) for value in values) or "none"
