"""The verdict for one operator of a starting query. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flinkish.checkpoint.format.pins import PIN_JOIN_FORMAT, pinned
from flinkish.checkpoint.format.schema_files import StoreInfo
from flinkish.errors import ConsentNeeded, Incompatible
from flinkish.messages.plan import StateChange, StateVerdict
from flinkish.restore.origin.restore_inputs import NewOperator, SavedOperator, SavedQueryFacts
from flinkish.restore.plan.changed_settings import SETTINGS_CHANGED, setting_changes
from flinkish.restore.plan.deduplications import (
    Conversion,
    convert_deduplication,
    is_other_deduplication,
)
from flinkish.restore.plan.operator_matching import same_kind
from flinkish.restore.plan.schema_compatibility import (
    BY_MEANING,
    JOIN,
    NULLABILITY_WIDENED,
    compare_states,
)
from flinkish.restore.plan.schema_messages import ACCEPT_PARTIAL, KEEP_OR_DROP
from flinkish.restore.plan.state_columns import means_something
from flinkish.restore.plan.state_evolution import (
    StoreEvolution,
    evolution_by_meaning,
    evolution_by_name,
)
from flinkish.restore.plan.typed_state import (
    MIGRATED,
    TypedStateRules,
    TypedStates,
    resolve_typed_states,
    with_recodes,
)
from flinkish.state.generations import ResolvedState
from flinkish.units import counted

_ALWAYS_NULLABLE = "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled"
#: The reason for a rewrite that only the Spark that will run needs, not a change of the program.
FOR_ANOTHER_SPARK = "spark-version"
#: The reason why state that could be rewritten is not.
WITHOUT_ENGINE = "the driver's Python lacks the requirements (pip install 'flinkish[engine]')"
#: Kinds whose values have fields named by the user, so that the name identifies the content.
#: Values of other kinds (buffers of aggregates) have Spark's names, so two sums are both ``sum``.
_NAMED_BY_USER = ("applyInPandasWithState", "flatMapGroupsWithState", "transformWithState")


@dataclass(frozen=True)
class OperatorJudgement:
    """The verdict for one operator of a starting query.

    Attributes
    ----------
    taken
        The saved operator whose state it gets.
    reason
        A stable id.
    text, advice
        A sentence, and what the user can do.
    changes
        The differences between the two states.
    evolution
        How the rows of each store change; None if that is unknown, or no row has to change.
    typed
        How the program continues with its typed states, by the name of their column.
    """

    operator: NewOperator
    verdict: StateVerdict
    taken: SavedOperator | None = None
    reason: str = ""
    text: str = ""
    advice: str = ""
    changes: tuple[StateChange, ...] = ()
    evolution: Mapping[str, StoreEvolution] | None = None
    typed: Mapping[str, ResolvedState] = field(default_factory=dict)

    def executable(self, executors: Collection[StateVerdict]) -> bool:
        """Return whether an engine that carries out ``executors`` can execute the verdict."""
        if self.verdict is StateVerdict.INCOMPATIBLE:
            return False
        if self.verdict is StateVerdict.MIGRATE:
            is_planned = self.reason == FOR_ANOTHER_SPARK or self.evolution is not None
            return self.verdict in executors and is_planned
        return self.verdict not in FOR_THE_ENGINE or self.verdict in executors

    @property
    def partial(self) -> tuple[str, ...]:
        """What keys or rows from before will lack, so that the user has to agree."""
        return tuple(change.text for change in self.changes if change.partial)

    @property
    def other_kind(self) -> bool:
        """Whether it takes the state of an operator of another kind."""
        return self.taken is not None and not same_kind(self.operator, self.taken)

    @property
    def new_schema(self) -> bool:
        """Whether Spark must write the state's schema anew, while the state itself stays."""
        return self.verdict is not StateVerdict.MIGRATE and any(
            change.reason == NULLABILITY_WIDENED for change in self.changes
        )


def is_rescaled(saved: SavedOperator, partitions: int) -> bool:
    """Return whether state must be rescaled to have ``partitions`` partitions. Pure."""
    state = saved.state
    keyed = state.partitions > 1 or any(store.has_grouping_key for store in state.stores)
    return keyed and state.partitions != partitions


def judge_operator(
    operator: NewOperator,
    taken: SavedOperator | None,
    base: SavedQueryFacts | None,
    partitions: int | None = None,
    rules: TypedStateRules = TypedStateRules(),  # noqa: B008 - frozen
    giver: SavedQueryFacts | None = None,
) -> OperatorJudgement:
    """Return the verdict for the state of ``operator``.

    ``taken`` is the saved operator with which it is matched, ``base`` the saved query whose logs
    continue. ``partitions`` is the requested number of state partitions, None for the present one.
    ``giver`` is the saved query that has ``taken``; None if that is ``base``.
    Raises Corrupt if the snapshot of a serializer of typed state is damaged.
    """
    if taken is None:
        return OperatorJudgement(
            operator, StateVerdict.NEW, None, "no-state", "the savepoint has no state for it"
        )
    if not same_kind(operator, taken) and not is_other_deduplication(operator, taken):
        return OperatorJudgement(
            operator,
            StateVerdict.INCOMPATIBLE,
            taken,
            "other-kind",
            f"{operator.describe()} takes the state of {taken.describe()}, an operator of "
            "another kind",
            "give the new operator another uid, and drop the old one's state with -n",
        )
    typed = resolve_typed_states(operator, taken, rules)
    converted = convert_deduplication(operator, taken, giver or base)
    judged = _judge_taken(operator, taken, base, partitions, typed, converted)
    return replace(judged, typed=typed.resolved)


