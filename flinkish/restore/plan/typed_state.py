"""Typed state in a restore: the program's serializers against the saved ones. Pure.

A savepoint keeps a snapshot of every serializer that wrote values of a state
(:class:`~flinkish.operators.state_semantics.StateSemantics`). Here each is resolved against the
serializer that the program declares, as Flink does it (``StateSerializerProvider``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flinkish.checkpoint.format.names import DEFAULT_STORE
from flinkish.errors import Incompatible
from flinkish.messages.plan import StateChange, StateVerdict
from flinkish.operators.state_semantics import StateSemantics
from flinkish.restore.origin.restore_inputs import NewOperator, SavedOperator
from flinkish.restore.plan.state_evolution import StoreEvolution
from flinkish.state.builtin.splicing import Rewriter
from flinkish.state.declared import MAP_KEY, from_text, to_text, typed_columns
from flinkish.state.generations import ResolvedState, resolve_state
from flinkish.state.serializers import TypeSerializer
from flinkish.state.serializers import Verdict as TypeVerdict
from flinkish.state.snapshots import DEFAULT_MODULES, ModuleLoader, StatePlace

#: The reason of a rewrite that state.migration=lazy avoids.
MIGRATED = "typed-state-migrated"


@dataclass(frozen=True)
class TypedStateRules:
    """The settings for the restore of typed state.

    Attributes
    ----------
    is_eager
        Whether the restore rewrites values that the program's serializer would write differently
        (``state.migration``); if not, each is rewritten when the program updates it.
    modules
        The modules whose classes a snapshot may name (``engine.snapshot-modules``).
    """

    is_eager: bool = True
    modules: tuple[str, ...] = DEFAULT_MODULES


@dataclass(frozen=True)
class TypedStates:
    """The decisions on the typed states of one operator.

    Attributes
    ----------
    changes
        What the user should know, or why a state cannot be restored.
    resolved
        The states that can be restored, by the name of their column.
    """

    changes: tuple[StateChange, ...] = ()
    resolved: Mapping[str, ResolvedState] = field(default_factory=dict)


def resolve_typed_states(
    operator: NewOperator, taken: SavedOperator, rules: TypedStateRules
) -> TypedStates:
    """Resolve the typed states of a saved operator with the serializers of the program's operator.

    Raises Corrupt, which names state, operator and class, if a serializer's snapshot is damaged.
    """
    saved = taken.facts.meaning.serializers if taken.facts.meaning is not None else {}
    there = {
        name
        for store in taken.state.stores
        for name, _ in typed_columns(operator.node.kind, store.name, store.value_schema)
    }
    changes: list[StateChange] = []
    resolved: dict[str, ResolvedState] = {}
    for name, serializer in operator.serializers.items():
        if name not in saved:
            if name in there:
                changes.append(_without_snapshot(name))
            continue
        place = StatePlace(name.removesuffix(MAP_KEY), operator.uid or operator.name)
        try:
            state = resolve_serializer(name, saved[name], serializer, place, rules)
        except Incompatible as error:
            changes.append(_refused(name, error))
            continue
        resolved[name] = state
        changes += _told(name, state, serializer)
    return TypedStates(tuple(changes), resolved)


def resolve_serializer(
    name: str,
    snapshots: Sequence[str],
    serializer: TypeSerializer[Any],
    place: StatePlace,
    rules: TypedStateRules,
) -> ResolvedState:
    """Resolve one saved state with the program's serializer.

    ``name`` is that of its column; if it ends with :data:`~flinkish.state.declared.MAP_KEY`, the
    column has the keys of a map, which Spark looks up by their bytes. ``snapshots`` are the
    savepoint's in base64, one for each generation. Raises Incompatible if the program cannot
    continue with the state or a newer program wrote a snapshot, and Corrupt for a damaged snapshot.
    """
    loader = ModuleLoader(place, rules.modules)
    stored = [from_text(each) for each in snapshots]
    state = resolve_state(stored, serializer, loader, eager=rules.is_eager)
    if name.endswith(MAP_KEY) and state.verdict is not TypeVerdict.AS_IS:
        raise Incompatible(
            f"{place} cannot be restored: the keys of the map would be written "
            f"differently ({serializer.type_name} now), and Spark finds its entries by "
            "their bytes",
            hint="restore the type of the keys, or declare the map under another name",
            place=str(place),
        )
    return state


def _told(
    name: str, resolved: ResolvedState, serializer: TypeSerializer[Any]
) -> Iterator[StateChange]:
    if resolved.rewriting is not None:
        yield StateChange(
            name,
            StateVerdict.MIGRATE,
            MIGRATED,
            f"the values of state `{name}` are rewritten by its new serializer "
            f"({serializer.type_name})",
            "keep the type as it was, or let the program rewrite the values when it "
            "updates them (-D state.migration=lazy)",
        )
    elif resolved.is_mixed:
        yield StateChange(
            name,
            StateVerdict.AS_IS,
            "typed-state-lazy",
            f"a value of state `{name}` is written by its new serializer "
            f"({serializer.type_name}) when the program updates it; savepoints keep the snapshots "
            f"of {len(resolved.snapshots)} serializers until a restore with state.migration=eager",
        )
    elif resolved.verdict is TypeVerdict.RECONFIGURED:
        yield StateChange(
            name,
            StateVerdict.AS_IS,
            "typed-state-reconfigured",
            f"state `{name}` continues with a reconfigured serializer ({serializer.type_name})",
        )


def _refused(name: str, error: Incompatible) -> StateChange:
    return StateChange(
        name, StateVerdict.INCOMPATIBLE, "typed-state-incompatible", error.message, error.hint or ""
    )


def _without_snapshot(name: str) -> StateChange:
    return StateChange(
        name,
        StateVerdict.INCOMPATIBLE,
        "typed-state-unknown",
        f"the savepoint has a state `{name}` without a serializer snapshot, so the "
        "meaning of its bytes is unknown",
        "declare the state under another name",
    )


def with_recodes(
    evolution: Mapping[str, StoreEvolution],
    operator: NewOperator,
    resolved: Mapping[str, ResolvedState],
) -> dict[str, StoreEvolution]:
    """Return the evolution of an operator's stores with the recoding of its typed states.

    ``evolution`` covers the stores whose columns change.
    """
    result = dict(evolution)
    for store in operator.node.stores:
        recodes: dict[tuple[str, ...], Callable[[bytes], bytes]] = {
            path: Rewriter(each.rewriting)
            for name, path in typed_columns(operator.node.kind, store.name, store.value_schema)
            if (each := resolved.get(name)) is not None and each.rewriting is not None
        }
        if recodes:
            name = store.name or DEFAULT_STORE
            planned = result.get(name, StoreEvolution(value=store.value_schema))
            result[name] = replace(planned, recodes=recodes)
    return result


def restored_meaning(
    meaning: StateSemantics, resolved: Mapping[str, ResolvedState]
) -> StateSemantics:
    """Return the meaning of a program's state once its typed states are restored.

    The next savepoint keeps a snapshot for each generation of their values.
    """
    kept = {name: tuple(map(to_text, each.snapshots)) for name, each in resolved.items()}
    return replace(meaning, serializers={**meaning.serializers, **kept})
