"""What a Kafka broker has: partitions, their first and next offsets, and offsets by time.

The only place that speaks to a broker, by the client of the extra ``kafka`` (kafka-python, pure
Python, as drivers have other Pythons). A broker is asked what Spark asks it
(``KafkaOffsetReaderAdmin``): metadata of topics, and ``ListOffsets`` of their leaders. No topic is
made by asking for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from flinkish.connectors.kafka.identity import FirstRow, TopicIdentity
from flinkish.connectors.kafka.reading import (
    Available,
    BrokerAnswer,
    Position,
    reading_of,
)
from flinkish.connectors.kafka.security import CannotLogIn, client_settings
from flinkish.connectors.sources import NewSource
from flinkish.errors import BrokerError

#: Seconds for the first answer of a broker, and for each one after that.
TIMEOUT = 5.0
#: Kafka's codes of topics that do not exist, or have a name that none can have.
_MISSING = frozenset({3, 17})
#: The time at or after which all rows are that have one.
_EVER = 0


def ask_for(
    source: NewSource,
    position: Position,
    *,
    at_ms: int | None = None,
    timeout: float = TIMEOUT,
) -> BrokerAnswer:
    """Return what the broker of a source has of the topics that it reads, or has read.

    Never raises: a broker that cannot be asked is an answer too.

    Parameters
    ----------
    at_ms
        A time, to ask for the offsets at it too: milliseconds since the epoch.
    """
    given = {name.lower(): value for name, value in source.options.items()}
    servers = given.get("kafka.bootstrap.servers")
    if not servers:
        return BrokerAnswer(None, "the source's bootstrap servers are unknown")
    try:
        login = client_settings(given)
    except CannotLogIn as why:
        return BrokerAnswer(None, str(why))
    reading = reading_of(source.signature, source.options)
    wanted = reading.topics | set(position)
    pattern = reading.pattern
    try:
        found, identities = _look(
            servers,
            lambda name: name in wanted or (pattern is not None and bool(pattern.search(name))),
            names=wanted if pattern is None else None,
            committed=given.get("kafka.isolation.level", "").lower() == "read_committed",
            timeout=timeout,
            login=login,
        )
        at = None
        if at_ms is not None:
            at = offsets_at(servers, set(found), at_ms, timeout=timeout, login=login)
    except BrokerError as error:
        return BrokerAnswer(None, error.message)
    return BrokerAnswer(found, at=at, identities=identities)


def topics_of(
    servers: str,
    wanted: Callable[[str], bool] = lambda _: True,
    *,
    names: Collection[str] | None = None,
    committed: bool = False,
    timeout: float = TIMEOUT,
    login: Mapping[str, Any] | None = None,
) -> dict[str, dict[int, Available]]:
    """Return the offsets of the topics that exist; Kafka's own topics are left out.

    Parameters
    ----------
    servers
        ``host:port``, several separated by commas (``bootstrap.servers``).
    wanted
        Which topics; the names are asked for alone where they are given.
    committed
        Whether rows of open transactions do not count (``isolation.level=read_committed``).
    timeout
        Seconds, see :data:`TIMEOUT`.
    login
        How the client logs in (:func:`~flinkish.connectors.kafka.security.client_settings`).

    Raises
    ------
    BrokerError
        There is no client, or no answer.
    """
    found, _ = _look(
        servers, wanted, names=names, committed=committed, timeout=timeout, login=login
    )
    return found


def _look(
    servers: str,
    wanted: Callable[[str], bool],
    *,
    names: Collection[str] | None,
    committed: bool,
    timeout: float,
    login: Mapping[str, Any] | None,
) -> tuple[dict[str, dict[int, Available]], dict[str, TopicIdentity]]:
    """Return the offsets of topics, and what tells them from others; see :func:`topics_of`."""
    with _client(servers, timeout, login) as admin:
        from kafka.protocol.consumer import IsolationLevel, OffsetSpec

        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        ids, places = _topics(admin, servers, wanted, names)
        begin, end, first = (
            admin.list_partition_offsets(dict.fromkeys(places, which), level) if places else {}
            for which in (OffsetSpec.EARLIEST, OffsetSpec.LATEST, _EVER)
        )
    found: dict[str, dict[int, Available]] = {}
    rows: dict[str, dict[int, FirstRow]] = {}
    for place in sorted(places):
        available = Available(begin[place].offset, end[place].offset)
        found.setdefault(place.topic, {})[place.partition] = available
        if first[place].offset >= 0:
            row = FirstRow(first[place].offset, first[place].timestamp)
            rows.setdefault(place.topic, {})[place.partition] = row
    return found, {name: TopicIdentity(ids[name], rows.get(name, {})) for name in found}


def offsets_at(
    servers: str,
    names: Collection[str],
    time_ms: int,
    *,
    timeout: float = TIMEOUT,
    login: Mapping[str, Any] | None = None,
) -> dict[str, dict[int, int | None]]:
    """Return the offset of the first row at or after a time, by topic and partition.

    Parameters
    ----------
    time_ms
        Milliseconds since the epoch.
    login
        As for :func:`topics_of`.

    Returns
    -------
    dict
        None for a partition that has no row so late. Topics that do not exist are left out.

    Raises
    ------
    BrokerError
        There is no client, or no answer.
    """
    with _client(servers, timeout, login) as admin:
        _, places = _topics(admin, servers, lambda _: True, names)
        answers = admin.list_partition_offsets(dict.fromkeys(places, time_ms)) if places else {}
    found: dict[str, dict[int, int | None]] = {}
    for place in sorted(places):
        offset = answers[place].offset
        found.setdefault(place.topic, {})[place.partition] = None if offset < 0 else offset
    return found


@contextmanager
def _client(servers: str, timeout: float, login: Mapping[str, Any] | None = None) -> Iterator[Any]:
    """Yield a client of the broker; what it raises becomes a BrokerError."""
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
            **(login or {}),
        ) as admin:
            yield admin
    except (KafkaError, OSError, ValueError) as error:
        for connection in opened:  # else its thread tries to connect for ever
            connection.close()
        raise BrokerError(
            f"{servers} does not answer within {timeout:g} s, or refuses: {error}"
        ) from error


def _topics(
    admin: Any, servers: str, wanted: Callable[[str], bool], names: Collection[str] | None
) -> tuple[dict[str, str | None], list[Any]]:
    """Return the ids of the topics that exist, and their partitions as the client's own pairs."""
    from kafka.structs import TopicPartition

    if names is not None and not names:
        return {}, []  # to the client an empty list means all
    ids: dict[str, str | None] = {}
    found = []
    for topic in admin.describe_topics(None if names is None else sorted(names)):
        if topic["is_internal"] or not wanted(topic["name"]) or topic["error_code"] in _MISSING:
            continue
        _check(topic, servers)
        numbers = [each["partition_index"] for each in topic["partitions"]]
        found += [TopicPartition(topic["name"], number) for number in numbers]
        topic_id = str(topic.get("topic_id") or "")  # all zeros of a broker that has none
        ids[topic["name"]] = topic_id if topic_id.strip("0-") else None
    return ids, found


def _check(topic: Mapping[str, Any], servers: str) -> None:
    if topic["error_code"]:
        from kafka.errors import for_code

        word = for_code(topic["error_code"]).__name__
        raise BrokerError(f"{servers} does not describe topic {topic['name']}: {word}")
