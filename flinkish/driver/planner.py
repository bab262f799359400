"""From a DataFrame that is to be written as a stream to its operators: graph, ids, Spark ordinals.

The operator graph comes from the analyzed plan, which no optimizer setting changes:

* A *step* is what one call of the program added to the plan (the nodes from the top of one of its
  DataFrames down to the tops of others). A step is one operator: its stateful node, else its most
  telling one. What the analyzer adds (projections around a USING join, the columns of a window,
  type casts below a union) is part of the step that needed it. A step of SQL text with several
  stateful nodes has an operator for each. Every source is an operator, aliases and views are none.
* An edge is chainable unless its end redistributes its input: every stateful operator,
  ``repartition``, a sort, grouped pandas functions.
* The sink is the last operator; the query's name is its uid.

Spark's ordinals come from the physical plan. Both have the stateful operators in the same order
(pre-order); kinds, and the traces that the optimizer has left, must agree.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flinkish.checkpoint.operators import StoreInfo
from flinkish.driver.plannodes import (
    STATEFUL,
    LogicalNode,
    PhysicalOperator,
    PlanReader,
)
from flinkish.driver.plansteps import Steps
from flinkish.errors import Incompatible
from flinkish.operators.coverage import Coverage, coverage, require_uids
from flinkish.operators.graph import Edge, OperatorGraph, OperatorNode, connect
from flinkish.operators.hasher import HasherVersion, collision
from flinkish.operators.identity import OperatorIdentity, identify
from flinkish.operators.tagging import Tag
from flinkish.operators.uids import distinguish

_AGGREGATES = frozenset({"Aggregate", "Distinct", "Except", "Intersect"})
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
#: Verbs for the names of stateful operators, before what they group by.
_VERBS = {
    "Aggregate": "aggregate by",
    "Deduplicate": "dropDuplicates",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
    "EventTimeWatermark": "watermark on",
}


@dataclass(frozen=True)
class PlannedOperator:
    """A stateful operator of a planned query.

    ``kind`` is Spark's name for it (``stateStoreSave`` ...), ``ordinal`` Spark's ``operatorId``,
    ``key`` its node in the graph, ``operator_id`` the id under the hasher asked for,
    ``partitions`` the number of its state partitions.
    """

    ordinal: int
    kind: str
    key: int
    uid: str | None
    operator_id: str
    operator_id_v2: str
    operator_id_v3: str
    partitions: int
    stores: tuple[StoreInfo, ...]


@dataclass(frozen=True)
class PlannedQuery:
    """A query's operators: ``operators`` are the stateful ones by ordinal, ``graph`` has all.

    ``identities`` are by the graph's keys, and so are ``tokens``: the same one in two places (of
    two queries, too) is one DataFrame with a uid that is used twice. ``notes`` are sentences for
    the user, such as uids that had to be told apart.
    """

    name: str | None
    graph: OperatorGraph
    identities: Mapping[int, OperatorIdentity]
    operators: tuple[PlannedOperator, ...]
    hasher: HasherVersion
    notes: tuple[str, ...] = ()
    tokens: Mapping[int, str] = field(default_factory=dict)

    def coverage(self) -> Coverage:
        """How many of its stateful operators have a uid."""
        return coverage(self.graph)


def plan_query(
    df: Any,
    output_mode: str,
    query_name: str | None,
    *,
    hasher: HasherVersion = HasherVersion.V3,
    require_uids: bool = False,
    sink: str = "sink",
    location: str | None = None,
) -> PlannedQuery:
    """Plan a query as Spark would run it, without running a job or reading data.

    Parameters
    ----------
    df: the streaming DataFrame of a classic session.
    output_mode: ``append``, ``update`` or ``complete``.
    query_name: the name the program gave the query; None when it gave none.
    hasher: whose ids become ``PlannedOperator.operator_id``.
    require_uids: refuse operators without a uid (``pipeline.auto-generate-uids=false``).
    sink: kind of the sink, such as ``kafka sink``.
    location: where the program starts the query, ``file:line``.

    Raises
    ------
    MissingUid, DuplicateUid, HashCollision, InvalidUid: the rules for uids.
    Incompatible: Spark's plan cannot be read.
    AnalysisException: Spark does not support the query (what its start would raise).
    """
    reader = PlanReader(df, output_mode)
    logical = [_placed(node) for node in reader.logical()]
    physical = reader.physical()
    nodes, matched = match_stateful(logical, physical, output_mode)
    return assemble(
        nodes,
        matched,
        query_name,
        hasher=hasher,
        uids_required=require_uids,
        sink=sink,
        location=short_place(location),
    )


def short_place(place: str | None) -> str | None:
    """``file:line`` relative to the program's directory where it is below that."""
    if place is None:
        return None
    home = os.path.dirname(os.path.abspath(sys.argv[0])) + os.sep
    return place.removeprefix(home)


