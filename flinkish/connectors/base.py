"""What a source meets that continues from a saved position, whatever it reads. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from flinkish.messages.plan import RestoreOutcome

#: The user's agreement that rows are skipped.
ACCEPT_LOST_ROWS = "--accept-lost-rows"


@dataclass(frozen=True)
class Finding:
    """One thing that a restore of the position meets, with a stable ``reason``.

    Attributes
    ----------
    text
        What follows the name of the source in a sentence.
    rows
        What it costs, in rows that are never read; None when nothing, or not known.
    """

    reason: str
    outcome: RestoreOutcome
    text: str
    advice: str = ""
    rows: int | None = None


@dataclass(frozen=True)
class Consent:
    """What the user can agree to, and has.

    Attributes
    ----------
    reset
        The option that lets this source start afresh.
    lost_rows
        Whether rows may be skipped (:data:`ACCEPT_LOST_ROWS`).
    """

    reset: str
    lost_rows: bool = False


class SourceAnswer(Protocol):
    """What is there of what a source is to read, as its format answered."""

    def judge(self, offset: str, consent: Consent) -> Iterable[Finding]:
        """Return what the source meets when it continues from a saved position."""

    def reset_cost(self) -> str:
        """Return what it reads twice or never when it starts afresh; empty if not known."""


def gravest_first(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings in the order in which they matter."""
    return tuple(sorted(found, key=lambda each: _GRAVEST.index(each.outcome)))


_GRAVEST = tuple(reversed(RestoreOutcome))