def _judge_taken(
    operator: NewOperator,
    taken: SavedOperator,
    base: SavedQueryFacts | None,
    partitions: int | None,
    typed: TypedStates,
    converted: Conversion | None,
) -> OperatorJudgement:
    """Return the verdict for an operator whose saved state is of its kind, or can be converted."""
    node, state, meaning = operator.node, taken.state, taken.facts.meaning
    saved, new = (state.stores, node.stores) if converted is None else converted.compared
    compared = compare_states(
        node.kind,
        saved,
        new,
        meaning,
        node.meaning,
        schema_by_version=_schema_by_version(node.kind, base),
        rows_by_time=node.kind == JOIN and _join_format(base) == "4",
        nulls_known=_nulls_known(node.kind, state.stores, base),
    )
    conversions = () if converted is None else (converted.change,)
    settings = setting_changes(meaning, node.meaning)
    changes = worst_first([*typed.changes, *compared, *conversions, *settings])
    worst = changes[0] if changes else None
    if worst is not None and worst.verdict in (StateVerdict.INCOMPATIBLE, StateVerdict.MIGRATE):
        text = "; ".join(c.text for c in changes if c.verdict is worst.verdict)
        evolution = None
        if worst.verdict is StateVerdict.MIGRATE:
            evolution = _evolution(operator, taken)
            if converted is not None and evolution is not None:
                evolution = converted.evolution(evolution)
        if evolution is not None:
            evolution = with_recodes(evolution, operator, typed.resolved)
            text = "; ".join(filter(None, (text, taken.rewritten)))
        return OperatorJudgement(
            operator, worst.verdict, taken, worst.reason, text, worst.advice, changes, evolution
        )
    if taken.rewritten:
        return OperatorJudgement(
            operator,
            StateVerdict.MIGRATE,
            taken,
            FOR_ANOTHER_SPARK,
            taken.rewritten,
            advice="install flinkish[engine] for the driver's Python, or stay on the previous "
            "Spark",
            changes=changes,
        )
    if partitions is not None and is_rescaled(taken, partitions):
        return OperatorJudgement(
            operator,
            StateVerdict.RESCALE,
            taken,
            "partitions-changed",
            f"its state has {counted(state.partitions, 'partition')}, and {partitions} were "
            "asked for",
            f"omit -p, or use -p {state.partitions}",
            changes,
        )
    text = "; ".join(change.text for change in changes)
    asked = next((change.reason for change in changes if change.partial), "")
    if base is not None and taken.query == base.key and state.ordinal == node.ordinal:
        reason = asked or "same-state"
        return OperatorJudgement(operator, StateVerdict.AS_IS, taken, reason, text, "", changes)
    if base is not None and taken.query != base.key:
        reason, how = "other-query", f"taken from query '{taken.query}'"
    else:
        reason, how = "other-ordinal", f"operator {state.ordinal} is now {node.ordinal}"
    text = f"{how}; {text}" if text else how
    reason = asked or reason
    return OperatorJudgement(operator, StateVerdict.RENUMBERED, taken, reason, text, "", changes)


def _evolution(operator: NewOperator, taken: SavedOperator) -> Mapping[str, StoreEvolution] | None:
    """Return how the rows of a state change; None if unknown."""
    if operator.node.kind.startswith(_NAMED_BY_USER):
        saved = {store.name: store for store in taken.state.stores}
        same_keys = all(
            _columns(saved[store.name].key_schema) == _columns(store.key_schema)
            for store in operator.node.stores
            if store.name in saved
        )
        return evolution_by_name(taken.state.stores, operator.node.stores) if same_keys else None
    if (
        taken.regrouped
        or operator.node.kind not in BY_MEANING
        or not means_something(taken.facts.meaning)
    ):
        return None
    return evolution_by_meaning(
        taken.state.stores, operator.node.stores, taken.facts.meaning, operator.node.meaning
    )


def _nulls_known(kind: str, saved: Sequence[StoreInfo], base: SavedQueryFacts | None) -> bool:
    """Return whether the saved schemas say what may be null.

    Spark 4.3 and later mark all columns as nullable, by a setting that is pinned. If the query then
    continues with an older Spark, the schema file stays, but the offset log lacks the setting. So a
    schema in which all is nullable says nothing, unless the user has written the schema.
    """
    if base is not None and base.pins.get(_ALWAYS_NULLABLE) == "true":
        return False
    schemas = [schema for store in saved for schema in (store.key_schema, store.value_schema)]
    return kind.startswith(_NAMED_BY_USER) or any(map(_forbids_nulls, schemas))