def _placed(node: LogicalNode) -> LogicalNode:
    tag = node.tag and replace(node.tag, location=short_place(node.tag.location))
    return replace(node, tag=tag, location=short_place(node.location))


def stateful_positions(nodes: Sequence[LogicalNode], output_mode: str) -> list[int]:
    """Positions of the nodes that keep state, in pre-order. Pure.

    A limit keeps state unless it cuts the complete or updated result of an aggregation
    (``StreamingGlobalLimitStrategy``); a join does when both sides are streams.
    """
    aggregates = _aggregates_below(nodes)
    found = []
    for position, node in enumerate(nodes):
        if node.name == "Join":
            stateful = len(node.children) > 1
        elif node.name == "GlobalLimit":
            stateful = output_mode.lower() == "append" or not aggregates[position]
        else:
            stateful = node.name in STATEFUL
        if stateful:
            found.append(position)
    return found


def match_stateful(
    nodes: Sequence[LogicalNode], physical: Sequence[PhysicalOperator], output_mode: str
) -> tuple[Sequence[LogicalNode], dict[int, PhysicalOperator]]:
    """The physical operator of every stateful node, by position. Pure.

    Where the optimizer has removed stateful nodes (the outer one of two limits), the rest is
    matched when there is only one way to do so, given kinds and traces.

    Raises Incompatible when the two plans do not fit together.
    """
    stateful = stateful_positions(nodes, output_mode)
    ways = _embeddings(nodes, stateful, physical)
    if len(ways) != 1:
        ours = ", ".join(nodes[p].name for p in stateful) or "none"
        theirs = ", ".join(f"{op.ordinal} {op.kind}" for op in physical) or "none"
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
    """Ways (at most two are looked for) to find ``physical`` in order among ``stateful``."""
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
    return operator.kind in STATEFUL[node.name]


def assemble(
    nodes: Sequence[LogicalNode],
    stateful: Mapping[int, PhysicalOperator],
    query_name: str | None,
    *,
    hasher: HasherVersion,
    uids_required: bool = False,
    sink: str = "sink",
    location: str | None = None,
) -> PlannedQuery:
    """The planned query of a plan whose stateful nodes are known. Pure.

    Raises the errors of the rules for uids, see :func:`plan_query`.
    """
    steps = Steps(nodes, frozenset(stateful))
    keys = {position: key for key, position in enumerate(steps.operators(), start=1)}
    tags = steps.tags()
    uids, notes = _uids(nodes, keys, tags)
    operators = []
    seen_hashes: set[str] = set()
    for position, key in keys.items():
        node, tag = nodes[position], tags.get(position)
        kind = stateful[position].kind if position in stateful else _kind(node)
        hash_ = tag.uid_hash if tag and tag.token not in seen_hashes else None
        if tag:
            seen_hashes.add(tag.token)
        operators.append(
            OperatorNode(
                key=key,
                name=uids[position] or _name(node, kind),
                kind=kind,
                uid=uids[position],
                uid_hash=hash_,
                stateful=position in stateful,
                location=(tag.location if tag else None) or node.location,
            )
        )
    last = len(keys) + 1
    operators.append(
        OperatorNode(
            key=last,
            name=query_name or "sink",
            kind=sink,
            uid=_sink_uid(query_name, uids.values()),
            location=location,
        )
    )
    edges = [
        Edge(keys[source], last if target is None else keys[target], chainable)
        for source, target, chainable in steps.edges()
    ]
    graph = connect(operators, edges)
    identities = identify(graph)
    if uids_required:
        require_uids(graph)
    planned = []
    for position, operator in stateful.items():
        identity = identities[keys[position]]
        planned.append(
            PlannedOperator(
                ordinal=operator.ordinal,
                kind=operator.kind,
                key=keys[position],
                uid=identity.uid,
                operator_id=identity.operator_id(hasher),
                operator_id_v2=identity.operator_id_v2,
                operator_id_v3=identity.operator_id_v3,
                partitions=operator.partitions,
                stores=operator.stores,
            )
        )
    planned.sort(key=lambda operator: operator.ordinal)
    tokens = {keys[position]: tag.token for position, tag in tags.items()}
    return PlannedQuery(query_name, graph, identities, tuple(planned), hasher, tuple(notes), tokens)


