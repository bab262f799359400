"""Questions to Kafka brokers, asked with the client of Spark's connector in the program's session.

The client gets the source's ``kafka.*`` options, as Spark passes them to the client with which its
source looks up offsets (``KafkaOffsetReaderAdmin``). So it logs in wherever Spark does: by
Kerberos, OAuth, delegation tokens, Java's key stores or a class of the user's. Like Spark, flinkish
asks through it for metadata of topics, and asks the leaders of their partitions for offsets. Asking
for a topic does not create it.

Facts used (observed on Spark 3.5.9 and 4.3.0 with the connectors of 3.5.7 and 4.1.1, whose clients
are 3.4.1 and 3.9.1):

* ``KafkaSourceProvider.kafkaParamsForDriver`` turns these options into a client's settings, and
  ``ConsumerStrategy.createAdmin`` adds the delegation token, if there is one.
* A topic that does not exist, or cannot exist, fails only its own future
  (``UnknownTopicOrPartitionException``, ``InvalidTopicException``).
* ``default.api.timeout.ms`` limits each request; it must not be below ``request.timeout.ms``.
* No setting limits the time to create a client, which resolves the names of the servers and, with
  Kerberos, logs in.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from flinkish.connectors.kafka.connector import CLIENT_OPTIONS, KafkaAnswer, kafka_answer
from flinkish.connectors.kafka.reading import (
    Available,
    BrokerAnswer,
    FirstRow,
    Position,
    TopicIdentity,
    parse_position,
    reading_of,
)
from flinkish.connectors.sources import NewSource
from flinkish.driver.connectors.question import SourceQuestion, within
from flinkish.driver.connectors.table import first_line
from flinkish.driver.log import log
from flinkish.errors import BrokerError

#: Seconds to wait for each answer of a broker.
TIMEOUT = 5.0
#: The same for a savepoint, which is taken without the answer if that comes later.
_BRIEFLY = 2.0
#: Factor on these times for the creation of a client, and for a client that hangs.
_PATIENCE = 3
#: The exception of Java for a client that hangs. Kafka has its own for a broker without an answer.
_HANGS = "java.util.concurrent.TimeoutException"
_MISSING = frozenset({"InvalidTopicException", "UnknownTopicOrPartitionException"})
#: Milliseconds since the epoch: every row with a timestamp has this one or a later one.
_EVER = 0
#: The id that a client reports for a topic if the broker gives topics no ids.
_NO_ID = uuid.UUID(int=0)


def ask(question: SourceQuestion) -> KafkaAnswer:
    """Return the broker's answer about the topics of a source and of its saved position."""
    position = parse_position(question.saved.offset)
    if position is None:
        broker = BrokerAnswer(None, "the saved position is not one of Kafka")
    else:
        broker = ask_broker(question.session, question.source, position, at_ms=question.at_ms)
    return kafka_answer(question.source, question.saved, broker)


def identify(session: Any, source: NewSource) -> dict[str, Any]:
    """Return, for a savepoint, what tells a source's topics from later ones of the same names."""
    answer = ask_broker(session, source, {}, timeout=_BRIEFLY)
    if answer.topics is None:
        log(f"{source.describe()}: the savepoint has no ids of its topics: {answer.why}")
    topics = {name: each.to_json() for name, each in answer.identities.items()}
    return {"topics": topics} if topics else {}


def ask_broker(
    session: Any,
    source: NewSource,
    position: Position,
    *,
    at_ms: int | None = None,
    timeout: float = TIMEOUT,
) -> BrokerAnswer:
    """Return the broker's answer about the topics that a source reads, or has read.

    If the broker cannot be asked, the answer says why. ``at_ms`` is a time (milliseconds since the
    epoch) whose offsets are asked for too.
    """
    settings = client_options(source.options)
    if not settings.get("bootstrap.servers"):
        return BrokerAnswer(None, "the source's bootstrap servers are unknown")
    reading = reading_of(source.signature, source.options)
    names = reading.topics | set(position)
    pattern = reading.pattern
    try:
        with _client(session, settings, timeout) as client:
            if pattern is not None:
                names |= {name for name in client.names() if pattern.search(name)}
            ids = client.topics(names)
            places = [(name, n) for name, (_, count) in ids.items() for n in range(count)]
            begin, end, first = (client.offsets(places, of) for of in ("earliest", "latest", _EVER))
            late = None if at_ms is None else client.offsets(places, at_ms)
    except BrokerError as error:
        return BrokerAnswer(None, error.message)
    topics: dict[str, dict[int, Available]] = {name: {} for name in ids}
    rows: dict[str, dict[int, FirstRow]] = {name: {} for name in ids}
    at: dict[str, dict[int, int | None]] = {name: {} for name in ids}
    for place in places:
        name, n = place
        topics[name][n] = Available(begin[place].offset, end[place].offset)
        if first[place].offset >= 0:
            rows[name][n] = first[place]
        if late is not None:
            at[name][n] = late[place].offset if late[place].offset >= 0 else None
    identities = {name: TopicIdentity(ids[name][0], rows[name]) for name in ids}
    return BrokerAnswer(topics, at=None if late is None else at, identities=identities)


def client_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return the client's settings that the options of a source contain. Pure."""
    return {
        name.lower().removeprefix(CLIENT_OPTIONS): value
        for name, value in options.items()
        if name.lower().startswith(CLIENT_OPTIONS)
    }


