"""Findings about a Kafka source that resumes from a saved position. Pure.

The facts used, of Spark 3.5 to 4.3:

* ``KafkaSourceProvider``: ``failOnDataLoss`` is true unless given; ``startingOffsets`` is
  ``latest`` unless given, and counts for a query without a position only.
* ``ConsumerStrategy.assignedTopicPartitions``: a topic of ``subscribe`` or ``assign`` that the
  broker does not have is an error, even with ``failOnDataLoss=false``; a partition of ``assign``
  that a topic does not have is left out.
* ``KafkaOffsetReaderAdmin.getOffsetRangesFromResolvedOffsets`` finds lost data: partitions of the
  start that are not read now; an end before the start; new partitions, which are read from their
  beginning, where that is not 0. ``KafkaMicroBatchStream.reportDataLoss`` then fails, or with
  ``failOnDataLoss=false`` writes into the log. Of a partition whose end is before the start nothing
  is read, and the next batch starts at that end.
* ``KafkaDataConsumer``: rows before the beginning of a partition fail the task, or with
  ``failOnDataLoss=false`` it continues at the beginning.

Numbers of rows are differences of offsets, which is an upper bound: compaction and transactions
leave gaps.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from flinkish.connectors.kafka.reading import (
    Available,
    BrokerAnswer,
    KafkaReading,
    Position,
    Topics,
)
from flinkish.connectors.sources import ACCEPT_LOST_ROWS, OFFLINE, Consent, Finding, gravest_first
from flinkish.messages.plan import RestoreOutcome

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
        findings = [_gone(reading, gone, position, {}, consent)] if gone else []
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
        yield _gone(reading, gone, position, topics, consent)
    for topic in sorted(position.keys() & topics.keys()):
        kept = [n for n in position[topic] if (topic, n) in now]
        if topic in recreated:
            within = [n for n in kept if position[topic][n] <= topics[topic][n].end]
            if within:
                why = recreated[topic]
                yield _unnoticed(topic, why, within, position[topic], topics[topic], consent)
            kept = [n for n in kept if n not in within]
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
    waiting = f" ({_rows(rows)} there were not read)" if here else ""
    lost_rows = rows if len(here) == len(places) else None
    text = f"the position is in {where}, which is no longer read{waiting}"
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
    """Yield the findings for saved offsets that are outside their partitions."""
    numbers = list(partitions)
    beyond = [n for n in numbers if saved[n] > has[n].end]
    if beyond:
        rows = sum(has[n].end - has[n].begin for n in beyond)
        yield _loss(
            "topic-recreated",
            f"topic {topic} was recreated or truncated: {_bounds(beyond, saved, has)}; "
            f"its rows ({_rows(rows)}) count as read",
            rows,
            reading,
            consent,
        )
    before = [n for n in numbers if saved[n] < has[n].begin]
    if before:
        rows = sum(has[n].begin - saved[n] for n in before)
        yield _loss(
            "rows-expired",
            f"{_rows(rows)} of topic {topic} were deleted by retention before they were "
            f"read: {_bounds(before, saved, has)}",
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
    """Return the finding for a recreated topic that has grown beyond the position."""
    rows = sum(max(0, saved[n] - has[n].begin) for n in partitions)
    text = (
        f"topic {topic} was recreated: {why}; the query would resume in the middle of it, "
        f"and {_rows(rows)} before the position would count as read, without Spark "
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
    """Yield the finding for partitions that are not in the position."""
    names = _listed("partition", [str(n) for n in new])
    what = f"{names} of topic {topic}" if was_read else f"topic {topic}"
    late = [n for n in new if has[n].begin > 0]
    rows = sum(has[n].begin for n in late)
    if late and was_read:
        yield _loss(
            "rows-expired",
            f"{names} of topic {topic} {_is(new)} new, and retention has deleted the "
            f"first {_rows(rows)} there",
            rows,
            reading,
            consent,
        )
    elif late and reading.fail_on_data_loss is not False:
        yield Finding(
            "new-topic-starts-late",
            RestoreOutcome.CONSENT if reading.fail_on_data_loss else RestoreOutcome.WARNING,
            f"{what} is new to it and does not begin at offset 0 ({_rows(rows)} were "
            "deleted there): Spark treats this as lost data, and fails unless "
            "failOnDataLoss is false",
            "set failOnDataLoss to false, or start it from scratch and keep the state: "
            f"{consent.reset}",
        )
    waiting = sum(has[n].end - has[n].begin for n in new)
    yield Finding(
        "partitions-new" if was_read else "topic-new",
        RestoreOutcome.NOTE,
        f"{what} {_is(new if was_read else [0])} new to it and read from the beginning, "
        f"regardless of startingOffsets: {_rows(waiting)}",
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
    afresh = f"start it from scratch and keep the state: {consent.reset}"
    advice = f"{cure} {afresh}".strip()
    if reading.fail_on_data_loss is None:
        text += "; Spark would fail, or silently skip them with failOnDataLoss=false"
    elif reading.fail_on_data_loss:
        text += "; Spark would fail, because failOnDataLoss is true"
        advice += f"; or set failOnDataLoss to false and use {ACCEPT_LOST_ROWS}"
    else:
        text += "; Spark would silently skip them, because failOnDataLoss is false"
        advice += f"; or accept the loss: {ACCEPT_LOST_ROWS}"
    agreed = consent.lost_rows and reading.fail_on_data_loss is False
    outcome = RestoreOutcome.WARNING if agreed else RestoreOutcome.CONSENT
    return Finding(reason, outcome, text, "" if agreed else advice, rows)


def rows_waiting(position: Position, topics: Topics) -> dict[str, int]:
    """Return the number of rows after the position, by topic that the broker has.

    A partition that the position lacks counts from its beginning.
    """
    return {
        topic: sum(_waiting(n, position.get(topic, {}), has) for n, has in partitions.items())
        for topic, partitions in sorted(topics.items())
    }


def _waiting(partition: int, saved: Mapping[int, int], has: Available) -> int:
    return max(0, has.end - max(has.begin, saved.get(partition, has.begin)))


def reset_cost(
    reading: KafkaReading,
    position: Position,
    topics: Topics | None,
    starting: str,
    recreated: Collection[str] = (),
) -> str:
    """Return what a source that starts from scratch skips or reads again, as a sentence.

    What was not read is skipped too where the position says nothing of it: in partitions that are
    new to it, and in recreated topics.

    ``topics`` are the broker's, None if it was not asked. ``starting`` is where the source starts
    without a position, empty if unknown. ``recreated`` are the topics that are known to have been
    recreated.
    """
    if not starting:
        return ""
    word = starting.strip()
    begins = {"latest": "at the end", "earliest": "at the beginning"}.get(
        word.lower(), f"at {word}"
    )
    starts = None if topics is None else _starts(reading, topics, word)
    if topics is None or starts is None:
        return f"it starts {begins}; the number of rows skipped or read again is unknown"
    skipped = again = 0
    for (topic, n), start in starts.items():
        has = topics[topic][n]
        saved = position.get(topic, {}).get(n)
        if topic in recreated or (saved is not None and saved > has.end):
            saved = None
        skipped += max(0, start - max(has.begin, has.begin if saved is None else saved))
        again += 0 if saved is None else max(0, saved - max(has.begin, start))
    said = [f"skips {_rows(skipped)}" if skipped else ""]
    said += [f"reads {_rows(again)} again" if again else ""]
    cost = " and ".join(filter(None, said)) or "continues at its position"
    until = ", and skips what arrives before it runs" if word.lower() == "latest" else ""
    return f"it starts {begins}: it {cost}{until}"


def _starts(
    reading: KafkaReading, topics: Topics, starting: str
) -> dict[tuple[str, int], int] | None:
    """Return the first offset that is read, by partition; None if it cannot be determined."""
    places = {
        (topic, n): has
        for topic, partitions in topics.items()
        for n, has in partitions.items()
        if reading.reads(topic, n)
    }
    word = starting.lower()
    if word in ("latest", "earliest"):
        return {place: has.end if word == "latest" else has.begin for place, has in places.items()}
    try:
        parsed = json.loads(starting)
        offsets = {
            (t, int(n)): int(at) for t, numbers in parsed.items() for n, at in numbers.items()
        }
    except (AttributeError, TypeError, ValueError, RecursionError):
        return None
    if not places.keys() <= offsets.keys():
        return None  # Spark refuses that
    ends = {-1: "end", -2: "begin"}
    return {
        place: getattr(has, ends[offsets[place]]) if offsets[place] in ends else offsets[place]
        for place, has in places.items()
    }


def _bounds(partitions: list[int], saved: Mapping[int, int], has: Mapping[int, Available]) -> str:
    texts = [
        f"partition {n} was read up to {saved[n]} and has {has[n].begin} to {has[n].end}"
        for n in partitions[:3]
    ]
    more = [f"and {len(partitions) - 3} more"] if len(partitions) > 3 else []
    return ", ".join([*texts, *more])


def _rows(count: int) -> str:
    return "no rows" if count == 0 else "1 row" if count == 1 else f"up to {count:,} rows"


def _is(many: list[int]) -> str:
    return "is" if len(many) == 1 else "are"


def _words(topics: list[str]) -> str:
    return _listed("topic", topics)


def _listed(word: str, names: list[str]) -> str:
    texts = names if len(names) <= 5 else [*names[:5], f"and {len(names) - 5} more"]
    return (f"{word} " if len(names) == 1 else f"{word}s ") + ", ".join(texts)
