"""A source's row of the plan, completed by a broker's answer or by ``--set-offsets``. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from flinkish.connectors.findings import Consent, Finding, SourceAnswer, gravest_first
from flinkish.connectors.offsets import NewOffsets, Target, Unresolved
from flinkish.connectors.source_plan import SourcePlan, SourceVerdict, change_of
from flinkish.connectors.sources import reset_flag
from flinkish.messages.plan import Check, RestoreOutcome
from flinkish.messages.restore_options import RestoreOptions

#: The verdict of a row that a finding stops.
_VERDICTS: Mapping[RestoreOutcome, SourceVerdict] = {
    RestoreOutcome.CONSENT: "consent-needed",
    RestoreOutcome.REFUSED: "incompatible",
}
NO_OFFSETS = Unresolved(
    "set-offsets-new",
    "has no saved offsets that could be changed",
    "omit --set-offsets for it: it starts where the program says (startingOffsets)",
)


def with_answer(
    row: SourcePlan, answer: SourceAnswer | None, agreed: RestoreOptions, at: str | None = None
) -> SourcePlan:
    """Return the row of a source with the findings about its position (or the position ``at``)."""
    source, saved = row.new, row.saved
    if source is None or saved is None or row.blocks or answer is None:
        return row
    if row.verdict == "reset":
        notes = answer.judge_reset(saved.offset)
        return replace(row, checks=_checks(notes, f"{source.describe()} starts from scratch"))
    consent = Consent(reset_flag(source), agreed.accept_lost_rows)
    findings = list(gravest_first(answer.judge(saved.offset if at is None else at, consent)))
    if findings and findings[0].outcome in _VERDICTS:
        worst = findings.pop(0)
        begins = change_of(source, saved) if row.verdict == "changed" else source.describe()
        row = replace(
            row,
            verdict=_VERDICTS[worst.outcome],
            reason=worst.reason,
            text=f"{begins}: {worst.text}",
            advice=worst.advice,
            lost_rows=worst.rows,
        )
    return replace(row, checks=_checks(findings, source.describe()))


def _checks(findings: Iterable[Finding], begins: str) -> tuple[Check, ...]:
    return tuple(
        Check(each.reason, each.outcome, f"{begins}: {each.text}", each.advice) for each in findings
    )


def with_offsets(
    row: SourcePlan, target: Target, offsets: NewOffsets | Unresolved, agreed: RestoreOptions
) -> SourcePlan:
    """Return the row of a source that gets other offsets, if they can be had."""
    source, saved = row.new, row.saved
    if row.blocks or source is None or saved is None:
        return row
    if isinstance(offsets, Unresolved):
        return not_set(row, offsets)
    missing = offsets.missing_consents(
        saved.offset, lost=agreed.accept_lost_rows, repeated=agreed.accept_repeated_rows
    )
    begins = f"{change_of(source, saved)}, and" if row.verdict == "changed" else source.describe()
    return replace(
        row,
        verdict="consent-needed" if missing else "set",
        reason="set-offsets",
        text=f"{begins} is set to {target.describe()}: {offsets.cost()}",
        advice=f"accept it: {' '.join(missing)}" if missing else "",
        lost_rows=offsets.skipped if offsets.known else None,
        repeated_rows=offsets.repeated if offsets.known else None,
        set_to=offsets.offset,
        moves=offsets.moves,
    )


def not_set(row: SourcePlan, why: Unresolved = NO_OFFSETS) -> SourcePlan:
    """Return the row of a source that cannot get other offsets."""
    name = "" if row.new is None else row.new.describe()
    return replace(
        row,
        verdict="incompatible",
        reason=why.reason,
        text=f"{name} {why.text}",
        advice=why.advice,
    )
