"""The offsets of topics from a Kafka broker, where no driver runs (``savepoint show --lag``).

This module uses the client of the extra ``kafka`` (kafka-python), and creates no topic. Drivers use
the client of Spark's own connector instead (``flinkish.driver.connectors.kafka``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from flinkish.connectors.kafka.reading import Available
from flinkish.errors import BrokerError

#: Seconds for the first answer of a broker, and for each one after that.
TIMEOUT = 5.0
#: Kafka's error codes for topics that do not exist, or whose name is invalid.
_MISSING = frozenset({3, 17})


def topics_of(
    servers: str, names: Collection[str], *, timeout: float = TIMEOUT
) -> dict[str, dict[int, Available]]:
    """Return the offsets of the topics that exist, by topic and partition.

    ``servers`` is ``host:port``, several separated by commas. Raises BrokerError if there is no
    client or no answer, or if the broker refuses.
    """
    if not names:
        return {}  # so no broker is asked
    with _client(servers, timeout) as admin:
        from kafka.protocol.consumer import OffsetSpec
        from kafka.structs import TopicPartition

        places = []
        for topic in admin.describe_topics(sorted(names)):
            if topic["error_code"] in _MISSING:
                continue
            _check(topic, servers)
            numbers = [each["partition_index"] for each in topic["partitions"]]
            places += [TopicPartition(topic["name"], number) for number in numbers]
        begin, end = (
            admin.list_partition_offsets(dict.fromkeys(places, which)) if places else {}
            for which in (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
        )
    topics: dict[str, dict[int, Available]] = {}
    for place in sorted(places):
        available = Available(begin[place].offset, end[place].offset)
        topics.setdefault(place.topic, {})[place.partition] = available
    return topics


@contextmanager
def _client(servers: str, timeout: float) -> Iterator[Any]:
    """Yield a client of the broker; its errors become a BrokerError."""
    try:
        from kafka import KafkaAdminClient
        from kafka.errors import KafkaError
    except ImportError as error:
        raise BrokerError(
            "this Python has no Kafka client (kafka-python)",
            hint="install it with: pip install 'flinkish[kafka]'",
        ) from error
    limit = max(1, int(timeout * 1000))
    opened: list[Any] = []

    def connect(**settings: Any) -> Any:
        opened.append(KafkaAdminClient.DEFAULT_CONFIG["kafka_client"](**settings))
        return opened[-1]

    try:
        with KafkaAdminClient(
            bootstrap_servers=[each.strip() for each in servers.split(",")],
            client_id="flinkish",
            bootstrap_timeout_ms=limit,
            request_timeout_ms=limit,
            kafka_client=connect,
        ) as admin:
            yield admin
    except (KafkaError, OSError, ValueError) as error:
        for connection in opened:  # otherwise its thread tries to connect forever
            connection.close()
        raise BrokerError(
            f"{servers} does not answer within {timeout:g} s, or refuses: {error}"
        ) from error


def _check(topic: Mapping[str, Any], servers: str) -> None:
    if topic["error_code"]:
        from kafka.errors import for_code

        word = for_code(topic["error_code"]).__name__
        raise BrokerError(f"{servers} does not describe topic {topic['name']}: {word}")
