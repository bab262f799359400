"""Findings about a source that resumes from a saved position; the same for all formats. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flinkish.messages.plan import RestoreOutcome

#: The option by which the user agrees that rows are skipped.
ACCEPT_LOST_ROWS = "--accept-lost-rows"
#: The option of a plan for which no broker and no table is asked.
OFFLINE = "--offline"


@dataclass(frozen=True)
class Finding:
    """One fact that matters for the source's restore, with a stable id, ``reason``.

    ``text`` continues a sentence that begins with the name of the source. ``rows`` is the number of
    rows that are never read because of it; None for none, or if unknown.
    """

    reason: str
    outcome: RestoreOutcome
    text: str
    advice: str = ""
    rows: int | None = None


@dataclass(frozen=True)
class Consent:
    """The consents that a source may need.

    ``reset`` is the option with which this source starts from scratch; ``lost_rows`` says whether
    the user has agreed that rows are skipped (:data:`ACCEPT_LOST_ROWS`).
    """

    reset: str
    lost_rows: bool = False


class SourceAnswer:
    """The answer of a source's broker, table or directory: what is still there to be read."""

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
