"""The verdict for each source of a restore, one row for each, for people and for decisions. Pure.

:mod:`.positions` decides which saved position a source takes. This module judges the match: whether
the source still reads what the position was taken in, and whether Spark can continue from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from flinkish.restore.plan.kafka_positions import judge, reset_cost, rows_waiting
from flinkish.restore.plan.kafka_reading import (
    BrokerAnswer,
    KafkaReading,
    Position,
    Topics,
    parse_position,
    reading_of,
)
from flinkish.restore.plan.new_offsets import (
    Move,
    NewOffsets,
    Target,
    Unresolved,
    kafka_offsets,
    other_offsets,
)
from flinkish.restore.plan.positions import SourceMatches, reset_flag
from flinkish.restore.plan.source_findings import Consent, Finding, SourceAnswer, gravest_first
from flinkish.restore.plan.verdicts import Check, RestoreOutcome
from flinkish.restore.source.restore_inputs import (
    NewQuery,
    NewSource,
    QueryKey,
    SavedQueryFacts,
    SavedSource,
)

SourceVerdict = Literal[
    "as-is",
    "moved",
    "new",
    "reset",
    "set",
    "dropped",
    "changed",
    "consent-needed",
    "incompatible",
]

#: Sources whose data is only in the memory of the driver that read it. Spark's
#: ``TextSocketMicroBatchStream`` and ``MemoryStream`` slice a buffer that is empty in a new driver
#: and counted from 0: input up to the saved offset is silently skipped. Spark's other sources can
#: replay: files and Kafka are still there, ``rate`` and ``rate-micro-batch`` compute their rows
#: from the offsets.
NOT_REPLAYABLE = frozenset({"socket", "memory"})


@dataclass(frozen=True)
class SourcePlan:
    """The verdict for one source of the program, or for a saved one that the program does not read.

    Attributes
    ----------
    new
        None for a saved source that the program does not read.
    verdict
        ``consent-needed`` must not be executed without consent, ``incompatible`` not at all;
        ``changed`` needs a warning; ``dropped`` is counted by ``non_restored_state``.
    reason
        An id for programs.
    text, advice
        A sentence, and what the user can do, if anything.
    lost_rows
        How many rows at most are never read, where that is the matter and known.
    checks
        What else there is to say of it.
    repeated_rows
        How many rows at most are read again, where that is the matter and known.
    set_to
        The position that replaces the saved one (``--set-offsets``).
    moves
        What becomes of the partitions of Kafka then.
    """

    new: NewSource | None
    saved: SavedSource | None
    verdict: SourceVerdict
    reason: str
    text: str
    advice: str = ""
    lost_rows: int | None = None
    checks: tuple[Check, ...] = ()
    repeated_rows: int | None = None
    set_to: str | None = None
    moves: tuple[Move, ...] = ()

    @property
    def blocks(self) -> bool:
        """Whether the restore must not continue, or not without the user's consent."""
        return self.verdict in ("consent-needed", "incompatible")


@dataclass(frozen=True)
class BrokerFacts:
    """What is known of Kafka brokers and of tables that are read, and agreed to.

    Attributes
    ----------
    answers
        Those of brokers, by the entry of the source.
    accept_lost_rows
        Whether the user agrees that rows are skipped.
    targets
        Where sources are moved to (``--set-offsets``), by their entry.
    accept_repeated_rows
        Whether the user agrees that rows are read again.
    tables
        The answers of tables, by the entry of the source.
    """

    answers: Mapping[int, BrokerAnswer] = field(default_factory=dict)
    accept_lost_rows: bool = False
    targets: Mapping[int, Target] = field(default_factory=dict)
    accept_repeated_rows: bool = False
    tables: Mapping[int, SourceAnswer] = field(default_factory=dict)


#: Nothing is known of any broker.
NO_FACTS = BrokerFacts()


