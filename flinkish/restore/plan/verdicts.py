"""The verdicts of a restore plan as the planner needs them.

The types themselves are parts of the plan (:mod:`flinkish.messages.plan`).
"""

from __future__ import annotations

from collections.abc import Iterable

from flinkish.messages.plan import StateChange, Verdict

#: Verdicts that the state-migration engine carries out.
FOR_THE_ENGINE = frozenset({Verdict.MIGRATE, Verdict.RESCALE})


def worst_first(changes: Iterable[StateChange]) -> tuple[StateChange, ...]:
    """Return the changes with the most severe verdicts first, else in their order."""
    order = list(Verdict)
    return tuple(sorted(changes, key=lambda change: -order.index(change.verdict)))
