"""Extraction of a streaming query's operators from its DataFrame: graph, ids and Spark's ordinals.

The operator graph comes from the analyzed plan, which no optimizer setting changes:

* A *step* is what one call of the program added to the plan (the nodes from the top of one of its
  DataFrames down to the tops of others). A step is one operator: its stateful node, else its most
  descriptive node. Nodes that the analyzer adds (projections around a USING join, a window's
  columns, casts below a union) belong to the step that needed them. A step of SQL text with several
  stateful nodes has one operator for each. Every source is an operator; aliases and views are not.
* An edge is chainable unless its target redistributes its input, as every stateful operator,
  ``repartition``, a sort and grouped pandas functions do.
* The sink is the last operator; its uid is the query's name.

Spark's ordinals come from the physical plan. Both plans have the stateful operators in the same
order (pre-order). Their kinds, and the traces that the optimizer leaves, must agree.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from flinkish.driver.plan.plan_nodes import LogicalNode, PhysicalOperator, PlanReader
from flinkish.driver.plan.plan_sources import Relation
from flinkish.driver.plan.plan_steps import Steps, kind_of, match_stateful, name_of
from flinkish.errors import Incompatible
from flinkish.operators.graph import (
    Coverage,
    Edge,
    OperatorGraph,
    OperatorNode,
    connect,
    coverage,
    require_uids,
)
from flinkish.operators.hasher import HasherVersion, collision
from flinkish.operators.identity import (
    Identified,
    NodeIdentity,
    OperatorIdentity,
    PlannedNode,
    identify,
)
from flinkish.operators.state_semantics import StateSemantics
from flinkish.operators.tagging import Tag
from flinkish.operators.uids import distinguish
from flinkish.state.declared import DeclaredStates, to_text


@dataclass(frozen=True)
class PlannedOperator(Identified):
    """A stateful operator of a planned query.

    ``node`` is the operator as Spark has planned it. ``key`` and ``name`` are the key and the name
    that it has in the graph. ``typed`` are the typed states that the program declared for it.
    """

    node: PlannedNode
    key: int
    identity: OperatorIdentity
    name: str
    typed: DeclaredStates | None = None


@dataclass(frozen=True)
class PlannedSource(Identified):
    """A source of a planned query: one line of Spark's offset log.

    A DataFrame that occurs twice in a union is two sources with one directory. A relation in a WITH
    clause is one source, however often the clause is used.

    ``entry`` is the source's line in the log (0, 1 ...). ``directory`` is below ``sources/``; where
    Spark knows sources by name, it is also the key of the line. ``key`` is the source's node in the
    graph. ``signature`` is what the source reads, as ``format[what]``, and identifies a source
    without a uid. ``feeds`` are the ordinals of the stateful operators downstream of the source.
    For ``options`` see :class:`~flinkish.driver.plan.plan_sources.Relation`.
    """

    entry: int
    directory: str
    key: int
    identity: OperatorIdentity
    signature: str
    feeds: tuple[int, ...]
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class PlannedQuery:
    """The operators of a query.

    ``identities`` and ``tokens`` (of the ``uid()`` calls) are by the graph's keys. A token that
    occurs twice, even in two queries, means that one DataFrame with a uid is used twice.
    ``operators`` are the stateful ones, by ordinal. ``notes`` are sentences for the user, such as
    those on uids that occur more than once. ``sources`` are in the order of Spark's offset log.
    """

    name: str | None
    graph: OperatorGraph
    identities: Mapping[int, NodeIdentity]
    operators: tuple[PlannedOperator, ...]
    hasher: HasherVersion
    notes: tuple[str, ...] = ()
    tokens: Mapping[int, str] = field(default_factory=dict)
    sources: tuple[PlannedSource, ...] = ()

    def coverage(self) -> Coverage:
        """Return how many of the stateful operators have a uid."""
        return coverage(self.graph)


def extract_plan(
    df: Any,
    output_mode: str,
    query_name: str | None,
    *,
    hasher: HasherVersion = HasherVersion.V3,
    require_uids: bool = False,
    sink: str = "sink",
    location: str | None = None,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> PlannedQuery:
    """Plan a query as Spark would run it, without running a job or reading data.

    ``df`` is a DataFrame of a classic session. ``hasher`` is the version whose ids become
    ``PlannedOperator.operator_id``. ``require_uids`` refuses operators without a uid
    (``pipeline.auto-generate-uids=false``). ``sink`` is the kind of the sink, such as ``kafka
    sink``. ``location`` is where the program starts the query, ``file:line``. The query is planned
    with ``settings``; the session itself stays unchanged. Settings that an offset log pins are
    applied as Spark applies them at a restart (:mod:`flinkish.driver.plan.pinned_planning`).

    Raises MissingUid, DuplicateUid, HashCollision or InvalidUid if the uids break the rules;
    Incompatible if Spark's plan cannot be read; AnalysisException if Spark does not support the
    query (the error that its start would raise).
    """
    reader = PlanReader(df, output_mode, settings)
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
        relations=reader.relations,
    )


def short_place(place: str | None) -> str | None:
    """Return ``file:line``, relative to the program's directory if the file is below it."""
    if place is None:
        return None
    home = os.path.dirname(os.path.abspath(sys.argv[0])) + os.sep
    return place.removeprefix(home)


def _placed(node: LogicalNode) -> LogicalNode:
    tag = node.tag and replace(node.tag, location=short_place(node.tag.location))
    return replace(node, tag=tag, location=short_place(node.location))


