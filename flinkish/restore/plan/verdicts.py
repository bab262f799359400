"""The verdicts of a restore plan: what happens to each state, and why. Plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Verdict(str, Enum):
    """What happens to an operator's state, from the least to the most severe."""

    AS_IS = "as-is"
    RENUMBERED = "renumbered"  # the same state under another ordinal, or in another query
    NEW = "new"  # starts empty
    DROPPED = "dropped"  # in the savepoint, and no operator takes it
    RESCALE = "rescale"  # the same rows in another number of state partitions
    MIGRATE = "migrate"  # rows have to be rewritten
    INCOMPATIBLE = "incompatible"


#: Verdicts that the state-migration engine carries out.
FOR_THE_ENGINE = frozenset({Verdict.MIGRATE, Verdict.RESCALE})


@dataclass(frozen=True)
class StateChange:
    """One difference between a saved state and that of the new program.

    Attributes
    ----------
    store
        The state store (or the variable) with the difference.
    reason
        A stable id.
    text
        A sentence that names the input or output that makes the difference.
    advice
        What the user can do.
    partial
        Whether keys or rows from before cannot have the full answer, so that the user has to agree.
    """

    store: str
    verdict: Verdict
    reason: str
    text: str
    advice: str = ""
    partial: bool = False


def worst_first(changes: Iterable[StateChange]) -> tuple[StateChange, ...]:
    """Return the changes with the most severe verdicts first, else in their order."""
    order = list(Verdict)
    return tuple(sorted(changes, key=lambda change: -order.index(change.verdict)))


class RestoreOutcome(str, Enum):
    """The outcome of a check of a restore, the least severe first."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    CONSENT = "consent-needed"
    REFUSED = "incompatible"


@dataclass(frozen=True)
class Check:
    """One precondition: a stable ``id``, its outcome, and what the user can do."""

    id: str
    outcome: RestoreOutcome
    text: str
    advice: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain data, for ``flinkish check --json``."""
        return {
            "id": self.id,
            "outcome": self.outcome.value,
            "text": self.text,
            "advice": self.advice,
        }
