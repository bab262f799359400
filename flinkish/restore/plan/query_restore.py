"""The settings of a restore plan, and the plan for one query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flinkish.connectors.source_plan import SourcePlan
from flinkish.errors import FlinkishError
from flinkish.messages.plan import Check, PinRow, RestoreOutcome, StateVerdict
from flinkish.messages.restore_options import SINK_MODES
from flinkish.operators.hasher import HasherVersion
from flinkish.restore.plan.decisions import QueryPlan
from flinkish.restore.plan.history import HistoryPlan
from flinkish.restore.plan.query_id import QueryIdentity
from flinkish.restore.plan.sinks import SinkPlan
from flinkish.restore.plan.state_migration import StateRewrite
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
        Whether values of typed state are written again when the program touches them, not during
        the restore.
    spark
        The version of the Spark that restores; empty when it does not matter.
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
        ``format``, ``path`` and ``table`` of its sink, as far as the program says.
    history
        How its history batches go on; None if it is not restored.
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
