"""Brokers of Kafka."""

from __future__ import annotations

from flinkish.connectors.kafka.connector import KafkaAnswer, kafka_answer
from flinkish.connectors.kafka.reading import BrokerAnswer, parse_position
from flinkish.connectors.kafka.topics import ask_for
from flinkish.driver.connectors.question import SourceQuestion


def ask(question: SourceQuestion) -> KafkaAnswer:
    """Return what the broker of a source has of the topics of the source and of its position."""
    position = parse_position(question.saved.offset)
    if position is None:
        broker = BrokerAnswer(None, "the saved position is not one of Kafka")
    else:
        broker = ask_for(question.source, position, at_ms=question.at_ms)
    return kafka_answer(question.source, question.saved, broker)
