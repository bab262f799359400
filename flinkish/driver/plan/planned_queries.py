"""Planned queries in the words of the other rooms: for restores, savepoints and status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flinkish.driver.plan.plan_extraction import PlannedQuery, PlannedSource
from flinkish.driver.plan.restore_environment import qualified
from flinkish.driver.plan.writer_settings import WriterFacts, why_not_savepointable
from flinkish.registry.jobs import OperatorStatus
from flinkish.restore.recipe import EmptyState
from flinkish.restore.source.restore_inputs import NewOperator, NewQuery, NewSink, NewSource
from flinkish.savepoint.format.contents import OperatorFacts


def new_query(
    name: str,
    planned: PlannedQuery | None,
    facts: WriterFacts,
    session: Any,
    settings: Mapping[str, str],
) -> NewQuery:
    """What a starting query asks a savepoint for.

    Parameters
    ----------
    planned: None when it cannot be planned.
    facts: what the program has told its writer.
    settings: the session's values of the settings that the savepoint pins.
    """
    problem = why_not_savepointable(facts)
    sink = NewSink(
        format=facts.format,
        path=qualified(facts.path or facts.options.get("path"), session),
        table=facts.table,
        output_mode=facts.output_mode,
        problem=None if problem is None else (problem.message, problem.hint),
    )
    if planned is None:
        return NewQuery(name, None, None, sink, settings)
    identities = planned.identities
    return NewQuery(
        name,
        operators=tuple(
            NewOperator(
                ordinal=op.ordinal,
                kind=op.kind,
                name=op.name,
                lookup_ids=identities[op.key].lookup_ids(planned.hasher),
                generated_id=identities[op.key].generated_v3,
                uid=op.uid,
                partitions=op.partitions,
                stores=op.stores,
                meaning=op.meaning,
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
            )
            for source in planned.sources
        ),
        sink=sink,
        settings=settings,
    )


def _inputs(planned: PlannedQuery, source: PlannedSource) -> tuple[tuple[int, int], ...]:
    """Through which inputs a source reaches stateful operators that have several (joins)."""
    found = []
    for op in planned.operators:
        inputs = planned.graph.by_key[op.key].in_edges
        if len(inputs) > 1:
            found += [
                (op.ordinal, number)
                for number, key in enumerate(inputs)
                if source.key in _upstream(planned, key)
            ]
    return tuple(found)


def _upstream(planned: PlannedQuery, key: int) -> set[int]:
    """An operator and all that flows into it."""
    found: set[int] = set()
    stack = [key]
    while stack:
        current = stack.pop()
        if current not in found:
            found.add(current)
            stack += planned.graph.by_key[current].in_edges
    return found


def empty_states(planned: PlannedQuery) -> dict[int, EmptyState]:
    """For every stateful operator, by ordinal: how it would start without state."""
    return {
        op.ordinal: EmptyState(
            partitions=op.partitions,
            stores=_store_names([store.name for store in op.stores]),
            files=op.files or None,
        )
        for op in planned.operators
    }


def _store_names(names: list[str]) -> tuple[str, ...]:
    """Stores of one partition; families of one store (transformWithState) are no stores.

    Only Spark 3.5 needs it: on 4.x an empty state's stores are taken from its metadata file.
    """
    joins = [name for name in names if name.startswith(("left-key", "right-key"))]
    return tuple(dict.fromkeys(joins)) or ("default",)


def operator_facts(
    planned: PlannedQuery | None, reported: tuple[OperatorStatus, ...]
) -> tuple[OperatorFacts, ...]:
    """The operators for a savepoint: who they are, and the rows Spark has reported."""
    if planned is None:
        return tuple(
            OperatorFacts(ordinal=op.ordinal, kind=op.kind, rows=op.rows) for op in reported
        )
    rows = {op.ordinal: op.rows for op in reported}
    return tuple(
        OperatorFacts(
            ordinal=op.ordinal,
            kind=op.kind,
            identity=op.identity,
            rows=rows.get(op.ordinal),
            meaning=op.meaning,
        )
        for op in planned.operators
    )


def lasting_operators(
    planned: PlannedQuery | None, reported: tuple[OperatorStatus, ...]
) -> tuple[dict[str, Any], ...]:
    """What of :func:`operator_facts` does not change while the query runs, as plain data."""
    return tuple(facts.to_json() for facts in operator_facts(planned, reported))


def source_records(planned: PlannedQuery | None, descriptions: list[str]) -> list[dict[str, Any]]:
    """The sources for a savepoint, one for each line of the offset log.

    ``descriptions`` are Spark's, from the query's progress: all there is without a plan.
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
            }
        )
    return records


def operator_status(
    planned: PlannedQuery | None, reported: tuple[OperatorStatus, ...]
) -> tuple[OperatorStatus, ...]:
    """The operators for ``status``: those planned, with the rows Spark has reported."""
    if planned is None or not planned.operators:
        return reported
    rows = {op.ordinal: op.rows for op in reported}
    return tuple(
        OperatorStatus(
            ordinal=op.ordinal,
            kind=op.kind,
            uid=op.uid,
            operator_id=op.operator_id,
            rows=rows.get(op.ordinal),
        )
        for op in planned.operators
    )
