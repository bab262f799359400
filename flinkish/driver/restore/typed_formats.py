"""The typed states of a query that continues from a restored checkpoint, or from its own.

What the planner has decided about them (:mod:`flinkish.restore.plan.typed_state`) has two effects
in the driver: the next savepoint keeps the snapshots of all serializers that have written values,
and the query's tasks get the formats by local properties of the thread that starts it
(:mod:`flinkish.state.declared`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from flinkish.driver.plan.plan_extraction import PlannedOperator, PlannedQuery
from flinkish.operators.identity import PlannedNode
from flinkish.operators.state_semantics import StateSemantics
from flinkish.restore.plan.query_restore import QueryRestore
from flinkish.restore.plan.typed_state import (
    TypedStateRules,
    resolve_serializer,
    restored_meaning,
)
from flinkish.state.declared import formats_to_text
from flinkish.state.generations import ResolvedState
from flinkish.state.snapshots import StatePlace

#: How each typed state continues, by the ordinal of its operator and the name of its column.
TypedStates = Mapping[int, Mapping[str, ResolvedState]]


def typed_states_of(restore: QueryRestore) -> TypedStates:
    """Return what a restore plan says about the typed states."""
    judged = restore.plan.operators if restore.plan is not None else ()
    return {each.operator.node.ordinal: each.typed for each in judged or () if each.typed}


def resolve_in_place(
    planned: PlannedQuery, known: Mapping[int, StateSemantics], modules: tuple[str, ...]
) -> TypedStates:
    """Decide how a query continues with typed states in the checkpoint that it has.

    Nothing can be rewritten in that checkpoint, so changed serializers migrate lazily.

    Parameters
    ----------
    known
        The meaning of the state in the checkpoint, by ordinal.
    modules
        The modules whose classes a snapshot may name.

    Raises
    ------
    Incompatible
        The program cannot continue with a state, or a newer program wrote a snapshot.
    Corrupt
        The snapshot of a serializer is damaged.
    """
    rules = TypedStateRules(is_eager=False, modules=modules)
    return {
        op.node.ordinal: _resolved(op, known[op.node.ordinal], rules)
        for op in planned.operators
        if op.typed is not None and op.node.ordinal in known
    }


def _resolved(
    op: PlannedOperator, meaning: StateSemantics, rules: TypedStateRules
) -> dict[str, ResolvedState]:
    assert op.typed is not None
    operator = op.uid or op.name
    return {
        name: resolve_serializer(
            name, meaning.serializers[name], serializer, StatePlace(name, operator), rules
        )
        for name, serializer in op.typed.serializers.items()
        if name in meaning.serializers
    }


def with_restored(planned: PlannedQuery, states: TypedStates) -> PlannedQuery:
    """Return the query with the snapshots that its next savepoint keeps."""

    def restored(node: PlannedNode) -> PlannedNode:
        meaning = restored_meaning(node.meaning, states.get(node.ordinal, {}))
        return replace(node, meaning=meaning)

    operators = tuple(replace(op, node=restored(op.node)) for op in planned.operators)
    return replace(planned, operators=operators)


def task_properties(planned: PlannedQuery, states: TypedStates) -> dict[str, str]:
    """Return the local properties that the query's tasks need.

    An operator has none if only the program's own serializers wrote its values.
    """
    properties = {}
    for op in planned.operators:
        if op.typed is None:
            continue
        own = op.typed.serializers
        formats = {
            name: each.format
            for name, each in states.get(op.node.ordinal, {}).items()
            if each.format.writer is not own[name] or len(each.format.readers) > 1
        }
        if formats:
            properties[op.typed.property_name] = formats_to_text(formats)
    return properties


@contextmanager
def local_properties(session: Any, properties: Mapping[str, str]) -> Iterator[None]:
    """Set local properties of this thread; a query that is started inside the block keeps them."""
    context = session.sparkContext
    for name, value in properties.items():
        context.setLocalProperty(name, value)
    try:
        yield
    finally:
        for name in properties:
            context.setLocalProperty(name, None)