@dataclass(frozen=True)
class _Client:
    """Kafka's ``Admin``; a place is a topic and a partition."""

    jvm: Any
    admin: Any
    committed: bool
    limit_ms: int

    def names(self) -> set[str]:
        """Return the names of all topics except Kafka's internal ones."""
        joined = self.jvm.java.lang.String.join("\n", self._get(self.admin.listTopics().names()))
        return set(str(joined).split("\n")) - {""}

    def topics(self, names: Collection[str]) -> dict[str, tuple[str | None, int]]:
        """Return the id and the number of partitions of each topic that exists, by its name.

        Internal topics are left out; the id is None if the broker gives none.
        """
        from py4j.protocol import Py4JJavaError

        if not names:
            return {}
        wanted = self.jvm.java.util.ArrayList()
        for name in sorted(names):
            wanted.add(name)
        futures = self.admin.describeTopics(wanted).topicNameValues()
        topics: dict[str, tuple[str | None, int]] = {}
        for name in sorted(names):
            try:
                topic = self._get(futures.get(name))
            except Py4JJavaError as error:
                if _cause(error.java_exception).getClass().getSimpleName() not in _MISSING:
                    raise
                continue
            if not topic.isInternal():
                topics[name] = _id(str(topic.topicId())), int(topic.partitions().size())
        return topics

    def offsets(
        self, places: Collection[tuple[str, int]], of: str | int
    ) -> dict[tuple[str, int], FirstRow]:
        """Return one offset of each place, and for a time the timestamp of the row at the offset.

        ``of`` is ``earliest`` or ``latest``, or a time in milliseconds since the epoch. For a time
        it is the offset of the first row at or after that time, -1 if there is no such row.
        """
        if not places:
            return {}
        admin = self.jvm.org.apache.kafka.clients.admin
        common = self.jvm.org.apache.kafka.common
        spec = (
            admin.OffsetSpec.forTimestamp(of)
            if isinstance(of, int)
            else getattr(admin.OffsetSpec, of)()
        )
        levels = common.IsolationLevel
        level = levels.READ_COMMITTED if self.committed else levels.READ_UNCOMMITTED
        keys = {place: common.TopicPartition(*place) for place in places}
        wanted = self.jvm.java.util.HashMap()
        for key in keys.values():
            wanted.put(key, spec)
        asked = self.admin.listOffsets(wanted, admin.ListOffsetsOptions(level))
        answers = self._get(asked.all())
        infos = {place: answers.get(key) for place, key in keys.items()}
        return {p: FirstRow(int(i.offset()), int(i.timestamp())) for p, i in infos.items()}

    def _get(self, future: Any) -> Any:
        # Each request has its own limit; this one is for a client that hangs.
        limit = _PATIENCE * self.limit_ms
        return future.get(limit, self.jvm.java.util.concurrent.TimeUnit.MILLISECONDS)


@contextmanager
def _client(session: Any, options: Mapping[str, str], timeout: float) -> Iterator[_Client]:
    """Yield a client that logs in as a source does; turn its errors into BrokerError."""
    from py4j.protocol import Py4JError, Py4JJavaError

    servers = options["bootstrap.servers"]
    limit = max(1, int(timeout * 1000))
    jvm = session._jvm
    try:
        settings = jvm.java.util.HashMap()
        limits = dict.fromkeys(("default.api.timeout.ms", "request.timeout.ms"), str(limit))
        for name, value in {**options, **limits}.items():
            settings.put(name, value)
        spark = jvm.org.apache.spark.sql.kafka010
        parameters = spark.KafkaSourceProvider.kafkaParamsForDriver(
            jvm.PythonUtils.toScalaMap(settings)
        )
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()

        def create() -> Any:
            jvm.java.lang.Thread.currentThread().setContextClassLoader(loader)
            return spark.SubscribePatternStrategy("").createAdmin(parameters)

        admin = within(_PATIENCE * timeout, create, lambda late: _close(jvm, late))
        try:
            committed = options.get("isolation.level", "").lower() == "read_committed"
            yield _Client(jvm, admin, committed, limit)
        finally:
            _close(jvm, admin)
    except TimeoutError as error:
        raise BrokerError(
            f"no client for {servers} within {_PATIENCE * timeout:g} s: a name of the servers is "
            "not resolved, or the login does not end"
        ) from error
    except TypeError as error:  # for Py4J, a missing class is a package
        if "JavaPackage" not in str(error):
            raise
        raise BrokerError("the session has no classes of Spark's connector for Kafka") from error
    except Py4JJavaError as error:
        why = first_line(_cause(error.java_exception).toString())
        raise BrokerError(unanswered(servers, why, timeout)) from error
    except Py4JError as error:
        raise BrokerError(f"{servers} was not asked: {first_line(error)}") from error


def unanswered(servers: str, why: str, timeout: float) -> str:
    """Return the text for a request that failed because of ``why``, a Java exception. Pure."""
    if why.startswith(_HANGS):
        return f"{servers} does not answer within {_PATIENCE * timeout:g} s"
    return f"{servers} does not answer within {timeout:g} s, or refuses: {why}"


def _close(jvm: Any, admin: Any) -> None:
    admin.close(jvm.java.time.Duration.ZERO)


def _cause(error: Any) -> Any:
    """Return the root cause of a Java exception."""
    while error.getCause() is not None:
        error = error.getCause()
    return error


def _id(text: str) -> str | None:
    """Return a topic's id, which Kafka writes in base64, as the text of a UUID; None for no id."""
    topic_id = uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    return None if topic_id == _NO_ID else str(topic_id)
