"""What becomes of a Kafka source that continues from a saved position. Pure.

The facts used, of Spark 3.5 to 4.3:

* ``KafkaSourceProvider``: ``failOnDataLoss`` is true unless given; ``startingOffsets`` is
  ``latest`` unless given, and counts for a query without a position only.
* ``ConsumerStrategy.assignedTopicPartitions``: a topic of ``subscribe`` or ``assign`` that the
  broker does not have is an error, whatever ``failOnDataLoss`` says; a partition of ``assign`` that
  a topic does not have is left out.
* ``KafkaOffsetReaderAdmin.getOffsetRangesFromResolvedOffsets`` finds lost data: partitions of the
  start that are not read now; an end before the start; new partitions, which are read from their
  beginning, where that is not 0. ``KafkaMicroBatchStream.reportDataLoss`` then fails, or with
  ``failOnDataLoss=false`` writes into the log. Of a partition whose end is before the start nothing
  is read, and the next batch starts at that end.
* ``KafkaDataConsumer``: rows before the beginning of a partition fail the task, or with
  ``failOnDataLoss=false`` it goes on at the beginning.

Numbers of rows are differences of offsets, so the most that there can be: compaction and
transactions leave gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flinkish.restore.plan.kafka_reading import (
    Available,
    BrokerAnswer,
    KafkaReading,
    Position,
    Topics,
)
from flinkish.restore.plan.source_findings import ACCEPT_LOST_ROWS, Consent, Finding, gravest_first
from flinkish.restore.plan.verdicts import RestoreOutcome

#: The way back to a plan that asks no broker.
OFFLINE = "--offline"


def judge(
    reading: KafkaReading, position: Position, answer: BrokerAnswer, consent: Consent
) -> tuple[Finding, ...]:
    """Return what the source meets when it continues from the position, the gravest first."""
    if answer.topics is None:
        gone = _not_read(reading, position)
        found = [_gone(reading, gone, position, {}, consent)] if gone else []
    else:
        found = list(_with_broker(reading, position, answer.topics, consent))
    return gravest_first(found)


def _with_broker(
    reading: KafkaReading, position: Position, topics: Topics, consent: Consent
) -> Iterable[Finding]:
    missing = sorted(reading.topics - set(topics))
    if missing:
        yield Finding(
            "topic-missing",
            RestoreOutcome.REFUSED,
            f"the broker has no {_words(missing)}, and Spark fails for a topic of {reading.how} "
            "that is not there, also with failOnDataLoss=false",
            f"make the topic, or take it out of {reading.how}; to plan without the broker: "
            f"{OFFLINE}",
        )
    there = {(topic, n) for topic, partitions in topics.items() for n in partitions}
    now = {(topic, n) for topic, n in there if reading.reads(topic, n)}
    saved = {(topic, n): at for topic, offsets in position.items() for n, at in offsets.items()}
    gone = sorted(place for place in saved if place not in now and place[0] not in missing)
    if gone:
        yield _gone(reading, gone, position, topics, consent)
    for topic in sorted(position.keys() & topics.keys()):
        kept = [n for n in position[topic] if (topic, n) in now]
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
) -> Finding:
    places = list(gone)
    names = sorted({topic for topic, _ in places})
    here = [(topic, n) for topic, n in places if n in topics.get(topic, {})]
    rows = sum(max(0, topics[topic][n].end - position[topic][n]) for topic, n in here)
    where = _words(names)
    if any((topic, n) not in places for topic in names for n in position[topic]):
        where = _listed("partition", [f"{topic}-{n}" for topic, n in places])
    waiting = f" ({_rows(rows)} there that were not read)" if here else ""
    known = rows if len(here) == len(places) else None
    text = f"the position is in {where}, not read any more{waiting}"
    cure = "subscribe to it as well, or"
    return _loss("topics-gone", text, known, reading, consent, cure=cure)


def _moved_bounds(
    reading: KafkaReading,
    topic: str,
    partitions: Iterable[int],
    saved: Mapping[int, int],
    has: Mapping[int, Available],
    consent: Consent,
) -> Iterable[Finding]:
    """Yield what is lost where the saved offsets are not within those of the partitions."""
    numbers = list(partitions)
    beyond = [n for n in numbers if saved[n] > has[n].end]
    if beyond:
        rows = sum(has[n].end - has[n].begin for n in beyond)
        yield _loss(
            "topic-recreated",
            f"topic {topic} was deleted and made again, or cut: {_bounds(beyond, saved, has)}; "
            f"what it has there ({_rows(rows)}) counts as read",
            *(rows, reading, consent),
        )
    before = [n for n in numbers if saved[n] < has[n].begin]
    if before:
        rows = sum(has[n].begin - saved[n] for n in before)
        yield _loss(
            "rows-expired",
            f"{_rows(rows)} of topic {topic} that were not read are deleted (retention): "
            f"{_bounds(before, saved, has)}",
            *(rows, reading, consent),
        )


def _added(
    reading: KafkaReading,
    topic: str,
    new: list[int],
    has: Mapping[int, Available],
    was_read: bool,
    consent: Consent,
) -> Iterable[Finding]:
    """Yield the finding for partitions that the position does not have."""
    names = _listed("partition", [str(n) for n in new])
    what = f"{names} of topic {topic}" if was_read else f"topic {topic}"
    late = [n for n in new if has[n].begin > 0]
    rows = sum(has[n].begin for n in late)
    if late and was_read:
        yield _loss(
            "rows-expired",
            f"{names} of topic {topic} {_is(new)} new, and the first {_rows(rows)} there are "
            "deleted (retention)",
            *(rows, reading, consent),
        )
    elif late and reading.fail_on_data_loss is not False:
        yield Finding(
            "new-topic-starts-late",
            RestoreOutcome.CONSENT if reading.fail_on_data_loss else RestoreOutcome.WARNING,
            f"{what} is new to it and does not begin at offset 0 ({_rows(rows)} deleted there "
            "before): Spark takes that for lost data, and fails unless failOnDataLoss is false",
            f"set failOnDataLoss to false, or start it afresh and keep the state: {consent.reset}",
        )
    waiting = sum(has[n].end - has[n].begin for n in new)
    yield Finding(
        "partitions-new" if was_read else "topic-new",
        RestoreOutcome.NOTE,
        f"{what} {_is(new if was_read else [0])} new to it and read from the beginning, whatever "
        f"startingOffsets says: {_rows(waiting)}",
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
        return Finding(reason, RestoreOutcome.WARNING, text)
    afresh = f"start it afresh and keep the state: {consent.reset}"
    advice = f"{cure} {afresh}".strip()
    if reading.fail_on_data_loss is None:
        text += "; Spark fails for it, or skips without a word with failOnDataLoss=false"
    elif reading.fail_on_data_loss:
        text += "; Spark fails for it, as failOnDataLoss is true"
        advice += f"; or set failOnDataLoss to false and give {ACCEPT_LOST_ROWS}"
    else:
        text += "; Spark skips it without a word, as failOnDataLoss is false"
        advice += f"; or agree: {ACCEPT_LOST_ROWS}"
    agreed = consent.lost_rows and reading.fail_on_data_loss is False
    outcome = RestoreOutcome.WARNING if agreed else RestoreOutcome.CONSENT
    return Finding(reason, outcome, text, "" if agreed else advice, rows)


def rows_waiting(position: Position, topics: Topics) -> dict[str, int]:
    """Return the rows behind the position, by topic that the broker has.

    A partition that the position lacks counts from its beginning.
    """
    return {
        topic: sum(_waiting(n, position.get(topic, {}), has) for n, has in partitions.items())
        for topic, partitions in sorted(topics.items())
    }


def _waiting(partition: int, saved: Mapping[int, int], has: Available) -> int:
    return max(0, has.end - max(has.begin, saved.get(partition, has.begin)))


def reset_cost(reading: KafkaReading, position: Position, topics: Topics, starting: str) -> str:
    """Return what a source that starts afresh reads twice or never, as a sentence; may be empty."""
    saved = {(t, n): at for t, offsets in position.items() for n, at in offsets.items()}
    places = [(t, n) for t, n in saved if n in topics.get(t, {}) and reading.reads(t, n)]
    word = starting.strip().lower()
    if word == "latest":
        behind = {t: {n: has for n, has in topics[t].items() if (t, n) in places} for t in topics}
        rows = sum(rows_waiting(position, behind).values())
        return f"it starts at the end: {_rows(rows)} behind its position are never read"
    if word == "earliest":
        rows = sum(max(0, saved[t, n] - topics[t][n].begin) for t, n in places)
        return f"it starts at the beginning: {_rows(rows)} are read again"
    return ""


def _bounds(partitions: list[int], saved: Mapping[int, int], has: Mapping[int, Available]) -> str:
    shown = [
        f"partition {n} was read up to {saved[n]} and has {has[n].begin} to {has[n].end}"
        for n in partitions[:3]
    ]
    more = [f"and {len(partitions) - 3} more"] if len(partitions) > 3 else []
    return ", ".join([*shown, *more])


def _rows(count: int) -> str:
    return "no rows" if count == 0 else "1 row" if count == 1 else f"up to {count:,} rows"


def _is(many: list[int]) -> str:
    return "is" if len(many) == 1 else "are"


def _words(topics: list[str]) -> str:
    return _listed("topic", topics)


def _listed(word: str, names: list[str]) -> str:
    shown = names if len(names) <= 5 else [*names[:5], f"and {len(names) - 5} more"]
    return (f"{word} " if len(names) == 1 else f"{word}s ") + ", ".join(shown)
