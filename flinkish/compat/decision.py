"""Decide about a restore by its verdict: continue, continue with a warning, or refuse. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from flinkish.compat.lookup import Judgement, UseVerdict
from flinkish.compat.model import FRAMEWORKS, CompatVerdict, Limitation, Precondition, Rewrite
from flinkish.errors import Incompatible

_NAMES = dict(zip(FRAMEWORKS, ("Spark", "Flink"), strict=True))


class Exit(str, Enum):
    """The decision about a restore."""

    FINE = "fine"  # the restore continues; a message is only a note
    WARNED = "warned"
    REFUSED = "refused"


@dataclass(frozen=True)
class VersionDecision:
    """The decision about two versions; ``message`` is empty if there is nothing to report."""

    verdict: CompatVerdict
    exit: Exit
    message: str = ""
    hint: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    def error(self) -> Incompatible | None:
        """Return the error to raise when the restore is refused, else None."""
        if self.exit is not Exit.REFUSED:
            return None
        return Incompatible(self.message, hint=self.hint, **self.facts)


def rewrites_of(judgement: Judgement) -> frozenset[Rewrite] | None:
    """Return the rewrites that the state needs before it can be resumed.

    None means that rewriting is not possible or not enough.
    """
    if judgement.verdict is not CompatVerdict.NEEDS_MIGRATION:
        return None if judgement.verdict is CompatVerdict.FAILS else frozenset()
    rewrites = [
        limitation.rewrite
        for one in judgement.uses
        if one.verdict is judgement.verdict
        for limitation in _deciding_limitations(one)
    ]
    return None if None in rewrites else frozenset(each for each in rewrites if each is not None)


def check_versions(judgement: Judgement, *, unmet: Sequence[Precondition] = ()) -> VersionDecision:
    """Decide about a restore by the table's verdict and the preconditions that do not hold."""
    verdict = judgement.verdict
    name = _NAMES[judgement.framework]
    pair = f"a savepoint of {name} {judgement.created} with {name} {judgement.resumed}"
    facts = {
        "from": str(judgement.created),
        "to": str(judgement.resumed),
        "verdict": verdict.value,
        "limitations": [limitation.id for limitation in judgement.limitations],
    }
    if unmet:
        message = f"cannot resume {pair}: " + _joined([one.text for one in unmet])
        hint = _joined([one.advice for one in unmet])
        facts["preconditions"] = [one.id for one in unmet]
        return VersionDecision(CompatVerdict.FAILS, Exit.REFUSED, message, hint, facts)
    deciding = [one for one in judgement.uses if one.verdict is verdict]
    if rewrites_of(judgement) is None:
        why = "; ".join(_reason(one) for one in deciding)
        rewritten = verdict is CompatVerdict.NEEDS_MIGRATION
        cannot = "cannot resume" if not rewritten else "cannot resume without rewriting its state"
        message = f"{cannot} {pair}: {why}"
        return VersionDecision(verdict, Exit.REFUSED, message, _way_out(deciding), facts)
    texts, hints, decision = [], [], Exit.FINE
    if verdict is CompatVerdict.NEEDS_MIGRATION:
        texts.append(
            f"the state is rewritten to resume {pair}: " + "; ".join(map(_reason, deciding))
        )
    unknown = [one for one in judgement.uses if one.verdict is CompatVerdict.UNKNOWN]
    if unknown:
        decision = Exit.WARNED
        what = ", ".join(dict.fromkeys(str(one.use) for one in unknown))
        texts.append(
            f"it has not been measured whether {name} {judgement.resumed} can resume a savepoint "
            f"of {name} {judgement.created} ({what})"
        )
        hints.append(
            f"keep the savepoint; see flinkish compat {judgement.created} {judgement.resumed}"
        )
    limited = [one for one in judgement.uses if one.verdict is CompatVerdict.OK_WITH_LIMITATIONS]
    if limited:
        limits = [limit.text for one in limited for limit in one.limitations]
        texts.append(f"resuming {pair} has limitations: " + _joined(limits))
        hints.append(_way_out(limited))
    return VersionDecision(verdict, decision, "; ".join(texts), _joined(hints), facts)


def _deciding_limitations(one: UseVerdict) -> list[Limitation]:
    """Return the limitations of the cells that have the same verdict as the use."""
    names = {n for cell in one.cells if cell.verdict is one.verdict for n in cell.limitations}
    return [limitation for limitation in one.limitations if limitation.id in names]


def _reason(one: UseVerdict) -> str:
    return f"{one.use}: " + _joined([limit.text for limit in _deciding_limitations(one)])


def _way_out(deciding: Sequence[UseVerdict]) -> str:
    return _joined([limit.advice for one in deciding for limit in _deciding_limitations(one)])


def _joined(texts: Sequence[str]) -> str:
    """Return the texts as one line, each once, without their full stops."""
    return "; ".join(dict.fromkeys(text.rstrip(".") for text in texts))
