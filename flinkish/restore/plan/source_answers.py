"""What brokers and tables answer of the position of a source, and other offsets for it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from flinkish.connectors.base import Consent, Finding, gravest_first
from flinkish.connectors.files.positions import judge_files
from flinkish.connectors.kafka.identity import made_again, parse_identities, unknown
from flinkish.connectors.kafka.positions import judge, reset_cost, rows_waiting
from flinkish.connectors.kafka.reading import (
    BrokerAnswer,
    KafkaReading,
    Position,
    Topics,
    parse_position,
    reading_of,
)
from flinkish.connectors.offsets import (
    MOVED,
    NewOffsets,
    Target,
    Unresolved,
    kafka_offsets,
    other_offsets,
)
from flinkish.connectors.source_plan import BrokerFacts, SourcePlan, SourceVerdict, change_of
from flinkish.connectors.sources import NewSource, SavedSource, kind_of, reset_flag
from flinkish.messages.plan import Check, RestoreOutcome


def answered(row: SourcePlan, facts: BrokerFacts) -> SourcePlan:
    """Return a row with what the broker says, and with other offsets where they are asked for."""
    source, saved = row.new, row.saved
    target = None if source is None else facts.targets.get(source.entry)
    files = None if source is None else facts.files.get(source.entry)
    if files is not None and (target is None or target.how == MOVED):
        return judge_files(row, files, target, facts)
    if source is None or target is None or (row.blocks and saved is not None):
        return _with_answer(row, facts)
    if saved is None:
        return without_offsets(source, None)
    if kind_of(source.signature) != "kafka":
        found = other_offsets(target, saved.offset, kind_of(source.signature))
        return _moved(row, source, saved, target, found, facts)
    position = parse_position(saved.offset)
    if position is None:
        return without_offsets(source, saved)
    reading = reading_of(source.signature, source.options)
    answer = facts.answers.get(source.entry, BrokerAnswer())
    found = kafka_offsets(target, reading, position, answer)
    if isinstance(found, NewOffsets):
        # From there on it is judged as from a saved position.
        there = replace(row, saved=replace(saved, offset=found.offset))
        row = replace(_with_answer(there, facts), saved=saved)
    return _moved(row, source, saved, target, found, facts)


def without_offsets(source: NewSource, saved: SavedSource | None) -> SourcePlan:
    return SourcePlan(
        source,
        saved,
        "incompatible",
        "set-offsets-new",
        f"{source.describe()} has no saved offsets that could be changed",
        "omit --set-offsets for it: it starts where the program says (startingOffsets)",
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
        saved.offset,
        lost=facts.options.accept_lost_rows,
        repeated=facts.options.accept_repeated_rows,
    )
    begins = f"{change_of(source, saved)}, and" if row.verdict == "changed" else source.describe()
    return replace(
        row,
        verdict="consent-needed" if missing else "set",
        reason="set-offsets",
        text=f"{begins} is set to {target.describe()}: {found.cost()}",
        advice=f"accept it: {' '.join(missing)}" if missing else "",
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
            text = f"{source.describe()} starts from scratch: {cost}"
            note = Check("table-reset", RestoreOutcome.NOTE, text)
            return replace(row, checks=(note,)) if cost else row
        consent = Consent(reset_flag(source), facts.options.accept_lost_rows)
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
        begins = change_of(source, saved) if row.verdict == "changed" else source.describe()
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
    known = parse_identities(saved.topics)
    again = made_again(known, answer.identities)
    if row.verdict == "reset":
        starting = starting_offsets(source)
        cost = reset_cost(reading, position, answer.topics, starting, again)
        if cost:
            text = f"{source.describe()} starts from scratch: {cost}"
            checks.append(Check("kafka-reset", RestoreOutcome.NOTE, text))
        return replace(row, checks=tuple(checks))
    consent = Consent(reset_flag(source), facts.options.accept_lost_rows)
    row, found = _with_findings(
        row, source, saved, judge(reading, position, answer, consent, again)
    )
    checks += found
    checks += _unknown_topics(source, unknown(known, answer.identities))
    if answer.topics is not None:
        checks += _lag(source, reading, position, answer.topics)
    return replace(row, checks=tuple(checks))


def _broker_notes(source: NewSource, answer: BrokerAnswer) -> list[Check]:
    if answer.topics is not None or not answer.why:
        return []
    text = f"{source.describe()}: broker not asked: {answer.why}"
    return [Check("broker-not-asked", RestoreOutcome.NOTE, text)]


def _unknown_topics(source: NewSource, topics: Sequence[str]) -> list[Check]:
    if not topics:
        return []
    text = (
        f"{source.describe()}: whether topic {', '.join(topics)} was recreated is "
        "unknown: its broker gives it no id (before Kafka 2.8), and its first rows have "
        "changed"
    )
    return [Check("topic-unknown", RestoreOutcome.NOTE, text)]


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
        text = f"{source.describe()}: unread rows: {each}"
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