def assemble(
    nodes: Sequence[LogicalNode],
    stateful: Mapping[int, PhysicalOperator],
    query_name: str | None,
    *,
    hasher: HasherVersion,
    uids_required: bool = False,
    sink: str = "sink",
    location: str | None = None,
    relations: Sequence[Relation] = (),
) -> PlannedQuery:
    """Build the planned query from a plan whose stateful nodes are known. Pure.

    Raises what :func:`extract_plan` raises, except for Spark's own errors.
    """
    steps = Steps(nodes, frozenset(stateful))
    keys = {position: key for key, position in enumerate(steps.operators(), start=1)}
    tags = steps.tags()
    uids, notes = _uids(nodes, keys, tags)
    operators = []
    seen_hashes: set[str] = set()
    for position, key in keys.items():
        node, tag = nodes[position], tags.get(position)
        kind = stateful[position].node.kind if position in stateful else kind_of(node)
        hash_ = tag.uid_hash if tag and tag.token not in seen_hashes else None
        if tag:
            seen_hashes.add(tag.token)
        operators.append(
            OperatorNode(
                key=key,
                name=uids[position] or name_of(node, kind),
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
        typed = nodes[position].typed
        meaning = _with_serializers(operator.node.meaning, typed)
        planned.append(
            PlannedOperator(
                replace(operator.node, meaning=meaning),
                key=keys[position],
                identity=identities[keys[position]].under(hasher),
                name=graph.by_key[keys[position]].name,
                typed=typed,
            )
        )
    planned.sort(key=lambda operator: operator.node.ordinal)
    return PlannedQuery(
        query_name,
        graph,
        identities,
        tuple(planned),
        hasher,
        tuple(notes),
        tokens={keys[position]: tag.token for position, tag in tags.items()},
        sources=_sources(relations, nodes, stateful, keys, identities, hasher),
    )


def _with_serializers(meaning: StateSemantics, typed: DeclaredStates | None) -> StateSemantics:
    """Return the meaning with the snapshots of the program's serializers, for new state.

    A restore replaces them where the state has values of other serializers.
    """
    if typed is None:
        return meaning
    snapshots = {name: (to_text(each),) for name, each in typed.snapshots.items()}
    return replace(meaning, serializers=snapshots)


def _sources(
    relations: Sequence[Relation],
    nodes: Sequence[LogicalNode],
    stateful: Mapping[int, PhysicalOperator],
    keys: Mapping[int, int],
    identities: Mapping[int, NodeIdentity],
    hasher: HasherVersion,
) -> tuple[PlannedSource, ...]:
    """Return the sources with their nodes and the stateful operators downstream of them.

    Raises Incompatible for a source that Spark would open but no operator would read.
    """
    parents = {child: position for position, node in enumerate(nodes) for child in node.children}
    places: dict[int, list[int]] = {relation.entry: [] for relation in relations}
    of_directory: dict[str, int] = {}
    for position, node in enumerate(nodes):
        if node.entry is not None:
            places[node.entry].append(position)
            of_directory.setdefault(relations[node.entry].directory, position)
    sources = []
    for relation in relations:
        feeds = set()
        for place in places[relation.entry]:
            above = parents.get(place)
            while above is not None:
                feeds.update([stateful[above].node.ordinal] if above in stateful else [])
                above = parents.get(above)
        # An unused table expression has no node. Another expression may read the same source.
        reader = next(iter(places[relation.entry]), of_directory.get(relation.directory))
        if reader is None:
            raise Incompatible(
                f"nothing uses a table expression of the query that reads {relation.signature}, "
                "but Spark would keep its position",
                hint="remove it from the WITH clause",
            )
        sources.append(
            PlannedSource(
                entry=relation.entry,
                directory=relation.directory,
                key=keys[reader],
                identity=identities[keys[reader]].under(hasher),
                signature=relation.signature,
                feeds=tuple(sorted(feeds)),
                options=relation.options,
            )
        )
    return tuple(sources)


def check_across_queries(
    name: str, planned: PlannedQuery, others: Iterable[tuple[str, PlannedQuery]]
) -> list[str]:
    """Check the uids of query ``name`` against those of the job's other queries. Pure.

    State follows a uid from one query of a job to another, so two stateful operators must not share
    a uid. It is no mistake, though, if two queries write the same DataFrame with a uid.

    Returns notes for the user on the uids of such DataFrames. Raises DuplicateUid or HashCollision,
    which name both operators.
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
    """Return the uid of every operator by position, and notes on derived uids."""
    named: list[tuple[str, str] | None] = []
    for position in keys:
        tag, source_name = tags.get(position), nodes[position].source_name
        if tag is not None and tag.uid is not None:
            named.append((tag.token, tag.uid))
        elif source_name is not None:
            named.append(("name", source_name))  # Spark refuses two sources with the same name
        else:
            named.append(None)
    uids = distinguish(named)
    notes = [
        f"the DataFrame with uid {first[1]!r} is used more than once: each place is a separate "
        f"operator; this one has the uid {uid!r}"
        for first, uid in zip(named, uids, strict=True)
        if first is not None and uid != first[1]
    ]
    return dict(zip(keys, uids, strict=True)), notes


def _sink_uid(query_name: str | None, uids: Iterable[str | None]) -> str | None:
    """Return the uid of the sink: the query's name, with a suffix if an operator has that uid.

    The sink's uid gets the suffix because a sink keeps no state.
    """
    if query_name is None:
        return None
    taken = set(uids)
    uid = query_name
    while uid in taken:
        uid += "#sink"
    return uid
