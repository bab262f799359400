"""Conversion of planned queries for restores, savepoints, ``status`` and ``info``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flinkish.connectors.registry import source_connector
from flinkish.connectors.sources import NewSource, normal_path
from flinkish.driver.connectors.sinks import resolve, with_format
from flinkish.driver.plan.plan_extraction import PlannedQuery, PlannedSource
from flinkish.driver.plan.writer_settings import (
    WriterFacts,
    output_of,
    own_location,
    qualified,
    why_not_savepointable,
)
from flinkish.errors import TableError
from flinkish.messages.queries import OperatorStatus
from flinkish.operators.graph import OperatorNode
from flinkish.operators.identity import OperatorFacts
from flinkish.operators.render import dot, tree
from flinkish.restore.origin.restore_inputs import NewOperator, NewQuery, NewSink
from flinkish.restore.recipe import EmptyState
from flinkish.state.declared import DeclaredStates
from flinkish.state.snapshots import class_name


def new_query(
    name: str,
    planned: PlannedQuery | None,
    facts: WriterFacts,
    session: Any,
    settings: Mapping[str, str],
    modules: tuple[str, ...],
) -> NewQuery:
    """Describe a starting query to the planner of its restore.

    ``planned`` is None if the query cannot be planned. ``facts`` are the program's settings of the
    query's writer. ``settings`` are the session's values of the settings that the savepoint pins.
    Snapshots of typed state may name classes of ``modules``.
    """
    sink, own = new_sink(facts, session), own_location(facts, session)
    if planned is None:
        return NewQuery(name, None, None, sink, settings, checkpoint=own, session=session)
    identities = planned.identities
    return NewQuery(
        name,
        operators=tuple(
            NewOperator(
                op.node,
                name=op.name,
                lookup_ids=identities[op.key].lookup_ids(planned.hasher),
                generated_id=identities[op.key].generated_v3,
                uid=op.uid,
                serializers=op.typed.serializers if op.typed is not None else {},
                query=name,
            )
            for op in planned.operators
        ),
        sources=tuple(
            NewSource(
                entry=source.entry,
                directory=source.directory,
                signature=source.signature,
                lookup_ids=identities[source.key].lookup_ids(planned.hasher),
                uid=source.uid,
                feeds=source.feeds,
                inputs=_inputs(planned, source),
                options=source.options,
                query=name,
            )
            for source in planned.sources
        ),
        sink=sink,
        settings=settings,
        modules=modules,
        checkpoint=own,
        session=session,
    )


def new_sink(facts: WriterFacts, session: Any) -> NewSink:
    """Describe the sink of a starting query, with its location from the program or a catalog."""
    problem = why_not_savepointable(facts)
    place, unreadable = with_format(facts.place, session), ""
    try:
        place = resolve(place, session)
    except TableError as error:
        unreadable = error.message
    sink = NewSink(
        format=place.format,
        path=qualified(place.path, session),
        table=place.table,
        output_mode=facts.output_mode,
        problem=None if problem is None else (problem.message, problem.hint),
        unreadable=unreadable,
    )
    output = output_of(sink, session)
    return replace(sink, place=None if output is None else output.place)


def _inputs(planned: PlannedQuery, source: PlannedSource) -> tuple[tuple[int, int], ...]:
    """Return the inputs through which a source reaches operators with several inputs (joins).

    Each is a pair of the operator's ordinal and the number of the input.
    """
    inputs = []
    for op in planned.operators:
        in_edges = planned.graph.by_key[op.key].in_edges
        if len(in_edges) > 1:
            inputs += [
                (op.node.ordinal, number)
                for number, key in enumerate(in_edges)
                if source.key in _upstream(planned, key)
            ]
    return tuple(inputs)


def _upstream(planned: PlannedQuery, key: int) -> set[int]:
    """Return the keys of an operator and of all operators upstream of it."""
    keys: set[int] = set()
    stack = [key]
    while stack:
        current = stack.pop()
        if current not in keys:
            keys.add(current)
            stack += planned.graph.by_key[current].in_edges
    return keys


def empty_states(planned: PlannedQuery) -> dict[int, EmptyState]:
    """Return the initial empty state of every stateful operator, by ordinal."""
    return {
        op.node.ordinal: EmptyState(
            partitions=op.node.partitions,
            stores=_store_names([store.name for store in op.node.stores]),
            files=op.node.files or None,
            is_keyed=any(store.has_grouping_key for store in op.node.stores),
        )
        for op in planned.operators
    }


def _store_names(names: list[str]) -> tuple[str, ...]:
    """Return the stores of one partition; column families (transformWithState) are not stores.

    The result counts only on Spark 3.5: on 4.x an empty state's stores are in its metadata file.
    """
    joins = [name for name in names if name.startswith(("left-key", "right-key"))]
    return tuple(dict.fromkeys(joins)) or ("default",)


def operator_facts(
    planned: PlannedQuery | None, reported: tuple[OperatorStatus, ...]
) -> tuple[OperatorFacts, ...]:
    """Return the operators for a savepoint: identities, and the rows that Spark has reported."""
    if planned is None:
        return tuple(
            OperatorFacts(ordinal=op.ordinal, kind=op.kind, rows=op.rows) for op in reported
        )
    rows = {op.ordinal: op.rows for op in reported}
    return tuple(
        OperatorFacts(
            ordinal=op.node.ordinal,
            kind=op.node.kind,
            identity=op.identity,
            rows=rows.get(op.node.ordinal),
            meaning=op.node.meaning,
        )
        for op in planned.operators
    )


def lasting_operators(
    planned: PlannedQuery | None, reported: tuple[OperatorStatus, ...]
) -> tuple[dict[str, Any], ...]:
    """Return the part of :func:`operator_facts` that stays constant, as plain data."""
    return tuple(facts.to_json() for facts in operator_facts(planned, reported))


def source_records(planned: PlannedQuery | None, descriptions: list[str]) -> list[dict[str, Any]]:
    """Return the sources for a savepoint, one for each line of the offset log.

    ``descriptions`` are those in Spark's progress report of the query. Without a plan nothing else
    is known of the sources.
    """
    if planned is None:
        return [{"description": text} for text in descriptions]
    records: list[dict[str, Any]] = []
    for source in planned.sources:
        fits = len(descriptions) == len(planned.sources)
        records.append(
            {
                "description": descriptions[source.entry] if fits else None,
                "directory": source.directory,
                "uid": source.uid,
                "operator_id_v2": source.operator_id_v2,
                "operator_id_v3": source.operator_id_v3,
                "signature": source.signature,
                "inputs": [list(pair) for pair in _inputs(planned, source)],
                **_lasting(source),
            }
        )
    return records


def _lasting(source: PlannedSource) -> dict[str, Any]:
    """Return those options of a source that a savepoint records for the source's format."""
    recorded = [name.lower() for name in source_connector(source.signature).recorded]
    if not recorded:
        return {}
    lowered = {name.lower(): value for name, value in source.options.items()}
    lasting = {name: lowered[name] for name in recorded if name in lowered}
    if "sourcearchivedir" in lasting:
        lasting["sourcearchivedir"] = normal_path(lasting["sourcearchivedir"])
    return {"options": lasting}


