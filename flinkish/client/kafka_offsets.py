"""The Kafka offsets of a savepoint by partition, and the lag if a broker is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flinkish.connectors.kafka.reading import Available, Topics, position_of
from flinkish.errors import UsageError
from flinkish.messages.results import PartitionOffset


def kafka_offsets(query: Mapping[str, Any]) -> tuple[PartitionOffset, ...]:
    """Return the Kafka offsets of a query, by source, topic and partition. Pure.

    ``query``: as ``savepoint show --json`` describes it.
    """
    positions = []
    sources = query["source"] if isinstance(query["source"], list) else []
    for entry, offset in enumerate(query["offsets"]):
        record = sources[entry] if entry < len(sources) else None
        record = record if isinstance(record, dict) else {}
        reads = record.get("signature") or record.get("description")
        position = position_of(offset)
        if position is None or not str(reads or "kafka").lower().startswith("kafka"):
            continue
        name = record.get("uid") or reads
        positions += [
            PartitionOffset(entry, None if name is None else str(name), topic, number, at)
            for topic, offsets in position.items()
            for number, at in offsets.items()
        ]
    return tuple(positions)


def topics_in(queries: Sequence[tuple[PartitionOffset, ...]]) -> set[str]:
    """Return all topics of the offsets. Pure.

    Raises UsageError if there are none.
    """
    topics = {each.topic for offsets in queries for each in offsets}
    if not topics:
        raise UsageError(
            "the savepoint has no Kafka offsets, so there is no lag",
            hint="omit --lag",
        )
    return topics


def with_lag(offsets: Sequence[PartitionOffset], topics: Topics) -> tuple[PartitionOffset, ...]:
    """Return the offsets with what a broker has, and the partitions that were not saved. Pure.

    A new partition of a topic is read from its beginning.
    """
    saved = [_lag_of(each, topics.get(each.topic, {}).get(each.partition)) for each in offsets]
    return tuple(sorted([*saved, *_new(offsets, topics)], key=_order))


def _order(each: PartitionOffset) -> tuple[int, str, int]:
    return each.entry, each.topic, each.partition


def _lag_of(saved: PartitionOffset, has: Available | None) -> PartitionOffset:
    if has is None:
        return replace(saved, note="not on the broker")
    here = replace(saved, begin=has.begin, end=has.end)
    assert saved.offset is not None
    if saved.offset > has.end:
        return replace(here, note="beyond the end: topic recreated")
    expired = max(0, has.begin - saved.offset)
    note = f"{expired:,} deleted before they were read" if expired else ""
    return replace(here, lag=has.end - max(has.begin, saved.offset), note=note)


def _new(offsets: Sequence[PartitionOffset], topics: Topics) -> Iterator[PartitionOffset]:
    saved = {(each.entry, each.topic, each.partition) for each in offsets}
    for entry, source, topic in sorted(
        {(each.entry, each.source, each.topic) for each in offsets}, key=lambda each: each[::2]
    ):
        for number, has in topics.get(topic, {}).items():
            if (entry, topic, number) not in saved:
                yield PartitionOffset(
                    entry,
                    source,
                    topic,
                    number,
                    None,
                    has.begin,
                    has.end,
                    lag=has.end - has.begin,
                    note="new",
                )


def ask_lag(
    queries: Sequence[tuple[PartitionOffset, ...]], servers: str
) -> list[tuple[PartitionOffset, ...]]:
    """Return the offsets of all queries with what the broker at ``servers`` has.

    Raises UsageError if there are no Kafka offsets; BrokerError if the broker does not answer.
    """
    from flinkish.connectors.kafka.topics import topics_of

    topics = topics_of(servers, names=topics_in(queries))
    return [with_lag(offsets, topics) for offsets in queries]
