"""The connector of Spark's Kafka source and sink (``org.apache.spark.sql.kafka010``). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from flinkish.connectors.base import NO_OFFSETS, Connector
from flinkish.connectors.kafka.new_offsets import kafka_offsets, reset_cost
from flinkish.connectors.kafka.offset_checks import judge, rows_waiting
from flinkish.connectors.kafka.reading import (
    STRATEGIES,
    BrokerAnswer,
    Identities,
    KafkaReading,
    Position,
    Topics,
    made_again,
    parse_identities,
    parse_position,
    reading_of,
    unknown,
)
from flinkish.connectors.offsets import NewOffsets, Target, Unresolved
from flinkish.connectors.source_plan import SourcePlan, change_of
from flinkish.connectors.sources import Consent, Finding, NewSource, SavedSource, SourceAnswer
from flinkish.messages.plan import RestoreOutcome

#: Prefix of the options for a Kafka client; the client that asks the broker gets them too. They may
#: contain passwords, which must not leave the driver or appear in a repr.
CLIENT_OPTIONS = "kafka."


@dataclass(frozen=True)
class KafkaAnswer(SourceAnswer):
    """A broker's answer about a source, and the facts with which it is compared.

    ``starting`` is where the source starts without a position, empty if unknown. ``known`` has the
    identities of the topics when the position was saved; a topic may have been recreated since.
    """

    reading: KafkaReading
    broker: BrokerAnswer = field(default_factory=BrokerAnswer)
    starting: str = ""
    known: Identities = field(default_factory=dict)

    def judge(self, offset: str, consent: Consent) -> Iterator[Finding]:
        """Yield the findings about a source that resumes from a position."""
        position, topics = parse_position(offset), self.broker.topics
        if position is None:
            return
        yield from self._not_asked()
        yield from judge(self.reading, position, self.broker, consent, self.recreated)
        yield from _unknown(unknown(self.known, self.broker.identities))
        if topics is not None:
            yield from _lag(self.reading, position, topics)

    def judge_reset(self, offset: str) -> Iterator[Finding]:
        """Yield which rows the source skips or reads again if it gives up a position."""
        position = parse_position(offset)
        if position is None:
            return
        yield from self._not_asked()
        cost = reset_cost(self.reading, position, self.broker.topics, self.starting, self.recreated)
        if cost:
            yield Finding("kafka-reset", RestoreOutcome.NOTE, cost)

    def counts_losses(self, offset: str) -> bool:
        """Return whether the rows of the findings are all that the source loses at a position."""
        return self.broker.topics is not None and parse_position(offset) is not None

    @property
    def recreated(self) -> Mapping[str, str]:
        """The topics that were recreated since the position was saved, with the evidence."""
        return made_again(self.known, self.broker.identities)

    def _not_asked(self) -> Iterable[Finding]:
        if self.broker.topics is None and self.broker.why:
            text = f"no answer from the broker: {self.broker.why}"
            yield Finding("broker-not-asked", RestoreOutcome.NOTE, text)


def _unknown(topics: list[str]) -> Iterable[Finding]:
    if topics:
        text = (
            f"whether topic {', '.join(topics)} was recreated is unknown: the savepoint or the "
            "broker (before Kafka 2.8) has no id for it, and no first row of it is known to be "
            "the same"
        )
        yield Finding("topic-unknown", RestoreOutcome.NOTE, text)


def _lag(reading: KafkaReading, position: Position, topics: Topics) -> Iterable[Finding]:
    """Yield a note on the rows that wait in the partitions that the source reads."""
    read = {
        topic: {n: has for n, has in partitions.items() if reading.reads(topic, n)}
        for topic, partitions in topics.items()
    }
    waiting = {topic: rows for topic, rows in rows_waiting(position, read).items() if rows}
    if waiting:
        each = ", ".join(f"{rows:,} in topic {topic}" for topic, rows in waiting.items())
        yield Finding("kafka-lag", RestoreOutcome.NOTE, f"unread rows: {each}")


class KafkaConnector(Connector):
    """Kafka's source and sink."""

    def is_read_again(self, options: Mapping[str, str]) -> bool:
        """Return whether a query in a new checkpoint reads the input of an earlier run again.

        By default such a query begins with the rows that arrive after its start.
        """
        lowered = {name.lower(): value.strip().lower() for name, value in options.items()}
        starts = [lowered.get(f"starting{what}") for what in ("offsets", "timestamp")]
        starts.append(lowered.get("startingoffsetsbytimestamp"))
        return any(start not in (None, "latest") for start in starts)

    def changed(self, source: NewSource, saved: SavedSource) -> SourcePlan:
        """Return the row of a source that reads other topics now."""
        text = f"{change_of(source, saved)}: new topics are read from their beginning"
        return SourcePlan(source, saved, "changed", "topics-changed", text)

    def unasked(self, source: NewSource, saved: SavedSource, why: str = "") -> KafkaAnswer:
        """Return the answer without a broker, from the position alone."""
        return kafka_answer(source, saved, BrokerAnswer(None, why))

    def offsets(
        self, source: NewSource, saved: SavedSource, target: Target, answer: SourceAnswer | None
    ) -> NewOffsets | Unresolved:
        """Return the offsets to which a source is moved, or why it cannot be moved.

        The offsets are resolved with the answer of its broker, if there is one.
        """
        position = parse_position(saved.offset)
        if position is None:
            return NO_OFFSETS
        asked = answer if isinstance(answer, KafkaAnswer) else self.unasked(source, saved)
        return kafka_offsets(
            target, asked.reading, position, asked.broker, recreated=asked.recreated
        )

    def replayed(self, spark: str) -> Finding | None:
        """Return a finding if the version ``spark`` may fail after replaying a planned batch.

        ``KafkaMicroBatchStream.metrics`` of Spark 4.1 (seen in 4.1.1, not in 4.0.1 and 4.2.0;
        SPARK-55271) wraps ``latestPartitionOffsets`` in ``Some``, although it is null until Spark
        has asked the source for its latest offsets, and a replay does not ask. So the query ends
        with a NullPointerException when it reports its progress. The batch is committed by then, so
        the query continues when it is started again.
        """
        if not spark.startswith("4.1."):
            return None
        return Finding(
            "kafka-replay-fails",
            RestoreOutcome.WARNING,
            f"replays a planned batch; the Kafka connector of Spark {spark} may fail when that "
            "batch is committed (SPARK-55271, seen on 4.1.1: NullPointerException in "
            "KafkaMicroBatchStream.metrics)",
            "a restart loses nothing: run it with --restart-strategy fixed-delay, or restart the "
            "job after it has failed",
        )


def kafka_answer(source: NewSource, saved: SavedSource, broker: BrokerAnswer) -> KafkaAnswer:
    """Return a broker's answer about a source, with the saved identities of its topics."""
    return KafkaAnswer(
        reading_of(source.signature, source.options),
        broker,
        starting_offsets(source),
        parse_identities(saved.topics),
    )


def starting_offsets(source: NewSource) -> str:
    """Return where a Kafka source starts without a position; empty if unknown."""
    lowered = {name.lower(): value for name, value in source.options.items()}
    if not lowered:
        return ""
    for name in ("startingtimestamp", "startingoffsetsbytimestamp"):
        if name in lowered:
            return name
    return lowered.get("startingoffsets", "latest")


KAFKA = KafkaConnector(
    "kafka",
    "Kafka",
    options=(
        *(*STRATEGIES, "failOnDataLoss"),
        *("startingOffsets", "startingOffsetsByTimestamp", "startingTimestamp"),
        CLIENT_OPTIONS,
    ),
    packages=("kafka010",),
    repeats_batches=True,
    keeps_log=False,
)
