"""Findings about a Kafka source that resumes from a saved position. Pure.

The facts used, of Spark 3.5 to 4.3:

* ``KafkaSourceProvider``: ``failOnDataLoss`` is true unless given; ``startingOffsets`` is
  ``latest`` unless given, and applies only to a query without a position.
* ``ConsumerStrategy.assignedTopicPartitions``: a topic of ``subscribe`` or ``assign`` that the
  broker does not have is an error, even with ``failOnDataLoss=false``; a partition of ``assign``
  that a topic does not have is left out.
* ``KafkaOffsetReaderAdmin.getOffsetRangesFromResolvedOffsets`` finds lost data: partitions of the
  position that the source no longer reads; a partition whose end is before the position; a new
  partition, which is read from its beginning, if that is not offset 0.
  ``KafkaMicroBatchStream.reportDataLoss`` then fails, or with ``failOnDataLoss=false`` writes a
  warning into Spark's log. Nothing is read of a partition whose end is before the position, and the
  next batch starts at that end.
* ``KafkaDataConsumer``: if the rows to read lie before the beginning of a partition, the task
  fails, or with ``failOnDataLoss=false`` continues at the beginning.

Numbers of rows are differences of offsets. They are upper bounds, because compaction and
transactions leave gaps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from flinkish.connectors.kafka.new_offsets import rows_text
from flinkish.connectors.kafka.reading import (
    Available,
    BrokerAnswer,
    KafkaReading,
    Position,
    Topics,
)
from flinkish.connectors.sources import ACCEPT_LOST_ROWS, OFFLINE, Consent, Finding, gravest_first
from flinkish.messages.plan import RestoreOutcome
from flinkish.units import first_of

_NONE: Mapping[str, str] = MappingProxyType({})


def judge(
    reading: KafkaReading,
    position: Position,
    answer: BrokerAnswer,
    consent: Consent,
    recreated: Mapping[str, str] = _NONE,
) -> tuple[Finding, ...]:
    """Return the findings about a source that resumes from the position, the gravest first.

    ``recreated`` are the topics that are known to have been recreated, with the evidence.
    """
    if answer.topics is None:
        gone = _not_read(reading, position)
        findings = [_gone(reading, gone, position, {}, consent, recreated)] if gone else []
    else:
        findings = list(_with_broker(reading, position, answer.topics, consent, recreated))
    return gravest_first(findings)


def _with_broker(
    reading: KafkaReading,
    position: Position,
    topics: Topics,
    consent: Consent,
    recreated: Mapping[str, str],
) -> Iterable[Finding]:
    missing = sorted(reading.topics - set(topics))
    if missing:
        yield Finding(
            "topic-missing",
            RestoreOutcome.REFUSED,
            f"the broker has no {_words(missing)}, and Spark fails if a topic of "
            f"{reading.how} is missing, even with failOnDataLoss=false",
            f"create the topic, or remove it from {reading.how}; to plan without the "
            f"broker: {OFFLINE}",
        )
    there = {(topic, n) for topic, partitions in topics.items() for n in partitions}
    now = {(topic, n) for topic, n in there if reading.reads(topic, n)}
    saved = {(topic, n): at for topic, offsets in position.items() for n, at in offsets.items()}
    gone = sorted(place for place in saved if place not in now and place[0] not in missing)
    if gone:
        yield _gone(reading, gone, position, topics, consent, recreated)
    for topic in sorted(position.keys() & topics.keys()):
        kept = [n for n in position[topic] if (topic, n) in now]
        if topic in recreated:
            at, has = position[topic], topics[topic]
            inside = [n for n in kept if has[n].begin < at[n] <= has[n].end]
            if inside:
                yield _unnoticed(topic, recreated[topic], inside, at, has, consent)
            kept = [n for n in kept if n not in inside]
        yield from _moved_bounds(reading, topic, kept, position[topic], topics[topic], consent)
    for topic in sorted({topic for topic, _ in now}):
        new = sorted(n for t, n in now if t == topic and (t, n) not in saved)
        if new:
            yield from _added(reading, topic, new, topics[topic], topic in position, consent)


def _not_read(reading: KafkaReading, position: Position) -> list[tuple[str, int]]:
    """Return the partitions of a position that the source does not read, without a broker."""
    if not reading.is_known:
        return []
    return [(t, n) for t, offsets in position.items() for n in offsets if not reading.reads(t, n)]


def _gone(
    reading: KafkaReading,
    gone: Iterable[tuple[str, int]],
    position: Position,
    topics: Topics,
    consent: Consent,
    recreated: Collection[str],
) -> Finding:
    places = list(gone)
    names = sorted({topic for topic, _ in places})
    here = [(topic, n) for topic, n in places if n in topics.get(topic, {})]
    rows = sum(
        topics[topic][n].unread(position[topic][n], recreated=topic in recreated)
        for topic, n in here
    )
    where = _words(names)
    if any((topic, n) not in places for topic in names for n in position[topic]):
        where = _listed("partition", [f"{topic}-{n}" for topic, n in places])
    waiting = f" ({rows_text(rows)} there were not read)" if here else ""
    lost_rows = rows if len(here) == len(places) else None
    text = f"it no longer reads {where}, which the position contains{waiting}"
    cure = "subscribe to it as well, or"
    return _loss("topics-gone", text, lost_rows, reading, consent, cure=cure)


def _moved_bounds(
    reading: KafkaReading,
    topic: str,
    partitions: Iterable[int],
    saved: Mapping[int, int],
    has: Mapping[int, Available],
    consent: Consent,
) -> Iterable[Finding]:
    """Yield the findings for saved offsets that are outside the range of their partitions."""
    numbers = list(partitions)
    beyond = [n for n in numbers if saved[n] > has[n].end]
    if beyond:
        rows = sum(has[n].end - has[n].begin for n in beyond)
        yield _loss(
            "topic-recreated",
            f"topic {topic} was recreated or truncated: {_bounds(beyond, saved, has)}; "
            f"its rows ({rows_text(rows)}) count as read",
            rows,
            reading,
            consent,
        )
    before = [n for n in numbers if saved[n] < has[n].begin]
    if before:
        rows = sum(has[n].begin - saved[n] for n in before)
        yield _loss(
            "rows-expired",
            f"retention deleted {rows_text(rows)} of topic {topic} before they were read: "
            f"{_bounds(before, saved, has)}",
            rows,
            reading,
            consent,
        )


def _unnoticed(
    topic: str,
    why: str,
    partitions: Iterable[int],
    saved: Mapping[int, int],
    has: Mapping[int, Available],
    consent: Consent,
) -> Finding:
    """Return the finding for a recreated topic that has already grown up to the position."""
    rows = sum(saved[n] - has[n].begin for n in partitions)
    text = (
        f"topic {topic} was recreated: {why}; the query would resume in the middle of it, "
        f"and {rows_text(rows)} before the position would count as read, without Spark "
        "noticing"
    )
    advice = (
        f"start it from scratch and keep the state: {consent.reset}; or accept the loss: "
        f"{ACCEPT_LOST_ROWS}"
    )
    outcome = RestoreOutcome.WARNING if consent.lost_rows else RestoreOutcome.CONSENT
    return Finding("topic-recreated", outcome, text, "" if consent.lost_rows else advice, rows)


def _added(
    reading: KafkaReading,
    topic: str,
    new: list[int],
    has: Mapping[int, Available],
    was_read: bool,
    consent: Consent,
) -> Iterable[Finding]:
    """Yield the findings for partitions that are not in the position."""
    names = _listed("partition", [str(n) for n in new])
    what = f"{names} of topic {topic}" if was_read else f"topic {topic}"
    late = [n for n in new if has[n].begin > 0]
    rows = sum(has[n].begin for n in late)
    if late and was_read:
        yield _loss(
            "rows-expired",
            f"{names} of topic {topic} {_is(new)} new, and retention has deleted "
            f"{rows_text(rows)} at the beginning there",
            rows,
            reading,
            consent,
        )
    elif late and reading.fail_on_data_loss is not False:
        yield Finding(
            "new-topic-starts-late",
            RestoreOutcome.CONSENT if reading.fail_on_data_loss else RestoreOutcome.WARNING,
            f"{what} is new to it and does not begin at offset 0 (retention has deleted "
            f"{rows_text(rows)} there): Spark treats this as lost data, and fails unless "
            "failOnDataLoss is false",
            "set failOnDataLoss to false, or start it from scratch and keep the state: "
            f"{consent.reset}",
            rows=0,
        )
    waiting = sum(has[n].end - has[n].begin for n in new)
    yield Finding(
        "partitions-new" if was_read else "topic-new",
        RestoreOutcome.NOTE,
        f"{what} {_is(new if was_read else [0])} new to it and read from the beginning, "
        f"regardless of startingOffsets: {rows_text(waiting)}",
    )


def _loss(
    reason: str,
    text: str,
    rows: int | None,
    reading: KafkaReading,
    consent: Consent,
    *,
    cure: str = "",
) -> Finding:
    """Return the finding for rows that are not read: Spark fails for them, or skips them."""
    if not rows and rows is not None and reading.fail_on_data_loss is False:
        return Finding(reason, RestoreOutcome.WARNING, text, rows=rows)
    afresh = f"start it from scratch and keep the state: {consent.reset}"
    advice = f"{cure} {afresh}".strip()
    if reading.fail_on_data_loss is None:
        text += "; Spark would fail, or silently skip those rows with failOnDataLoss=false"
    elif reading.fail_on_data_loss:
        text += "; Spark would fail, because failOnDataLoss is true"
        advice += f"; or set failOnDataLoss to false and use {ACCEPT_LOST_ROWS}"
    else:
        text += "; Spark would silently skip those rows, because failOnDataLoss is false"
        advice += f"; or accept the loss: {ACCEPT_LOST_ROWS}"
    agreed = consent.lost_rows and reading.fail_on_data_loss is False
    outcome = RestoreOutcome.WARNING if agreed else RestoreOutcome.CONSENT
    return Finding(reason, outcome, text, "" if agreed else advice, rows)


def rows_waiting(position: Position, topics: Topics) -> dict[str, int]:
    """Return the number of rows after the position in each topic that the broker has.

    A partition that the position lacks counts from its beginning.
    """
    return {
        topic: sum(_waiting(n, position.get(topic, {}), has) for n, has in partitions.items())
        for topic, partitions in sorted(topics.items())
    }


def _waiting(partition: int, saved: Mapping[int, int], has: Available) -> int:
    return max(0, has.end - max(has.begin, saved.get(partition, has.begin)))


def _bounds(partitions: list[int], saved: Mapping[int, int], has: Mapping[int, Available]) -> str:
    texts = [
        f"partition {n} was read up to {saved[n]} and has {has[n].begin} to {has[n].end}"
        for n in partitions
    ]
    return first_of(texts, limit=3)


def _is(many: list[int]) -> str:
    return "is" if len(many) == 1 else "are"


def _words(topics: list[str]) -> str:
    return _listed("topic", topics)


def _listed(word: str, names: list[str]) -> str:
    return (f"{word} " if len(names) == 1 else f"{word}s ") + first_of(names, limit=5)
