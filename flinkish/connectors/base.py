"""The interface of a connector: one format that queries read and write. Pure.

:class:`Connector` itself is for formats whose offsets flinkish leaves to Spark. Other modules and
folders of this package derive connectors for the formats whose offsets flinkish understands;
:mod:`.registry` lists the connectors. The driver asks brokers, tables and directories
(``flinkish.driver.connectors``), and passes on their answer as a
:class:`~flinkish.connectors.sources.SourceAnswer`.

This answer, or ``--set-offsets``, completes the row of a source in the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from flinkish.connectors.offsets import NewOffsets, Target, Unresolved, other_offsets
from flinkish.connectors.source_plan import SourcePlan, SourceVerdict, change_of
from flinkish.connectors.sources import (
    Consent,
    Finding,
    NewSource,
    SavedSource,
    SourceAnswer,
    gravest_first,
    kind_of,
    reset_flag,
)
from flinkish.messages.plan import Check, RestoreOutcome
from flinkish.messages.restore_options import RestoreOptions

#: The verdict on a row that a finding stops, by the outcome of the finding.
_VERDICTS: Mapping[RestoreOutcome, SourceVerdict] = {
    RestoreOutcome.CONSENT: "consent-needed",
    RestoreOutcome.REFUSED: "incompatible",
}
#: The outcomes of findings that lose no rows.
_LIGHT = (RestoreOutcome.OK, RestoreOutcome.NOTE)
NO_OFFSETS = Unresolved(
    "set-offsets-new",
    "has no saved offsets that could be changed",
    "omit --set-offsets for it: it starts where the program says",
)
#: For a source of a plain checkpoint, which may have several sources.
UNKNOWN_OFFSETS = Unresolved(
    "source-unknown",
    "cannot be moved: the checkpoint does not say which of its offsets are those of this source",
    "omit --set-offsets for it; or run it with flinkish from the checkpoint, and move it when it "
    "is restored from a savepoint of that job",
)


def with_answer(
    row: SourcePlan, answer: SourceAnswer | None, agreed: RestoreOptions, at: str | None = None
) -> SourcePlan:
    """Return the row of a source with the findings about its saved position.

    If ``at`` is given, the findings are about that position instead. A row that blocks, or that has
    no saved position or no answer, stays as it is.
    """
    source, saved = row.new, row.saved
    if source is None or saved is None or row.blocks or answer is None:
        return row
    if row.verdict == "reset":
        notes = answer.judge_reset(saved.offset)
        return replace(row, checks=_checks(notes, f"{source.describe()} starts from scratch"))
    consent = Consent(reset_flag(source), agreed.accept_lost_rows)
    position = saved.offset if at is None else at
    findings = list(gravest_first(answer.judge(position, consent)))
    lost = [each.rows for each in findings if each.outcome not in _LIGHT]  # agreed to or not
    if answer.counts_losses(position) and None not in lost:
        row = replace(row, lost_rows=sum(rows or 0 for rows in lost))
    if findings and findings[0].outcome in _VERDICTS:
        worst = findings.pop(0)
        begins = change_of(source, saved) if row.verdict == "changed" else source.describe()
        row = replace(
            row,
            verdict=_VERDICTS[worst.outcome],
            reason=worst.reason,
            text=f"{begins}: {worst.text}",
            advice=worst.advice,
        )
    return replace(row, checks=_checks(findings, source.describe()))


def _checks(findings: Iterable[Finding], begins: str) -> tuple[Check, ...]:
    return tuple(
        Check(each.reason, each.outcome, f"{begins}: {each.text}", each.advice) for each in findings
    )


def with_offsets(
    row: SourcePlan, target: Target, offsets: NewOffsets | Unresolved, agreed: RestoreOptions
) -> SourcePlan:
    """Return the row of a source that ``--set-offsets`` moves, or that it cannot move.

    A row that blocks stays as it is.
    """
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
        lost_rows=_lost(row, offsets),
        repeated_rows=offsets.repeated if offsets.known else None,
        set_to=offsets.offset,
        moves=offsets.moves,
    )


def _lost(row: SourcePlan, offsets: NewOffsets) -> int | None:
    """Return what a move skips, and what is lost at the new offsets; None if one is unknown."""
    if not offsets.known or row.lost_rows is None:
        return None
    return offsets.skipped + row.lost_rows - offsets.unnoticed


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


@dataclass(frozen=True)
class Connector:
    """One format.

    Attributes
    ----------
    name
        As in ``DataStreamReader.format``, in lower case; ``file`` for all of Spark's file formats.
    label
        Its name for people.
    options
        The options of a source that matter for a restore; a name that ends with a dot stands for
        all options that begin with it.
    recorded
        Those of ``options`` that a savepoint records.
    packages
        Parts of class names that also identify the format.
    answers_offline
        Whether its sources are looked at even with ``--offline``.
    in_catalogs
        Whether ``load`` and ``start`` take the name of a table in a catalog, not only a path.
    keeps_versions
        Whether a sink is a table that records its queries and can be rolled back to a version.
    repeats_batches
        Whether a sink writes a repeated batch a second time (at-least-once).
    keeps_log
        Whether a sink may be Spark's file sink, with a log of its batches.
    """

    name: str
    label: str = ""
    options: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    answers_offline: bool = False
    in_catalogs: bool = False
    keeps_versions: bool = False
    repeats_batches: bool = False
    keeps_log: bool = True

    def owns(self, offset: str) -> bool:
        """Return whether an offset has this format's form, regardless of the source's name."""
        return False

    def is_read_again(self, options: Mapping[str, str]) -> bool:
        """Return whether a query in a new checkpoint reads the input of an earlier run again."""
        return True

    def changed(self, source: NewSource, saved: SavedSource) -> SourcePlan:
        """Return the row of a source that reads something else now."""
        return SourcePlan(
            source,
            saved,
            "changed",
            "input-changed",
            f"{change_of(source, saved)}: it resumes there from the old position {saved.offset}",
            "make sure that this position has the same meaning there, or start it from scratch and "
            f"keep the state: {reset_flag(source)}",
        )

    def unasked(self, source: NewSource, saved: SavedSource, why: str = "") -> SourceAnswer | None:
        """Return what is known of a position without asking a system; None if nothing is.

        ``why`` is the reason for not asking.
        """
        return None

    def offsets(
        self, source: NewSource, saved: SavedSource, target: Target, answer: SourceAnswer | None
    ) -> NewOffsets | Unresolved:
        """Return the offsets to which a source is moved, or why it cannot be moved."""
        return other_offsets(target, saved.offset, kind_of(source.signature))

    def judge(
        self,
        row: SourcePlan,
        answer: SourceAnswer | None,
        target: Target | None,
        agreed: RestoreOptions,
    ) -> SourcePlan:
        """Return the row of a source with the findings about its position.

        If ``target`` is given, the source is moved, and the findings are about its new position. A
        row that blocks is not moved, and a source without a saved position cannot be.
        """
        source, saved = row.new, row.saved
        if source is None or target is None or (row.blocks and saved is not None):
            return with_answer(row, answer, agreed)
        if saved is None:
            return not_set(row)
        offsets = self.offsets(source, saved, target, answer)
        if isinstance(offsets, NewOffsets):  # they are judged like saved offsets
            row = with_answer(row, answer, agreed, at=offsets.offset)
        return with_offsets(row, target, offsets, agreed)

    def judge_unpaired(
        self, row: SourcePlan, answer: SourceAnswer | None, agreed: RestoreOptions
    ) -> SourcePlan:
        """Return the row of a source that no saved position is matched with.

        The source may still have one: a plain checkpoint does not say what its positions belong to.
        """
        return row

    def judge_fork(
        self, row: SourcePlan, saved: Sequence[SavedSource] | None, agreed: RestoreOptions
    ) -> SourcePlan:
        """Return the row of a source of a fork, which may take input from its job.

        ``saved`` are the sources of the job; None if not all are known.
        """
        return row

    def replayed(self, spark: str) -> Finding | None:
        """Return a finding if the version ``spark`` may fail after replaying a planned batch."""
        return None