def source_plans(
    new: NewQuery,
    own: SavedQueryFacts | None,
    matches: SourceMatches,
    facts: BrokerFacts = NO_FACTS,
) -> tuple[SourcePlan, ...]:
    """Return a row for each source of ``new``, in its order, then for those of ``own`` left behind.

    Parameters
    ----------
    own
        The saved query that continues as ``new``, or None.
    matches
        The decisions of :func:`~flinkish.restore.plan.positions.match_sources`.
    """
    sources = new.sources or ()
    paired = matches.matched
    if paired is None:
        known = own is None or own.sources is not None
        return tuple(
            _unmoved(source, None)
            if source.entry in facts.targets
            else _unpaired(source, own, known)
            for source in sources
        )
    key = None if own is None else own.key
    rows = [
        _judged(_row(source, old, key, reset=source.entry in matches.reset), facts)
        for source, old in zip(sources, paired, strict=True)
    ]
    used = {(old.query, old.entry) for old in paired if old is not None}
    left = own.sources if own is not None else ()
    rows += [_dropped(s) for s in left or () if (s.query, s.entry) not in used]
    return tuple(rows)


def _unpaired(source: NewSource, own: SavedQueryFacts | None, known: bool) -> SourcePlan:
    """Return the row of an unmatched source: its query starts empty, or its sources are unknown."""
    if own is None or known:
        return _fresh(source)
    if kind_of(source.signature) in NOT_REPLAYABLE:
        return _not_replayable(source, None)
    text = f"{source.describe()}: what was read is not known, Spark pairs sources in their order"
    return SourcePlan(source, None, "as-is", "source-unknown", text)


def _fresh(source: NewSource) -> SourcePlan:
    return SourcePlan(source, None, "new", "new-source", f"{source.describe()} starts afresh")


def _dropped(saved: SavedSource) -> SourcePlan:
    return SourcePlan(
        None,
        saved,
        "dropped",
        "dropped-source",
        f"{saved.describe()} is taken by no source of this query",
        "read it again, or drop its position with -n (--allowNonRestoredState)",
    )


def _not_replayable(source: NewSource, saved: SavedSource | None) -> SourcePlan:
    return SourcePlan(
        source,
        saved,
        "consent-needed",
        "source-not-replayable",
        f"{source.describe()} cannot be read again from a position: Spark would skip input until "
        "it has counted up to the saved one",
        f"start it afresh and keep the state: {reset_flag(source)}",
    )


def _row(source: NewSource, saved: SavedSource | None, key: QueryKey, *, reset: bool) -> SourcePlan:
    if saved is None:
        return _fresh(source)
    if reset:
        text = f"{source.describe()} starts afresh, state is kept; given up: {saved.offset}"
        return SourcePlan(source, saved, "reset", "reset-source", text)
    now, before = kind_of(source.signature), kind_of(saved.signature)
    if saved.signature is not None and now != before:
        return SourcePlan(
            source,
            saved,
            "consent-needed",
            "source-kind",
            f"{source.describe()} reads {source.signature}, and read {saved.signature}: a position "
            f"of {before} means nothing to {now}",
            f"start it afresh and keep the state: {reset_flag(source)}",
        )
    if now in NOT_REPLAYABLE:
        return _not_replayable(source, saved)
    if saved.signature is not None and saved.signature != source.signature:
        return _other_input(source, saved, now)
    place = saved.query, saved.entry, saved.directory
    if place != (key, source.entry, source.directory):
        where = "" if saved.query in {key, None} else f" of query '{saved.query}'"
        text = f"{source.describe()} goes on from line {saved.entry} of the offset log{where}"
        return SourcePlan(source, saved, "moved", "moved-source", text)
    return SourcePlan(source, saved, "as-is", "same-source", f"{source.describe()} goes on")


