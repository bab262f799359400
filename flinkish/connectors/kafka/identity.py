"""The identity of a Kafka topic: whether a topic was deleted and recreated under its name. Pure.

A recreated topic begins at offset 0. If it has already grown beyond the saved position, Spark
continues in the middle of it and does not notice that the rows are others. Brokers since Kafka 2.8
give each topic a unique id. With older ones, the first row of a partition is an indication: at the
same offset it must have the same time, and its offset never decreases. Once retention has deleted
that row, nothing can be said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class FirstRow:
    """The first row of a partition: its offset, and its time in milliseconds since the epoch."""

    offset: int
    time_ms: int


@dataclass(frozen=True)
class TopicIdentity:
    """The identity of a topic.

    Attributes
    ----------
    topic_id
        The broker's id of the topic; None if the broker has no ids.
    first
        The first rows, by partition; without partitions that are empty or whose rows have no time.
    """

    topic_id: str | None = None
    first: Mapping[int, FirstRow] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain data for a savepoint."""
        first = {str(n): [row.offset, row.time_ms] for n, row in sorted(self.first.items())}
        return {"id": self.topic_id, "first": first}


#: Topics by name.
Identities = Mapping[str, TopicIdentity]


def parse_identities(parsed: object) -> dict[str, TopicIdentity]:
    """Return the identities of topics that a savepoint recorded; invalid ones are left out."""
    if not isinstance(parsed, dict):
        return {}
    return {
        topic: TopicIdentity(
            each["id"] if isinstance(each.get("id"), str) else None,
            _first_rows(each.get("first")),
        )
        for topic, each in parsed.items()
        if isinstance(topic, str) and isinstance(each, dict)
    }


def _first_rows(parsed: object) -> dict[int, FirstRow]:
    if not isinstance(parsed, dict):
        return {}
    return {
        int(n): FirstRow(*row)
        for n, row in parsed.items()
        if n.isascii()
        and n.isdigit()
        and isinstance(row, list)
        and [type(each) for each in row] == [int, int]
    }


def made_again(saved: Identities, now: Identities) -> dict[str, str]:
    """Return the topics that were recreated since they were saved, with the reason as a clause."""
    differences = {
        topic: _difference(saved[topic], now[topic]) for topic in saved.keys() & now.keys()
    }
    return {topic: why for topic, why in sorted(differences.items()) if why}


def unknown(saved: Identities, now: Identities) -> list[str]:
    """Return the topics that may or may not be the saved ones: nothing proves either."""
    return sorted(
        topic
        for topic in saved.keys() & now.keys()
        if None in (saved[topic].topic_id, now[topic].topic_id)
        and not any(now[topic].first.get(n) == row for n, row in saved[topic].first.items())
        and not _difference(saved[topic], now[topic])
    )


def _difference(saved: TopicIdentity, now: TopicIdentity) -> str:
    if saved.topic_id is not None and now.topic_id is not None:
        other = saved.topic_id != now.topic_id
        return f"its id was {saved.topic_id} and is now {now.topic_id}" if other else ""
    for n in sorted(saved.first.keys() & now.first.keys()):
        before, after = saved.first[n], now.first[n]
        if after.offset < before.offset:
            return f"partition {n} began at offset {before.offset} and now begins at {after.offset}"
        if after.offset == before.offset and after.time_ms != before.time_ms:
            return f"the time of the first row of partition {n} has changed"
    return ""
