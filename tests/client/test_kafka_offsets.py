"""Kafka positions of a savepoint by partition, alone and beside what a broker has."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.client.kafka_offsets import kafka_offsets, readings_of, topics_in, with_lag
from flinkish.connectors.kafka.reading import Available
from flinkish.errors import UsageError
from flinkish.messages.results import PartitionOffset


def query(*offsets: Any, source: Any = None) -> dict[str, Any]:
    return {"offsets": list(offsets), "source": source}


def test_offsets_are_numbers_in_the_order_of_topics_and_partitions() -> None:
    saved = query({"b": {"10": 7, "2": 0}, "a": {"0": 5}})
    assert kafka_offsets(saved) == (
        PartitionOffset(0, None, "a", 0, 5),
        PartitionOffset(0, None, "b", 2, 0),
        PartitionOffset(0, None, "b", 10, 7),
    )


def test_other_sources_are_not_taken_for_kafka() -> None:
    like = {"hub": {"0": 5}}
    sources = [
        {"description": "KafkaV2[Subscribe[a]]"},
        {"signature": "eventhubs[]", "description": "KafkaV2[]"},
        {"signature": "kafka[subscribe=a]", "uid": "in"},
    ]
    found = kafka_offsets(query(like, like, like, {"logOffset": 3}, None, "5", source=sources))
    assert [(each.entry, each.source) for each in found] == [
        (0, "KafkaV2[Subscribe[a]]"),
        (2, "in"),
    ]
    with pytest.raises(UsageError, match="no Kafka offsets"):
        topics_in([kafka_offsets(query({"logOffset": 3}))])
    assert topics_in([found, ()]) == {"hub"}


def test_the_lag_and_what_is_wrong_with_it() -> None:
    described = query({"a": {"0": 5, "1": 5, "2": 5, "3": 5}, "gone": {"0": 1}})
    saved = kafka_offsets(described)
    bounds = [(0, 9), (8, 9), (0, 4), (5, 5), (1, 3)]
    topics = {"a": {n: Available(*each) for n, each in enumerate(bounds)}, "other": {}}
    found = with_lag(saved, topics, readings_of(described))
    assert [(each.partition, each.offset, each.lag, each.note) for each in found] == [
        (0, 5, 4, ""),
        (1, 5, 1, "3 deleted before they were read"),
        (2, 5, None, "beyond the end: topic recreated or truncated"),
        (3, 5, 0, ""),
        (4, None, 2, "new"),
        (0, 1, None, "not on the broker"),
    ]
    assert [(each.begin, each.end) for each in found] == [*bounds, (None, None)]


def test_a_partition_that_a_source_does_not_read_is_not_new() -> None:
    at = {"t": {"0": 5}}
    sources = [
        {"signature": 'kafka[assign={"t":[0,2]}]', "uid": "some"},
        {"signature": "kafka[subscribe=t]", "uid": "all"},
    ]
    described = query(at, at, source=sources)
    topics = {"t": dict.fromkeys(range(3), Available(0, 9))}
    found = with_lag(kafka_offsets(described), topics, readings_of(described))
    assert [(each.source, each.partition, each.note) for each in found] == [
        ("some", 0, ""),
        ("some", 2, "new"),
        ("all", 0, ""),
        ("all", 1, "new"),
        ("all", 2, "new"),
    ]