def _other_input(source: NewSource, saved: SavedSource, kind: str) -> SourcePlan:
    """Return the row of a source of the same kind that reads something else now."""
    change = _change(source, saved)
    advice = f"or start it afresh and keep the state: {reset_flag(source)}"
    if kind == "file":
        return SourcePlan(
            source,
            saved,
            "changed",
            "path-changed",
            f"{change}: files are known by their paths, so every file there is new and will be "
            "read, copies of files that were read already too",
            f"make sure that only new files are there {advice}",
        )
    if kind == "kafka":
        return SourcePlan(
            source,
            saved,
            "changed",
            "topics-changed",
            f"{change}: topics that are new are read from their beginning",
        )
    return SourcePlan(
        source,
        saved,
        "changed",
        "input-changed",
        f"{change}: it goes on from the old position {saved.offset} in it",
        f"make sure that this position means the same there, {advice}",
    )


def _change(source: NewSource, saved: SavedSource) -> str:
    return f"{source.describe()} reads {source.signature}, and read {saved.signature}"


def kind_of(signature: str | None) -> str:
    """Return ``kafka`` of ``kafka[subscribe=a]``; empty when not known."""
    return (signature or "").partition("[")[0].removesuffix("Source").lower()


def _judged(row: SourcePlan, facts: BrokerFacts) -> SourcePlan:
    """Return a row with what the broker says, and with other offsets where they are asked for."""
    source, saved = row.new, row.saved
    target = None if source is None else facts.targets.get(source.entry)
    if source is None or target is None or (row.blocks and saved is not None):
        return _with_answer(row, facts)
    if saved is None:
        return _unmoved(source, None)
    if kind_of(source.signature) != "kafka":
        found = other_offsets(target, saved.offset, kind_of(source.signature))
        return _moved(row, source, saved, target, found, facts)
    position = parse_position(saved.offset)
    if position is None:
        return _unmoved(source, saved)
    reading = reading_of(source.signature, source.options)
    answer = facts.answers.get(source.entry, BrokerAnswer())
    found = kafka_offsets(target, reading, position, answer)
    if isinstance(found, NewOffsets):
        # From there on it is judged as from a saved position.
        there = replace(row, saved=replace(saved, offset=found.offset))
        row = replace(_with_answer(there, facts), saved=saved)
    return _moved(row, source, saved, target, found, facts)


def _unmoved(source: NewSource, saved: SavedSource | None) -> SourcePlan:
    return SourcePlan(
        source,
        saved,
        "incompatible",
        "set-offsets-new",
        f"{source.describe()} has no saved offsets that could be set to others",
        "leave out --set-offsets for it: it starts where the program says (startingOffsets)",
    )


def _moved(
    row: SourcePlan,
    source: NewSource,
    saved: SavedSource,
    target: Target,
    found: NewOffsets | Unresolved,
    facts: BrokerFacts,
) -> SourcePlan:
    """Return the row of a source that gets other offsets."""
    if row.blocks:
        return row
    if isinstance(found, Unresolved):
        text = f"{source.describe()} {found.text}"
        return replace(
            row, verdict="incompatible", reason=found.reason, text=text, advice=found.advice
        )
    missing = found.missing_consents(
        saved.offset, lost=facts.accept_lost_rows, repeated=facts.accept_repeated_rows
    )
    begins = f"{_change(source, saved)}, and " if row.verdict == "changed" else source.describe()
    return replace(
        row,
        verdict="consent-needed" if missing else "set",
        reason="set-offsets",
        text=f"{begins} is set to {target.describe()}: {found.cost()}",
        advice=f"agree: {' '.join(missing)}" if missing else "",
        lost_rows=found.skipped if found.known else None,
        repeated_rows=found.repeated if found.known else None,
        set_to=found.offset,
        moves=found.moves,
    )


#: The verdict of a row that a finding stops.
_VERDICTS: Mapping[RestoreOutcome, SourceVerdict] = {
    RestoreOutcome.CONSENT: "consent-needed",
    RestoreOutcome.REFUSED: "incompatible",
}