def operator_status(
    planned: PlannedQuery | None, reported: tuple[OperatorStatus, ...]
) -> tuple[OperatorStatus, ...]:
    """Return the operators for ``status``: the plan's, if it has any, with the reported rows.

    Otherwise they are those that Spark reports.
    """
    if planned is None or not planned.operators:
        return reported
    rows = {op.ordinal: op.rows for op in reported}
    return tuple(
        OperatorStatus(
            ordinal=op.node.ordinal,
            kind=op.node.kind,
            uid=op.uid,
            operator_id=op.operator_id,
            rows=rows.get(op.node.ordinal),
        )
        for op in planned.operators
    )


def query_record(name: str, planned: PlannedQuery) -> dict[str, Any]:
    """Return a planned query as plain data: the fields of ``flinkish info --json``, and renderings.

    ``tree``, ``dot`` and ``coverage_message`` are for the command's other outputs.
    """
    coverage = planned.coverage()
    return {
        "name": name,
        "operators": [_operator_record(planned, node) for node in planned.graph],
        "coverage": {"stateful": coverage.stateful, "with_uid": coverage.with_uid},
        "notes": list(planned.notes),
        "tree": list(tree(planned.graph, planned.identities, planned.hasher)),
        "dot": dot(planned.graph, planned.identities, planned.hasher, name),
        "coverage_message": coverage.message(),
    }


def _operator_record(planned: PlannedQuery, node: OperatorNode) -> dict[str, Any]:
    identity = planned.identities[node.key]
    inputs = [planned.identities[key].operator_id(planned.hasher) for key in node.in_edges]
    record: dict[str, Any] = {
        "name": node.name,
        "uid": node.uid,
        "uid_hash": identity.user_hash,
        "operator_id": identity.operator_id(planned.hasher),
        "operator_id_v2": identity.operator_id_v2,
        "operator_id_v3": identity.operator_id_v3,
        "kind": node.kind,
        "stateful": node.stateful,
        "ordinal": None,
        "inputs": inputs,
        "chained": [edge.chainable for edge in node.out_edges],
        "location": node.location,
        "key_schema": None,
        "value_schema": None,
    }
    for operator in planned.operators:
        if operator.key == node.key:
            stores = [
                {"name": s.name, "key_schema": s.key_schema, "value_schema": s.value_schema}
                for s in operator.node.stores
            ]
            state = operator.node
            record.update(ordinal=state.ordinal, partitions=state.partitions, stores=stores)
            if operator.typed is not None:
                record["typed_states"] = _typed_states(operator.typed)
            if stores:  # the schemas of the first store
                record["key_schema"] = stores[0]["key_schema"]
                record["value_schema"] = stores[0]["value_schema"]
    return record


def _typed_states(typed: DeclaredStates) -> list[dict[str, str]]:
    """Return an operator's typed states; the name for the keys of a map ends with ``#key``."""
    return [
        {
            "name": name,
            "type": each.snapshot_configuration().description,
            "serializer": class_name(type(each)),
        }
        for name, each in typed.serializers.items()
    ]
