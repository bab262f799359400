"""What a source meets that continues from a saved position, whatever it reads. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flinkish.messages.plan import RestoreOutcome

#: The user's agreement that rows are skipped.
ACCEPT_LOST_ROWS = "--accept-lost-rows"
#: The way back to a plan for which no broker and no table is asked.
OFFLINE = "--offline"


@dataclass(frozen=True)
class Finding:
    """One thing that a restore of the position meets, with a stable ``reason``.

    ``text`` is what follows the name of the source in a sentence. ``rows`` is what it costs, in
    rows that are never read; None when nothing, or not known.
    """

    reason: str
    outcome: RestoreOutcome
    text: str
    advice: str = ""
    rows: int | None = None


@dataclass(frozen=True)
class Consent:
    """What the user can agree to, and has.

    ``reset`` is the option that lets this source start afresh; ``lost_rows`` is whether rows may be
    skipped (:data:`ACCEPT_LOST_ROWS`).
    """

    reset: str
    lost_rows: bool = False


class SourceAnswer:
    """What is there of what a source is to read, as its broker, table or directory has it."""

    def judge(self, offset: str, consent: Consent) -> Iterable[Finding]:
        """Return what the source meets when it continues from a position."""
        return ()

    def judge_reset(self, offset: str) -> Iterable[Finding]:
        """Return what the source reads twice or never when it leaves a position behind."""
        return ()


def gravest_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings in the order in which they matter."""
    return tuple(sorted(findings, key=lambda each: _GRAVEST.index(each.outcome)))


_GRAVEST = tuple(reversed(RestoreOutcome))
