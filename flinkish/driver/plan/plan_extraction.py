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
from types import MappingProxyType
from typing import Any

from flinkish.checkpoint.operators import StoreInfo
from flinkish.driver.plan.node_matching import match_stateful
from flinkish.driver.plan.plan_nodes import LogicalNode, PhysicalOperator, PlanReader
from flinkish.driver.plan.plan_sources import Relation
from flinkish.driver.plan.plan_steps import Steps, kind_of, name_of
from flinkish.errors import Incompatible
from flinkish.operators.coverage import Coverage, coverage, require_uids
from flinkish.operators.graph import Edge, OperatorGraph, OperatorNode, connect
from flinkish.operators.hasher import HasherVersion, collision
from flinkish.operators.identity import Identified, NodeIdentity, OperatorIdentity, identify
from flinkish.operators.meaning import StateSemantics
from flinkish.operators.tagging import Tag
from flinkish.operators.uids import distinguish


@dataclass(frozen=True)
class PlannedOperator(Identified):
    """A stateful operator of a planned query.

    ``kind`` is Spark's name for it (``stateStoreSave`` ...), ``ordinal`` Spark's ``operatorId``,
    ``key`` its node in the graph, ``partitions`` the number of its state partitions, ``name`` that
    of its node. ``files`` are the metadata and schemas that Spark 4.x has written below
    ``state/<ordinal>`` while it planned, by their paths there; empty on 3.5. Paths inside them are
    those of the planning. ``meaning`` is what the columns of its state are to the program.
    """

    ordinal: int
    kind: str
    key: int
    identity: OperatorIdentity
    partitions: int
    stores: tuple[StoreInfo, ...]
    files: Mapping[str, bytes]
    name: str
    meaning: StateSemantics = field(default_factory=StateSemantics)


@dataclass(frozen=True)
class PlannedSource(Identified):
    """A source of a planned query: one line of Spark's offset log.

    A DataFrame that a union has twice is two of them with one directory; what a WITH clause reads
    is one, however often it is used.

    ``entry`` is its line in the log (0, 1 ...), ``directory`` its directory below ``sources/``
    (and, where Spark knows sources by name, the key of its line), ``key`` its node in the graph,
    ``signature`` says what it reads, as ``format[what]``, to find it again when it has no uid,
    ``feeds`` are the ordinals of the stateful operators downstream of it.
    """

    entry: int
    directory: str
    key: int
    identity: OperatorIdentity
    signature: str
    feeds: tuple[int, ...]


@dataclass(frozen=True)
class PlannedQuery:
    """A query's operators: ``operators`` are the stateful ones by ordinal, ``graph`` has all.

    ``sources`` are in the order of Spark's offset log.
    ``identities`` are by the graph's keys, and so are ``tokens``: the same one in two places (of
    two queries, too) is one DataFrame with a uid that is used twice. ``notes`` are sentences for
    the user, such as uids that had to be told apart.
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
        """How many of its stateful operators have a uid."""
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

    Parameters
    ----------
    df: the streaming DataFrame of a classic session.
    output_mode: ``append``, ``update`` or ``complete``.
    query_name: the name the program gave the query; None when it gave none.
    hasher: whose ids become ``PlannedOperator.operator_id``.
    require_uids: refuse operators without a uid (``pipeline.auto-generate-uids=false``).
    sink: kind of the sink, such as ``kafka sink``.
    location: where the program starts the query, ``file:line``.
    settings: Spark settings to plan with; the session itself is left alone. Those that an offset
        log pins are taken as Spark takes them at a restart
        (:mod:`flinkish.driver.plan.pinned_planning`).

    Raises
    ------
    MissingUid, DuplicateUid, HashCollision, InvalidUid: the rules for uids.
    Incompatible: Spark's plan cannot be read.
    AnalysisException: Spark does not support the query (what its start would raise).
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
    """``file:line`` relative to the program's directory where it is below that."""
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
    """The planned query of a plan whose stateful nodes are known. Pure.

    Raises what :func:`plan_query` does, but for Spark's own errors.
    """
    steps = Steps(nodes, frozenset(stateful))
    keys = {position: key for key, position in enumerate(steps.operators(), start=1)}
    tags = steps.tags()
    uids, notes = _uids(nodes, keys, tags)
    operators = []
    seen_hashes: set[str] = set()
    for position, key in keys.items():
        node, tag = nodes[position], tags.get(position)
        kind = stateful[position].kind if position in stateful else kind_of(node)
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
        planned.append(
            PlannedOperator(
                ordinal=operator.ordinal,
                kind=operator.kind,
                key=keys[position],
                identity=identities[keys[position]].under(hasher),
                partitions=operator.partitions,
                stores=operator.stores,
                files=operator.files,
                name=graph.by_key[keys[position]].name,
                meaning=operator.meaning,
            )
        )
    planned.sort(key=lambda operator: operator.ordinal)
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


def _sources(
    relations: Sequence[Relation],
    nodes: Sequence[LogicalNode],
    stateful: Mapping[int, PhysicalOperator],
    keys: Mapping[int, int],
    identities: Mapping[int, NodeIdentity],
    hasher: HasherVersion,
) -> tuple[PlannedSource, ...]:
    """The sources with their nodes, and what stateful operators are downstream of them.

    Raises Incompatible for a source that Spark would open, but no operator would read.
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
                feeds.update([stateful[above].ordinal] if above in stateful else [])
                above = parents.get(above)
        # A table expression that nothing uses: its source may be known from elsewhere.
        shown = next(iter(places[relation.entry]), of_directory.get(relation.directory))
        if shown is None:
            raise Incompatible(
                f"nothing uses a table expression of the query that reads {relation.signature}, "
                "but Spark would keep its position",
                hint="remove it from the WITH clause",
            )
        sources.append(
            PlannedSource(
                entry=relation.entry,
                directory=relation.directory,
                key=keys[shown],
                identity=identities[keys[shown]].under(hasher),
                signature=relation.signature,
                feeds=tuple(sorted(feeds)),
            )
        )
    return tuple(sources)


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