def check_across_queries(
    name: str, planned: PlannedQuery, others: Iterable[tuple[str, PlannedQuery]]
) -> list[str]:
    """Check the uids of query ``name`` against those of the job's other queries. Pure.

    State follows a uid from one query of a job to another, so two stateful operators must not share
    one. One DataFrame written by two queries is not the user's mistake: returned is what is to be
    said of such uids.

    Raises DuplicateUid or HashCollision, naming both operators.
    """
    notes = []
    for other, query in others:
        owners = {op.operator_id: op.key for op in query.operators if op.uid is not None}
        for operator in planned.operators:
            key = owners.get(operator.operator_id)
            if operator.uid is None or key is None:
                continue
            if query.tokens.get(key) != planned.tokens.get(operator.key):
                raise collision(query.graph.by_key[key], planned.graph.by_key[operator.key])
            notes.append(
                f"the DataFrame with uid {operator.uid!r} is written by the queries {other!r} and "
                f"{name!r}: each keeps state of its own under that uid"
            )
    return notes


def _uids(
    nodes: Sequence[LogicalNode], keys: Mapping[int, int], tags: Mapping[int, Tag]
) -> tuple[dict[int, str | None], list[str]]:
    """The uid of every operator, and what is to be said of them."""
    given: list[tuple[str, str] | None] = []
    for position in keys:
        tag, source_name = tags.get(position), nodes[position].source_name
        if tag is not None and tag.uid is not None:
            given.append((tag.token, tag.uid))
        elif source_name is not None:
            given.append(("name", source_name))  # Spark refuses two sources of one name
        else:
            given.append(None)
    uids = distinguish(given)
    notes = [
        f"the DataFrame with uid {first[1]!r} is used more than once: each place is an operator of "
        f"its own, this one has the uid {uid!r}"
        for first, uid in zip(given, uids, strict=True)
        if first is not None and uid != first[1]
    ]
    return dict(zip(keys, uids, strict=True)), notes


def _sink_uid(query_name: str | None, uids: Iterable[str | None]) -> str | None:
    """The query's name, unless an operator has that uid: a sink keeps no state, so it gives way."""
    if query_name is None:
        return None
    taken = set(uids)
    uid = query_name
    while uid in taken:
        uid += "#sink"
    return uid


def _kind(node: LogicalNode) -> str:
    if node.source is not None:
        return f"{node.source} source"
    if node.name in _KINDS:
        return _KINDS[node.name]
    return node.name[:1].lower() + node.name[1:]


def _name(node: LogicalNode, kind: str) -> str:
    """A name for an operator that has none: never part of an id."""
    if node.name == "Join" and kind == "symmetricHashJoin":
        return f"{node.label} join"
    if not node.label or node.name not in _VERBS:
        return "aggregate" if node.name in _AGGREGATES else kind
    return f"{_VERBS[node.name]} {node.label}"


def _aggregates_below(nodes: Sequence[LogicalNode]) -> list[bool]:
    """Whether a streaming aggregation stands below each node."""
    below = [False] * len(nodes)
    for position in range(len(nodes) - 1, -1, -1):  # children before their parents
        below[position] = any(
            below[child] or nodes[child].name in _AGGREGATES for child in nodes[position].children
        )
    return below