def _with_answer(row: SourcePlan, facts: BrokerFacts) -> SourcePlan:
    """Return the row of a source with what its position meets, where somebody was asked."""
    source, saved = row.new, row.saved
    if source is None or saved is None or row.blocks:
        return row
    answer = facts.tables.get(source.entry)
    if answer is not None:
        if row.verdict == "reset":
            cost = answer.reset_cost()
            text = f"{source.describe()} starts afresh: {cost}"
            note = Check("table-reset", RestoreOutcome.NOTE, text)
            return replace(row, checks=(note,)) if cost else row
        consent = Consent(reset_flag(source), facts.accept_lost_rows)
        row, checks = _with_findings(row, source, saved, answer.judge(saved.offset, consent))
        return replace(row, checks=tuple(checks))
    if kind_of(source.signature) != "kafka":
        return row
    return _with_broker(row, source, saved, facts)


def _with_findings(
    row: SourcePlan, source: NewSource, saved: SavedSource, findings: Iterable[Finding]
) -> tuple[SourcePlan, list[Check]]:
    """Return the row with what the source meets.

    The gravest finding is the row's own, where it stops the restore; the others are checks.
    """
    found = list(gravest_first(findings))
    if found and found[0].outcome in _VERDICTS:
        worst = found.pop(0)
        begins = _change(source, saved) if row.verdict == "changed" else source.describe()
        row = replace(
            row,
            verdict=_VERDICTS[worst.outcome],
            reason=worst.reason,
            text=f"{begins}: {worst.text}",
            advice=worst.advice,
            lost_rows=worst.rows,
        )
    return row, [
        Check(each.reason, each.outcome, f"{source.describe()}: {each.text}", each.advice)
        for each in found
    ]


def _with_broker(
    row: SourcePlan, source: NewSource, saved: SavedSource, facts: BrokerFacts
) -> SourcePlan:
    """Return the row of a Kafka source with what its position meets."""
    position = parse_position(saved.offset)
    if position is None:
        return row
    reading = reading_of(source.signature, source.options)
    answer = facts.answers.get(source.entry, BrokerAnswer())
    checks = _broker_notes(source, answer)
    if row.verdict == "reset":
        starting = starting_offsets(source)
        cost = reset_cost(reading, position, answer.topics or {}, starting)
        if cost and answer.topics is not None:
            text = f"{source.describe()} starts afresh: {cost}"
            checks.append(Check("kafka-reset", RestoreOutcome.NOTE, text))
        return replace(row, checks=tuple(checks))
    consent = Consent(reset_flag(source), facts.accept_lost_rows)
    row, found = _with_findings(row, source, saved, judge(reading, position, answer, consent))
    checks += found
    if answer.topics is not None:
        checks += _lag(source, reading, position, answer.topics)
    return replace(row, checks=tuple(checks))


def _broker_notes(source: NewSource, answer: BrokerAnswer) -> list[Check]:
    if answer.topics is not None or not answer.why:
        return []
    text = f"{source.describe()}: broker not asked: {answer.why}"
    return [Check("broker-not-asked", RestoreOutcome.NOTE, text)]


def _lag(
    source: NewSource, reading: KafkaReading, position: Position, topics: Topics
) -> Iterator[Check]:
    """Yield a note on the rows that wait in the partitions that the source reads."""
    read = {
        topic: {n: has for n, has in partitions.items() if reading.reads(topic, n)}
        for topic, partitions in topics.items()
    }
    waiting = {topic: rows for topic, rows in rows_waiting(position, read).items() if rows}
    if waiting:
        each = ", ".join(f"{rows:,} in topic {topic}" for topic, rows in waiting.items())
        text = f"{source.describe()}: rows that wait for it: {each}"
        yield Check("kafka-lag", RestoreOutcome.NOTE, text)


def starting_offsets(source: NewSource) -> str:
    """Return where a Kafka source starts without a position; empty when that is not known."""
    given = {name.lower(): value for name, value in source.options.items()}
    if not given:
        return ""
    for name in ("startingtimestamp", "startingoffsetsbytimestamp"):
        if name in given:
            return name
    return given.get("startingoffsets", "latest")
