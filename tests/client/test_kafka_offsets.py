"""Kafka positions of a savepoint by partition, alone and beside what a broker has."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.client.kafka_offsets import kafka_offsets, topics_in, with_lag
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
    saved = kafka_offsets(query({"a": {"0": 5, "1": 5, "2": 5, "3": 5}, "gone": {"0": 1}}))
    bounds = [(0, 9), (8, 9), (0, 4), (5, 5), (1, 3)]
    topics = {"a": {n: Available(*each) for n, each in enumerate(bounds)}, "other": {}}
    found = with_lag(saved, topics)
    assert [(each.partition, each.offset, each.lag, each.note) for each in found] == [
        (0, 5, 4, ""),
        (1, 5, 1, "3 deleted before they were read"),
        (2, 5, None, "beyond the end: topic recreated"),
        (3, 5, 0, ""),
        (4, None, 2, "new"),
        (0, 1, None, "not on the broker"),
    ]
    assert [(each.begin, each.end) for each in found] == [*bounds, (None, None)]
