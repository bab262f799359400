"""A Kafka source's topics, its saved position, and a broker's answer about them. Pure.

A position is ``{"topic": {"partition": offset}}`` (Spark's ``KafkaSourceOffset`` and
``JsonUtils``); an offset is that of the next row to read. The options are those of
``KafkaSourceProvider``, and they assign partitions as in
``ConsumerStrategy.assignedTopicPartitions``, Spark 3.5 to 4.3: ``subscribePattern`` is *searched*
in the names of topics (``findFirstIn``), and need not match a whole name. In the deprecated reader
(``spark.sql.streaming.kafka.useDeprecatedOffsetFetching``) it must match a whole name.

The identity of a topic shows whether the topic was deleted and recreated under its name. A
recreated topic begins at offset 0. If it has already grown beyond the saved position, Spark
continues in the middle of it and does not notice that its rows are new. Brokers since Kafka 2.8
give each topic a unique id. With older brokers, the first row of a partition is an indication: its
offset never decreases, and as long as its offset is the same, its time must be the same. Once
retention has deleted the row that was saved, nothing can be said.
"""

from __future__ import annotations

import json
import re
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
        The first row of each partition, unless the partition is empty or its rows have no time.
    """

    topic_id: str | None = None
    first: Mapping[int, FirstRow] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain data for a savepoint."""
        first = {str(n): [row.offset, row.time_ms] for n, row in sorted(self.first.items())}
        return {"id": self.topic_id, "first": first}


#: The identities of topics, by name.
Identities = Mapping[str, TopicIdentity]


def parse_identities(parsed: object) -> dict[str, TopicIdentity]:
    """Return the identities of topics that a savepoint recorded; invalid parts are left out."""
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
        if re.fullmatch("[0-9]{1,9}", n)
        and isinstance(row, list)
        and [type(each) for each in row] == [int, int]
    }


def made_again(saved: Identities, now: Identities) -> dict[str, str]:
    """Return the topics that were recreated since the savepoint, with the evidence as a clause."""
    differences = {
        topic: _difference(saved[topic], now[topic]) for topic in saved.keys() & now.keys()
    }
    return {topic: why for topic, why in sorted(differences.items()) if why}


def unknown(saved: Identities, now: Identities) -> list[str]:
    """Return the topics of which nothing shows whether they were recreated since the savepoint."""
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


#: Offsets by topic and partition.
Position = Mapping[str, Mapping[int, int]]
#: The options that say what a source reads; exactly one of them is given.
STRATEGIES = ("subscribe", "subscribePattern", "assign")
#: Parts of a signature that can follow what a Kafka source reads.
_BEHIND = re.compile(r", (?:topic|host|port|rowsPerSecond|numPartitions)=.*$", re.DOTALL)


@dataclass(frozen=True)
class Available:
    """The offsets of a partition: of its first row, and of the next row that will be written."""

    begin: int
    end: int

    def unread(self, saved: int, *, recreated: bool) -> int:
        """Return how many rows follow a saved offset; all, if it is that of another topic."""
        is_other = recreated or saved > self.end
        return self.end - (self.begin if is_other else saved)


#: What a broker has, by topic and partition.
Topics = Mapping[str, Mapping[int, Available]]


@dataclass(frozen=True)
class BrokerAnswer:
    """A broker's answer about the topics of a source.

    Attributes
    ----------
    topics
        The topics that the broker was asked about and has; for a pattern, these include all that
        match it. None if the broker was not asked, or did not answer.
    why
        The reason why ``topics`` is None.
    at
        The offsets at the time that was asked for, by topic and partition; None for a partition
        that has no row so late. ``at`` itself is None if no time was asked for.
    identities
        The identities of the topics, which distinguish them from other topics of the same names.
    """

    topics: Topics | None = None
    why: str = ""
    at: Mapping[str, Mapping[int, int | None]] | None = None
    identities: Identities = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class KafkaReading:
    """What a Kafka source of the program reads, and how.

    Attributes
    ----------
    how, what
        The option of :data:`STRATEGIES`, and its value.
    fail_on_data_loss
        None if unknown.
    """

    how: str
    what: str
    fail_on_data_loss: bool | None = None

    @property
    def topics(self) -> frozenset[str]:
        """The topics that ``subscribe`` or ``assign`` names; none for a pattern."""
        if self.how == "subscribe":
            return frozenset(name for topic in self.what.split(",") if (name := topic.strip()))
        return frozenset(self._assigned() or ())

    @property
    def pattern(self) -> re.Pattern[str] | None:
        """The pattern of ``subscribePattern``; None without one, or if only Java understands it."""
        if self.how != "subscribePattern":
            return None
        try:
            return re.compile(self.what.strip())
        except re.error:
            return None

    @property
    def is_known(self) -> bool:
        """Whether it is known which topics the source reads."""
        return bool(self.topics) or self.pattern is not None

    def _assigned(self) -> dict[str, frozenset[int]] | None:
        if self.how != "assign":
            return None
        try:
            parsed = json.loads(self.what)
            return {topic: frozenset(map(int, numbers)) for topic, numbers in parsed.items()}
        except (AttributeError, TypeError, ValueError, RecursionError):
            return None

    def reads(self, topic: str, partition: int) -> bool:
        """Return whether the source reads an existing partition; True if that is unknown."""
        pattern, assigned = self.pattern, self._assigned()
        if pattern is not None:
            return pattern.search(topic) is not None
        if assigned is not None:
            return partition in assigned.get(topic, ())
        return topic in self.topics if self.how == "subscribe" else True


def parse_position(text: str) -> dict[str, dict[int, int]] | None:
    """Return the saved position in a text, sorted; None if the text is no position of Kafka."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return position_of(parsed)


def position_of(parsed: object) -> dict[str, dict[int, int]] | None:
    """Return the position in parsed JSON, sorted; None if the JSON is no position of Kafka."""
    if not isinstance(parsed, dict) or not parsed:
        return None
    position: dict[str, dict[int, int]] = {}
    for topic, partitions in sorted(parsed.items()):
        if not isinstance(partitions, dict):
            return None
        offsets = {}
        for partition, offset in partitions.items():
            if not re.fullmatch("[0-9]{1,9}", partition) or type(offset) is not int:
                return None
            offsets[int(partition)] = offset
        position[topic] = dict(sorted(offsets.items()))
    return position


def reading_of(signature: str, options: Mapping[str, str]) -> KafkaReading:
    """Return what a source reads, according to its options, or else to its signature.

    ``options`` are those that matter for a restore (:attr:`.Connector.options`); empty if unknown.
    """
    lowered = {name.lower(): value for name, value in options.items()}
    how, _, what = signature.partition("[")[2].removesuffix("]").partition("=")
    what = _BEHIND.sub("", what)
    for name in STRATEGIES:
        how, what = (name, lowered[name.lower()]) if name.lower() in lowered else (how, what)
    word = lowered.get("failondataloss", "true").strip().lower() if lowered else None
    return KafkaReading(how, what, None if word is None else word == "true")
