"""The Kafka offsets of a savepoint by partition, and the lag if a broker is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from flinkish.connectors.kafka.reading import (
    Available,
    KafkaReading,
    Topics,
    position_of,
    reading_of,
)
from flinkish.errors import UsageError
from flinkish.messages.results import PartitionOffset


def kafka_offsets(query: Mapping[str, Any]) -> tuple[PartitionOffset, ...]:
    """Return the Kafka offsets of a query, by source, topic and partition. Pure.

    ``query``: as ``savepoint show --json`` describes it.
    """
    positions = []
    for entry, offset in enumerate(query["offsets"]):
        record = _source_of(query, entry)
        reads = _reads(record)
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


def readings_of(query: Mapping[str, Any]) -> dict[int, KafkaReading]:
    """Return what the sources of a query read, by their lines in the offset log. Pure.

    ``query``: as for :func:`kafka_offsets`.
    """
    entries = range(len(query["offsets"]))
    return {n: reading_of(str(_reads(_source_of(query, n)) or ""), {}) for n in entries}


def _source_of(query: Mapping[str, Any], entry: int) -> Mapping[str, Any]:
    """Return the record of a query's source; empty if there is none."""
    sources = query["source"] if isinstance(query["source"], list) else []
    record = sources[entry] if entry < len(sources) else None
    return record if isinstance(record, dict) else {}


def _reads(source: Mapping[str, Any]) -> Any:
    return source.get("signature") or source.get("description")


def topics_in(queries: Sequence[tuple[PartitionOffset, ...]]) -> set[str]:
    """Return all topics of the offsets. Pure.

    Raises UsageError if there are no offsets.
    """
    topics = {each.topic for offsets in queries for each in offsets}
    if not topics:
        raise UsageError(
            "the savepoint has no Kafka offsets, so there is no lag",
            hint="omit --lag",
        )
    return topics


def with_lag(
    offsets: Sequence[PartitionOffset], topics: Topics, readings: Mapping[int, KafkaReading]
) -> tuple[PartitionOffset, ...]:
    """Return the offsets with what a broker has, and with the partitions that were not saved. Pure.

    A partition that was not saved is added if the source reads it, and its lag is all its rows.
    ``readings``: what each source reads, as :func:`readings_of` returns it.
    """
    saved = [_lag_of(each, topics.get(each.topic, {}).get(each.partition)) for each in offsets]
    return tuple(sorted([*saved, *_new(offsets, topics, readings)], key=_order))


def _order(each: PartitionOffset) -> tuple[int, str, int]:
    return each.entry, each.topic, each.partition


def _lag_of(saved: PartitionOffset, has: Available | None) -> PartitionOffset:
    if has is None:
        return replace(saved, note="not on the broker")
    here = replace(saved, begin=has.begin, end=has.end)
    assert saved.offset is not None
    if saved.offset > has.end:
        return replace(here, note="beyond the end: topic recreated or truncated")
    expired = max(0, has.begin - saved.offset)
    note = f"{expired:,} deleted before they were read" if expired else ""
    return replace(here, lag=has.end - max(has.begin, saved.offset), note=note)


def _new(
    offsets: Sequence[PartitionOffset], topics: Topics, readings: Mapping[int, KafkaReading]
) -> Iterator[PartitionOffset]:
    saved = {(each.entry, each.topic, each.partition) for each in offsets}
    for entry, source, topic in sorted(
        {(each.entry, each.source, each.topic) for each in offsets}, key=lambda each: each[::2]
    ):
        for number, has in topics.get(topic, {}).items():
            is_saved = (entry, topic, number) in saved
            if not is_saved and readings[entry].reads(topic, number):
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
    queries: Sequence[Mapping[str, Any]], servers: str
) -> list[tuple[PartitionOffset, ...]]:
    """Return the Kafka offsets of all queries with what the broker at ``servers`` has.

    ``queries``: each as for :func:`kafka_offsets`.

    Raises UsageError if there are no Kafka offsets; BrokerError if there is no client, or the
    broker does not answer or refuses.
    """
    from flinkish.connectors.kafka.topics import topics_of

    offsets = [kafka_offsets(query) for query in queries]
    topics = topics_of(servers, names=topics_in(offsets))
    return [
        with_lag(each, topics, readings_of(query))
        for each, query in zip(offsets, queries, strict=True)
    ]
