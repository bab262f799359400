"""The words of a restore plan: what happens to each state, and why. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Verdict(str, Enum):
    """What happens to an operator's state, in the order of how much stands in the way."""

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

    ``store`` is the state store (or the variable) it was found in, ``reason`` a stable id, ``text``
    says which input or output made the difference, ``advice`` what to do.
    """

    store: str
    verdict: Verdict
    reason: str
    text: str
    advice: str = ""


class RestoreOutcome(str, Enum):
    """What a check of a restore has come to, the least grave first."""

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    CONSENT = "consent-needed"
    REFUSED = "incompatible"


@dataclass(frozen=True)
class Check:
    """One precondition: a stable ``id``, what it came to, and what to do about it."""

    id: str
    outcome: RestoreOutcome
    text: str
    advice: str = ""

    def to_json(self) -> dict[str, str]:
        """Plain data, for ``flinkish check --json``."""
        return {
            "id": self.id,
            "outcome": self.outcome.value,
            "text": self.text,
            "advice": self.advice,
        }
