"""The settings of a restore plan, the plan for one query, and the engine's part of it. Pure.

The engine works on a whole checkpoint: the one that ``make_checkpoint`` writes for the recipe, with
its operators under their new ordinals, and with empty state for new operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from flinkish.connectors.source_plan import SourcePlan
from flinkish.errors import FlinkishError, Incompatible
from flinkish.messages.plan import Check, PinRow, RestoreOutcome, StateVerdict
from flinkish.messages.restore_options import SINK_MODES
from flinkish.operators.hasher import HasherVersion
from flinkish.restore.origin.spark_compat import SparkFit
from flinkish.restore.plan.decisions import QueryPlan
from flinkish.restore.plan.history import HistoryPlan
from flinkish.restore.plan.judging import WITHOUT_ENGINE, is_rescaled
from flinkish.restore.plan.pins import asked_provider, formats_for
from flinkish.restore.plan.query_id import QueryIdentity
from flinkish.restore.plan.sinks import SinkPlan
from flinkish.restore.plan.state_evolution import StoreEvolution, unchanged_rows
from flinkish.restore.recipe import Recipe


@dataclass(frozen=True)
class PlanningSettings:
    """What a plan depends on besides the user's options: the program's settings, and the driver.

    Attributes
    ----------
    parallelism
        The number of state partitions, None for the savepoint's.
    executors
        The verdicts that the state-migration engine can carry out.
    migrates_lazily
        Whether typed values are rewritten when the program updates them, not during the restore.
    spark
        The version of the Spark that restores; empty if it does not matter.
    """

    parallelism: int | None = None
    hasher: HasherVersion = HasherVersion.V3
    executors: frozenset[StateVerdict] = frozenset()
    migrates_lazily: bool = False
    spark: str = ""


@dataclass(frozen=True)
class QueryRestore:
    """The plan for one starting query.

    Attributes
    ----------
    recipe
        The recipe of its checkpoint. None if none is made: the query starts empty, or
        ``refusal`` says why it is not restored.
    rewrite
        The engine's work on the checkpoint that the recipe makes.
    writes
        ``format``, ``path`` and ``table`` of its sink, as far as the program gives them.
    history
        How its history batches continue; None if it starts empty, or is refused before that.
    """

    name: str
    plan: QueryPlan | None = None
    identity: QueryIdentity | None = None
    recipe: Recipe | None = None
    rewrite: StateRewrite | None = None
    sources: tuple[SourcePlan, ...] = ()
    sink: SinkPlan | None = None
    pins: tuple[PinRow, ...] = ()
    checks: tuple[Check, ...] = ()
    refusal: FlinkishError | None = None
    writes: Mapping[str, str | None] = field(default_factory=dict)
    history: HistoryPlan | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the user: what happens, and what needs attention."""
        notes = list(self.plan.notes) if self.plan is not None else []
        for row in self.sources:
            if row.verdict in ("changed", "set"):
                notes.append(f"query '{self.name}': {row.text}")
        noted = (*SINK_MODES, "unreadable")
        if self.sink is not None and self.sink.verdict in noted:
            notes.append(f"query '{self.name}': {self.sink.text}")
        notes += [f"query '{self.name}': {pin.text}" for pin in self.pins]
        grave = (RestoreOutcome.WARNING, RestoreOutcome.NOTE)
        notes += [check.text for check in self.checks if check.outcome in grave]
        return tuple(notes)


@dataclass(frozen=True)
class StateRewrite:
    """The rewrite of a restored query's state.

    Attributes
    ----------
    partitions
        The new number of state partitions; None for the present number.
    evolutions
        How rows change, by the new ordinal and by the name of the store or the column family.
    """

    partitions: int | None = None
    evolutions: Mapping[int, Mapping[str, StoreEvolution]] = field(default_factory=dict)
    #: The rewrite for the Spark that will run.
    fit: SparkFit = field(default_factory=SparkFit)
    #: Whether the state is canonical, and is written for a backend.
    canonical: bool = False
    #: The class of that backend's provider; None for the one that the offset log pins.
    provider: str | None = None


def rewrite_of(
    plan: QueryPlan,
    partitions: int | None,
    *,
    fit: SparkFit | None = None,
    canonical: bool = False,
    settings: Mapping[str, str] | None = None,
) -> StateRewrite | None:
    """Return the rewrite that a plan needs; None when it needs none.

    ``partitions`` is the requested number of state partitions, None for the savepoint's. ``fit`` is
    the rewrite for the Spark that will run. ``settings`` are the session's values of the pinned
    settings; they determine the backend of ``canonical`` state.
    """
    plans = plan.operators or ()
    evolved = {
        each.operator.node.ordinal: each.evolution
        for each in plans
        if each.verdict is StateVerdict.MIGRATE and each.evolution
    }
    rescaled = partitions if has_rescaled(plan, partitions) else None
    chosen = fit or SparkFit()
    fitted = chosen.checkpoint_format is not None
    fitted = fitted or any(saved.rewritten for saved in (plan.base.operators if plan.base else ()))
    fitted = fitted or any(each.taken.rewritten for each in plans if each.taken)
    if not evolved and rescaled is None and not canonical and not fitted:
        return None
    pins = plan.base.pins if plan.base is not None else {}
    provider = asked_provider(pins, settings or {}) if canonical else None
    chosen = replace(chosen, formats={**formats_for(provider, pins), **chosen.formats})
    # The engine reads existing schemas, so it also writes those that Spark would renew.
    anew = {
        each.operator.node.ordinal: unchanged_rows(each.operator.node.stores)
        for each in plans
        if each.new_schema
    }
    return StateRewrite(rescaled, {**anew, **evolved}, chosen, canonical, provider)


def has_rescaled(plan: QueryPlan, partitions: int | None) -> bool:
    """Return whether a plan takes state that must be rescaled to have ``partitions`` partitions."""
    taken = [each.taken for each in plan.operators or () if each.taken is not None]
    return partitions is not None and any(is_rescaled(each, partitions) for each in taken)


def cannot_rewrite(
    rewrite: StateRewrite, recipe: Recipe, settings: PlanningSettings
) -> Incompatible | None:
    """Return why no state can be rewritten during the restore, regardless of operators, or None."""
    if not rewrite.canonical:
        text = f"the state must be rewritten for this Spark, but {WITHOUT_ENGINE}"
        return None if settings.executors else Incompatible(text, reasons=["no-engine"])
    hint = "convert it to a native one first: flinkish migrate PATH TARGET --type native"
    if not settings.executors:
        return Incompatible(
            "the savepoint is canonical, but the driver's Python lacks the requirements "
            "for writing its state (pip install 'flinkish[engine]')",
            hint=hint,
            reasons=["canonical"],
        )
    if any(origin.batch_id != recipe.batch_id for origin in recipe.origins):
        return Incompatible(
            "the savepoint is canonical: its state cannot be moved to another batch (of "
            "another query, or of a sink that is ahead)",
            hint=hint,
            reasons=["canonical"],
        )
    return None