def _forbids_nulls(schema: Any) -> bool:
    """Return whether a part of a schema (Spark's JSON) is not nullable."""
    if isinstance(schema, Mapping):
        flags = ("nullable", "containsNull", "valueContainsNull")
        return any(schema.get(flag) is False for flag in flags) or any(
            map(_forbids_nulls, schema.values())
        )
    return isinstance(schema, list) and any(map(_forbids_nulls, schema))


def _schema_by_version(kind: str, base: SavedQueryFacts | None) -> bool:
    """Return whether Spark keeps the state's schemas by version (``StateSchemaV3File``)."""
    return kind.startswith("transformWithState") or (
        kind == JOIN and _join_format(base) not in ("1", "2")
    )


def _join_format(base: SavedQueryFacts | None) -> str | None:
    return pinned(base.pins if base is not None else {}, PIN_JOIN_FORMAT)


def refuse(
    plans: Sequence[OperatorJudgement],
    executors: Collection[StateVerdict] = (),
) -> Incompatible | None:
    """Return the refusal of plans that cannot be executed, or None.

    ``executors`` are the verdicts of :data:`FOR_THE_ENGINE` that can be executed.
    """
    stuck = [plan for plan in plans if not plan.executable(executors)]
    if not stuck:
        return None
    texts = [
        plan.text
        if plan.reason == "other-kind"
        else f"{plan.operator.describe()}: {plan.text}"
        + ("" if plan.verdict is StateVerdict.INCOMPATIBLE else f" ({_needs(plan, executors)})")
        for plan in stuck
    ]
    return Incompatible(
        "; ".join(texts),
        hint=advice_for(stuck[0], executors),
        uid=stuck[0].operator.uid,
        reasons=[plan.reason for plan in stuck],
    )


def ask(
    plans: Sequence[OperatorJudgement], accept_partial: Collection[str]
) -> ConsentNeeded | None:
    """Return the refusal of plans that need consent, or None.

    ``accept_partial`` names the operators whose old keys or rows may have incomplete results.
    """
    asked = [
        plan
        for plan in plans
        if plan.partial and not any(map(plan.operator.answers_to, accept_partial))
    ]
    if not asked:
        return None
    flags = [f"{ACCEPT_PARTIAL} {shlex.quote(_name(plan))}" for plan in asked]
    changes = [change for plan in asked for change in plan.changes if change.partial]
    settings = dict.fromkeys(c.advice for c in changes if c.reason == SETTINGS_CHANGED)
    agree = f"agree with {' '.join(flags)}"
    if len(settings) < len(changes):
        agree += f", or {KEEP_OR_DROP}"
    return ConsentNeeded(
        "; ".join(f"{plan.operator.describe()}: {'; '.join(plan.partial)}" for plan in asked),
        hint="; ".join([*settings, f"or {agree}" if settings else agree]),
        uid=asked[0].operator.uid,
        reasons=[plan.reason for plan in asked],
    )


def _name(plan: OperatorJudgement) -> str:
    return plan.operator.uid or plan.operator.name


def advice_for(
    plan: OperatorJudgement,
    executors: Collection[StateVerdict] = (),
    accept_partial: Collection[str] = (),
) -> str:
    """Return the advice for a verdict; the parameters are those of :func:`refuse` and :func:`ask`.

    Rewriting is advised only where an engine can do it, consent only where it is not yet given.
    """
    if plan.reason == FOR_ANOTHER_SPARK:
        return "" if plan.executable(executors) else plan.advice
    if plan.verdict is StateVerdict.MIGRATE and not plan.executable(executors):
        return plan.advice if plan.reason == MIGRATED else KEEP_OR_DROP
    if plan.partial and plan.verdict is not StateVerdict.INCOMPATIBLE:
        asked = ask([plan], accept_partial)
        return "" if asked is None else asked.hint or ""
    return plan.advice or (KEEP_OR_DROP if plan.verdict is StateVerdict.INCOMPATIBLE else "")


def _needs(plan: OperatorJudgement, executors: Collection[StateVerdict]) -> str:
    what = "rescaled" if plan.verdict is StateVerdict.RESCALE else "rewritten"
    why = WITHOUT_ENGINE
    if plan.verdict in executors:
        why = "the identity of its columns is unknown"
        if plan.taken is not None and plan.taken.regrouped:
            why = "it must be rewritten for this Spark too: first restore the unchanged program"
        elif plan.operator.node.kind in BY_MEANING:
            why += ": a savepoint of the unchanged program, taken with this flinkish, records it"
    return f"the state must be {what}: {why}"


def _columns(schema: Mapping[str, Any] | None) -> list[tuple[str, Any]] | None:
    if schema is None:
        return None
    return [(str(field["name"]).casefold(), field["type"]) for field in schema.get("fields", ())]


#: Verdicts that the state-migration engine carries out.
FOR_THE_ENGINE = frozenset({StateVerdict.MIGRATE, StateVerdict.RESCALE})


def worst_first(changes: Iterable[StateChange]) -> tuple[StateChange, ...]:
    """Return the changes with the most severe verdicts first, else in their order."""
    order = list(StateVerdict)
    return tuple(sorted(changes, key=lambda change: -order.index(change.verdict)))
