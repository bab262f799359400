"""Render an operator graph: a tree for terminals, DOT for Graphviz (``flinkish info``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from flinkish.operators.graph import OperatorGraph, OperatorNode
from flinkish.operators.hasher import HasherVersion
from flinkish.operators.identity import NodeIdentity


def tree(
    graph: OperatorGraph, identities: Mapping[int, NodeIdentity], version: HasherVersion
) -> Iterator[str]:
    """Yield the lines of the graph, drawn from its sinks to its sources like Spark's plans.

    An operator with several consumers is drawn with its inputs below the first consumer, and only
    named below the others. ``-`` before an operator means that it is chained to its consumer, ``=``
    that an exchange is between them.
    """
    drawn: set[int] = set()
    sinks = sorted((node.key for node in graph if not node.out_edges), reverse=True)
    # (key, mark, indent of the line, indent of its inputs)
    stack = [(key, "", "", "") for key in sinks]
    while stack:
        key, mark, indent, below = stack.pop()
        node = graph.by_key[key]
        line = f"{indent}{mark}{node.describe()}"
        if key in drawn:
            yield f"{line} (see above)"
            continue
        drawn.add(key)
        uid = f" uid={node.uid}" if node.uid is not None else ""
        yield f"{line}{uid} id={identities[key].operator_id(version)}"
        inputs = node.in_edges
        for position in reversed(range(len(inputs))):
            last = position == len(inputs) - 1
            mark = "- " if _chained(graph, inputs[position], key) else "= "
            stack.append(
                (
                    inputs[position],
                    mark,
                    below + ("`-" if last else "|-"),
                    below + ("  " if last else "| "),
                )
            )


def dot(
    graph: OperatorGraph, identities: Mapping[int, NodeIdentity], version: HasherVersion, name: str
) -> str:
    """Return the graph of the query ``name`` in DOT, as a subgraph (see :func:`digraph`).

    Stateful operators are boxes, exchanges are dashed edges. The query is part of the names of its
    nodes, because an operator's key is unique only within its query.
    """
    lines = [f"  subgraph {_quoted(f'cluster {name}')} {{", f"    label={_quoted(name)};"]
    names = {node.key: _quoted(f"{name}/{node.key}") for node in graph}
    for node in graph:
        shape = "box" if node.stateful else "ellipse"
        label = _quoted("\n".join(_label(node, identities[node.key].operator_id(version))))
        lines.append(f"    {names[node.key]} [shape={shape}, label={label}];")
    for node in graph:
        for edge in node.out_edges:
            style = "" if edge.chainable else " [style=dashed]"
            lines.append(f"    {names[node.key]} -> {names[edge.target]}{style};")
    return "\n".join([*lines, "  }"])


def digraph(subgraphs: Sequence[str]) -> str:
    """Return the graph of a program from the :func:`dot` of each of its queries."""
    return "\n".join(["digraph operators {", "  rankdir=LR;", *subgraphs, "}"])


def _label(node: OperatorNode, operator_id: str) -> Iterator[str]:
    yield node.name
    yield node.kind
    if node.uid is not None:
        yield f"uid {node.uid}"
    yield operator_id


def _chained(graph: OperatorGraph, source: int, target: int) -> bool:
    return all(e.chainable for e in graph.by_key[source].out_edges if e.target == target)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
