"""The record of a query in a savepoint, made from its checkpoint and its driver's facts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace

from flinkish.checkpoint.cut import CommittedBatch, Cut
from flinkish.errors import Corrupt
from flinkish.messages.queries import QueryFacts, QueryStatus
from flinkish.operators.identity import OperatorFacts
from flinkish.savepoint.format.contents import (
    OperatorRecord,
    QueryRecord,
    QuerySource,
)


def query_source(query: QueryStatus, facts: QueryFacts | None) -> QuerySource:
    """Return a job's query as its driver would pass it to the writer, from the registry's facts.

    The row counts are missing. ``facts`` is None if the driver ended before it recorded them; then
    sources, sink and operators are missing, too.
    """
    if facts is None:
        return QuerySource(query.name, query.checkpoint_dir, run_id=query.run_id)
    return QuerySource(
        name=query.name,
        checkpoint=query.checkpoint_dir,
        run_id=facts.run_id,
        source=[dict(source) for source in facts.sources],
        sink=dict(facts.sink),
        operators=tuple(OperatorFacts.from_json(record) for record in facts.operators),
    )


def rewritten_source(
    query: QueryRecord, checkpoint: str, facts: Iterable[OperatorFacts]
) -> QuerySource:
    """Return the source for saving a savepoint's query again, from a checkpoint of rewritten state.

    ``facts`` are those of the query's operators, in the order of the operators.
    """
    return QuerySource(
        name=query.name,
        checkpoint=checkpoint,
        run_id=query.run_id,
        source=query.source,
        sink=query.sink,
        operators=tuple(facts),
        batch_id=query.batch_id,
        rows_batch=query.batch_id,
        origin=query.checkpoint,
    )


def check_operators(query: QuerySource, cut: Cut) -> None:
    """Check that the cut has the state of every stateful operator that the driver runs.

    Raises Corrupt when the state of one is missing.
    """
    ordinals = {operator.ordinal for operator in cut.operators}
    lost = sorted(facts.ordinal for facts in query.operators if facts.ordinal not in ordinals)
    if lost:
        raise Corrupt(
            f"query {query.name}: the checkpoint {cut.root} has no state of operator {lost[0]} "
            f"at batch {cut.batch_id}",
            hint="the checkpoint directory has been changed by hand or by another program",
        )


def query_record(
    query: QuerySource, directory: str, cut: Cut, files: int, size: int
) -> QueryRecord:
    """Return the record of a query, from its cut and from facts that the cut does not contain.

    ``directory`` is the query's directory inside its savepoint; ``size`` is the bytes of its files.
    """
    facts = {fact.ordinal: fact for fact in query.operators}
    # Counts of an older or a newer batch do not belong to this cut.
    counted = query.rows_batch is None or query.rows_batch == cut.batch_id
    operators = []
    for state in cut.operators:
        fact = facts.get(state.ordinal, OperatorFacts(state.ordinal))
        kind = state.kind or fact.kind
        fact = replace(fact, kind=kind, rows=fact.rows if counted else None)
        operators.append(OperatorRecord(replace(state, kind=kind), fact))
    batch = {each.name: getattr(cut, each.name) for each in fields(CommittedBatch)}
    return QueryRecord(
        **batch,
        name=query.name,
        directory=directory,
        run_id=query.run_id,
        source=query.source,
        sink=query.sink if query.sink_at is None else query.sink_at(cut.query_id, cut.batch_id),
        checkpoint=query.origin or cut.root,
        operators=tuple(operators),
        files=files,
        bytes=size,
    )
