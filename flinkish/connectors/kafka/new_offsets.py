"""New offsets of a Kafka source (``--set-offsets``, ``--reset-source``), and their cost. Pure.

:func:`kafka_offsets` resolves a target with the answer of a broker, and counts the rows that are
skipped and read again. The counts are differences of offsets, and so upper bounds.

A time means the same as in Spark (``startingTimestamp``): the first row at or after it. For a
partition that has no such row, it means the end, as with
``startingOffsetsByTimestampStrategy=latest``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from flinkish.connectors.kafka.reading import (
    Available,
    BrokerAnswer,
    KafkaReading,
    Position,
    Topics,
    position_of,
)
from flinkish.connectors.offsets import MOVED, NewOffsets, Target, Unresolved
from flinkish.connectors.sources import (
    OFFLINE,
    SET,
)
from flinkish.messages.plan import Move
from flinkish.units import first_of

#: The numbers that mean the first and the next offset of a partition in Spark's JSON.
EARLIEST, LATEST = -2, -1
_LARGEST = 2**63 - 1
#: Maximum number of partitions that a message names.
_SHOWN = 5


def kafka_offsets(
    target: Target,
    reading: KafkaReading,
    position: Position,
    answer: BrokerAnswer,
    *,
    recreated: Collection[str] = (),
) -> NewOffsets | Unresolved:
    """Return the offsets to which a Kafka source is moved, or why it cannot be moved.

    A target of explicit offsets changes only the partitions that it names; the others keep their
    saved offsets. Every other target has exactly the partitions that the source reads, and drops
    the offsets of the others.

    ``answer`` includes the offsets at the time of ``target``, if ``target`` has a time. Nothing of
    the topics ``recreated`` was read.
    """
    topics = answer.topics
    has = {
        (t, n): each for t, partitions in (topics or {}).items() for n, each in partitions.items()
    }
    read = {place: each for place, each in has.items() if reading.reads(*place)}
    saved = {(t, n): at for t, partitions in position.items() for n, at in partitions.items()}
    after: dict[tuple[str, int], int]
    if target.how == "offsets":
        explicit = _given(target.offsets, reading, read, answer)
        if isinstance(explicit, Unresolved):
            return explicit
        after = {**saved, **explicit}
    elif target.how == MOVED:
        text = "has no files that could have been moved: it is a Kafka source"
        return Unresolved("set-offsets-form", text, f"omit {SET} for it")
    elif topics is None or (target.how == "timestamp" and answer.at is None):
        return _needs_broker(f"where {target.describe()} is", answer)
    elif not read:
        text = "cannot be moved: the broker has none of the partitions that it reads"
        return Unresolved("set-offsets-topic", text, "create them first")
    else:
        after = {place: _at(target, place, each, answer) for place, each in read.items()}
    moves = [
        _move(place, saved.get(place), at, has.get(place), recreated=place[0] in recreated)
        for place, at in after.items()
    ]
    gone = sorted(saved.keys() - after.keys())
    moves += [
        _left(place, saved[place], has.get(place), recreated=place[0] in recreated)
        for place in gone
    ]
    moved = tuple(sorted((m for m in moves if m.before != m.after), key=_order))
    # Behind these, a recreated topic is read on in the middle.
    unnoticed = sum(m.skipped for m in moved if m.topic in recreated and m.after is not None)
    return NewOffsets(_log_line(after), moved, unnoticed=unnoticed)


def _given(
    offsets: Any,
    reading: KafkaReading,
    read: Mapping[tuple[str, int], Available],
    answer: BrokerAnswer,
) -> dict[tuple[str, int], int] | Unresolved:
    """Return explicit offsets, with -1 and -2 resolved by the broker, or why they are not used."""
    position = position_of(offsets)
    places = {(t, n): at for t, each in (position or {}).items() for n, at in each.items()}
    if not places or not EARLIEST <= min(places.values()) <= max(places.values()) <= _LARGEST:
        form = (
            'write {"TOPIC": {"PARTITION": OFFSET}}, with -2 for the earliest and -1 for the latest'
        )
        return Unresolved("set-offsets-form", "cannot be moved: these are not Kafka offsets", form)
    is_answered = answer.topics is not None
    strange = [p for p in places if (p not in read if is_answered else not reading.reads(*p))]
    if strange:
        names = _names(strange)
        there = "not read by it, or not on the broker" if is_answered else "not read by it"
        text = f"cannot be moved in {names}: {there}"
        return Unresolved("set-offsets-topic", text, "use partitions that it reads")
    if not is_answered and min(places.values()) < 0:
        return _needs_broker("what -2 (earliest) and -1 (latest) are", answer)
    resolved: dict[tuple[str, int], int] = {}
    for place, at in places.items():
        has = read.get(place)
        if has is not None and at < 0:
            at = has.begin if at == EARLIEST else has.end
        if has is not None and not has.begin <= at <= has.end:
            return Unresolved(
                "set-offsets-range",
                f"cannot be moved to offset {at} of {_names([place])}: the broker has {has.begin} "
                f"to {has.end} there",
                "use an offset in that range; -2 is the earliest, -1 the latest",
            )
        resolved[place] = at
    return resolved


def _needs_broker(what: str, answer: BrokerAnswer) -> Unresolved:
    why = f" ({answer.why})" if answer.why else ""
    return Unresolved(
        "set-offsets-broker",
        f"cannot be moved: only the broker knows {what}, and there is no answer from it{why}",
        f"omit {OFFLINE}, make sure that the broker answers, or give offsets from 0 on in a file",
    )


def _at(target: Target, place: tuple[str, int], has: Available, answer: BrokerAnswer) -> int:
    if target.how == "earliest":
        return has.begin
    topic, number = place
    at = (answer.at or {}).get(topic, {}).get(number) if target.how == "timestamp" else None
    return has.end if at is None else min(max(at, has.begin), has.end)


def _move(
    place: tuple[str, int],
    before: int | None,
    after: int,
    has: Available | None,
    *,
    recreated: bool,
) -> Move:
    """Return the move of a partition; if it is new, in comparison with a start at its beginning."""
    begin = 0 if has is None else has.begin
    start = begin if before is None or recreated else before
    skipped, repeated = max(0, after - start), max(0, start - after)
    if has is not None and start > has.end:  # recreated or truncated: what was read is unknown
        skipped, repeated = after - has.begin, has.end - after
    return Move(*place, before, after, skipped, repeated)


def _left(place: tuple[str, int], before: int, has: Available | None, *, recreated: bool) -> Move:
    skipped = 0 if has is None else has.unread(before, recreated=recreated)
    return Move(*place, before, None, skipped)


def _order(move: Move) -> tuple[str, int]:
    return move.topic, move.partition


def _log_line(places: Mapping[tuple[str, int], int]) -> str:
    """Return the line of the offset log as Spark writes it (``JsonUtils.partitionOffsets``)."""
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, number), at in sorted(places.items()):
        by_topic.setdefault(topic, {})[str(number)] = at
    return json.dumps(by_topic, separators=(",", ":"), ensure_ascii=False)


def _names(places: list[tuple[str, int]]) -> str:
    names = [f"partition {n} of topic {topic}" for topic, n in sorted(places)]
    return first_of(names, limit=_SHOWN)


def reset_cost(
    reading: KafkaReading,
    position: Position,
    topics: Topics | None,
    starting: str,
    recreated: Collection[str] = (),
) -> str:
    """Return what a source that starts from scratch skips or reads again, as a sentence.

    It is empty if it is unknown where the source starts. The rows that are skipped include those of
    partitions that the position lacks, and of recreated topics.

    ``topics`` are the broker's, None if it was not asked or did not answer. ``starting`` is where
    the source starts without a position, empty if unknown. ``recreated`` are the topics that are
    known to have been recreated.
    """
    if not starting:
        return ""
    word = starting.strip()
    begins = _BEGINS.get(word.lower(), f"at {word}")
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
    said = [f"skips {rows_text(skipped)}" if skipped else ""]
    said += [f"reads {rows_text(again)} again" if again else ""]
    cost = " and ".join(filter(None, said)) or "skips no row and repeats none"
    until = ", and skips what arrives before it runs" if word.lower() == "latest" else ""
    return f"it starts {begins}: it {cost}{until}"


#: Where a source without a position starts, by the start that the program sets.
_BEGINS = {
    "latest": "at the end",
    "earliest": "at the beginning",
    "startingtimestamp": "at its startingTimestamp",
    "startingoffsetsbytimestamp": "at its startingOffsetsByTimestamp",
}


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
        return None  # Spark refuses offsets that lack a partition
    ends = {-1: "end", -2: "begin"}
    return {
        place: getattr(has, ends[offsets[place]]) if offsets[place] in ends else offsets[place]
        for place, has in places.items()
    }


def rows_text(count: int) -> str:
    return "no rows" if count == 0 else "1 row" if count == 1 else f"up to {count:,} rows"
