"""The verdicts of a restore plan as the planner needs them.

The types themselves are parts of the plan (:mod:`flinkish.spec.plan`).
"""

from __future__ import annotations

from collections.abc import Iterable

from flinkish.spec.plan import Check as Check
from flinkish.spec.plan import RestoreOutcome as RestoreOutcome
from flinkish.spec.plan import StateChange as StateChange
from flinkish.spec.plan import Verdict as Verdict

#: Verdicts that the state-migration engine carries out.
FOR_THE_ENGINE = frozenset({Verdict.MIGRATE, Verdict.RESCALE})


def worst_first(changes: Iterable[StateChange]) -> tuple[StateChange, ...]:
    """Return the changes with the most severe verdicts first, else in their order."""
    order = list(Verdict)
    return tuple(sorted(changes, key=lambda change: -order.index(change.verdict)))
