"""A real broker, and none, asked by Spark's own client for the topics of a source."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinkish.connectors.kafka.connector import KafkaAnswer
from flinkish.connectors.kafka.reading import (
    Available,
    BrokerAnswer,
    FirstRow,
    Position,
    made_again,
    reading_of,
)
from flinkish.connectors.sources import Consent, NewSource
from flinkish.driver.connectors import kafka as driver_kafka
from flinkish.driver.connectors.kafka import ask_broker, client_options, identify, unanswered
from flinkish.driver.plan.plan_classes import read_tree
from flinkish.driver.plan.plan_sources import read_relations
from tests.support.restore.query_builders import reads
from tests.support.servers import jars
from tests.support.servers.kafka import PASSWORD, USER, KafkaServer
from tests.support.servers.process import free_port

pytestmark = [pytest.mark.spark, pytest.mark.servers]

SECURITY = "org.apache.kafka.common.security"
PLAIN = f"{SECURITY}.plain.PlainLoginModule"
SCRAM = f"{SECURITY}.scram.ScramLoginModule"
SECRET = "only for the store"
OAUTH = f"{SECURITY}.oauthbearer.OAuthBearerLoginModule"


@pytest.fixture(scope="module")
def session(spark: Any) -> Iterator[Any]:
    """The session, with the classes of the connector for this thread alone."""
    # There is none for every Spark; the client and what makes its settings are the same for 4.x.
    line = "3.5" if spark.version.startswith("3.5.") else "4.1"
    try:
        found = jars.jars(f"kafka-connector-{line}")
    except jars.Unavailable as why:
        pytest.skip(f"needs {why}")
    jvm = spark._jvm
    urls = spark.sparkContext._gateway.new_array(jvm.java.net.URL, len(found))
    for n, jar in enumerate(found):
        urls[n] = jvm.java.net.URL(jar.as_uri())
    thread = jvm.java.lang.Thread.currentThread()
    before = thread.getContextClassLoader()
    thread.setContextClassLoader(jvm.java.net.URLClassLoader(urls, before))
    yield spark
    thread.setContextClassLoader(before)


def rows(count: int, since_ms: int = 1_000) -> list[tuple[int, bytes]]:
    return [(since_ms + 1_000 * n, str(n).encode()) for n in range(count)]


def program(bootstrap: str, **how: str) -> NewSource:
    """A source of a program that says failOnDataLoss=false."""
    options = {"kafka.bootstrap.servers": bootstrap, "failOnDataLoss": "false", **how}
    return replace(reads("kafka[]", uid="in"), options=options)


def test_a_source_whose_topics_change(session: Any, kafka: KafkaServer) -> None:
    def told(source: NewSource, position: Position) -> list[tuple[str, int]]:
        """What is found with the real answer, with its cost."""
        answer = ask_broker(session, source, position)
        assert answer.topics is not None, answer.why
        known = KafkaAnswer(reading_of(source.signature, source.options), answer)
        offset = json.dumps({topic: dict(found) for topic, found in position.items()})
        found = known.judge(offset, Consent("--reset-source in"))
        return [(each.reason, each.rows or 0) for each in found if each.reason != "kafka-lag"]

    for name in ("src-a", "src-b"):
        kafka.make_topic(name)
        kafka.write(name, 0, rows(10))
    saved = {"src-a": {0: 4}, "src-b": {0: 10}}
    both = program(kafka.bootstrap, subscribe="src-a,src-b,not a name!")
    pattern = program(kafka.bootstrap, subscribePattern="src-")
    for source in (both, pattern):
        answer = ask_broker(session, source, saved, at_ms=3_000)
        assert answer == BrokerAnswer(
            {"src-a": {0: Available(0, 10)}, "src-b": {0: Available(0, 10)}},
            at={"src-a": {0: 2}, "src-b": {0: 2}},
        )
    both = program(kafka.bootstrap, subscribe="src-a,src-b")
    assert told(both, saved) == []
    late = ask_broker(session, both, saved, at_ms=99_000)
    assert late.at == {"src-a": {0: None}, "src-b": {0: None}}

    kafka.forget_rows("src-a", 0, before=7)
    assert told(both, saved) == [("rows-expired", 3)]
    only_b = program(kafka.bootstrap, subscribe="src-b")
    assert told(only_b, saved) == [("topics-gone", 6)]
    kafka.grow_topic("src-b", 2)
    kafka.write("src-b", 1, rows(2))
    assert told(only_b, {"src-b": {0: 10}}) == [("partitions-new", 0)]
    kafka.drop_topic("src-b")
    assert told(both, saved) == [("topic-missing", 0), ("rows-expired", 3)]
    assert told(pattern, saved) == [("topics-gone", 0), ("rows-expired", 3)]
    with kafka.admin() as admin:
        assert "src-b" not in admin.list_topics()  # asking has not made it
    kafka.make_topic("src-b")
    kafka.write("src-b", 0, rows(4))
    assert told(only_b, {"src-b": {0: 10}}) == [("topic-recreated", 4)]


def test_a_topic_that_is_made_again_has_another_id(session: Any, kafka: KafkaServer) -> None:
    kafka.make_topic("again", 2)
    kafka.write("again", 0, rows(5))
    source = program(kafka.bootstrap, subscribe="again")
    saved = ask_broker(session, source, {}).identities
    assert re.fullmatch("[0-9a-f-]{36}", saved["again"].topic_id or "")
    assert saved["again"].first == {0: FirstRow(0, 1_000)}
    recorded = identify(session, source)["topics"]["again"]
    assert recorded == {"id": saved["again"].topic_id, "first": {"0": [0, 1_000]}}
    kafka.write("again", 0, rows(5))
    assert made_again(saved, ask_broker(session, source, {}).identities) == {}

    kafka.drop_topic("again")
    kafka.make_topic("again", 2)
    kafka.write("again", 0, rows(10, since_ms=5_000))
    now = ask_broker(session, source, {}).identities
    assert list(made_again(saved, now)) == ["again"]
    older = [{"again": replace(each["again"], topic_id=None)} for each in (saved, now)]
    assert made_again(*older) == {"again": "the time of the first row of partition 0 has changed"}


def login(mechanism: str, module: str, given: str) -> dict[str, str]:
    return {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": f"{module} required {given};",
    }


def key_store(session: Any, certificate: Path, made: Path) -> Path:
    """Make a key store of Java (JKS) that trusts a certificate."""
    jvm = session._jvm
    store = jvm.java.security.KeyStore.getInstance("JKS")
    store.load(None, None)
    factory = jvm.java.security.cert.CertificateFactory.getInstance("X.509")
    pem = certificate.read_text().partition("-----BEGIN CERTIFICATE-----")  # behind the key
    read = factory.generateCertificate(jvm.java.io.ByteArrayInputStream("".join(pem[1:]).encode()))
    store.setCertificateEntry("broker", read)
    out = jvm.java.io.FileOutputStream(str(made))
    secret = session.sparkContext._gateway.new_array(jvm.char, len(SECRET))
    for n, letter in enumerate(SECRET):
        secret[n] = letter
    store.store(out, secret)
    out.close()
    return made


def test_a_broker_where_a_source_logs_in(session: Any, kafka: KafkaServer, tmp_path: Path) -> None:
    kafka.make_topic("secured")
    kafka.write("secured", 0, [(1_000, b"x")])

    def asked(port: int, options: dict[str, str]) -> BrokerAnswer:
        source = program(f"127.0.0.1:{port}", subscribe="secured", **options)
        assert PASSWORD not in repr(source)
        return ask_broker(session, source, {"secured": {0: 0}})

    there = BrokerAnswer({"secured": {0: Available(0, 1)}})
    password = f'username="{USER}" password="{PASSWORD}"'
    scram = login("SCRAM-SHA-256", SCRAM, password)
    assert asked(kafka.sasl_port, scram) == there
    token = login("OAUTHBEARER", OAUTH, f'unsecuredLoginStringClaim_sub="{USER}"')
    assert asked(kafka.sasl_port, token) == there
    trusted = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.location": str(
            key_store(session, kafka.certificate, tmp_path / "trust.jks")
        ),
        "kafka.ssl.truststore.password": SECRET,
    }
    plain = login("PLAIN", PLAIN, password)
    assert asked(kafka.tls_port, {**plain, **trusted}) == there
    wrong = asked(kafka.sasl_port, login("PLAIN", PLAIN, f'username="{USER}" password="guessed"'))
    assert wrong.topics is None
    assert "Authentication failed" in wrong.why
    assert "guessed" not in wrong.why


def test_a_broker_that_does_not_answer_is_left_in_time(
    session: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        for port in (free_port(), mute.getsockname()[1]):
            started = time.monotonic()
            source = program(f"127.0.0.1:{port}", subscribe="a")
            answer = ask_broker(session, source, {"a": {0: 1}}, timeout=0.3)
            assert answer.topics is None
            assert f"127.0.0.1:{port} does not answer within 0.3 s" in answer.why
            assert time.monotonic() - started < 30
    monkeypatch.setattr(driver_kafka, "_BRIEFLY", 0.2)
    assert identify(session, program(f"127.0.0.1:{free_port()}", subscribe="a")) == {}
    assert "no ids of its topics" in "".join(capsys.readouterr())
    for none in ("host:port", "::::"):
        assert "refuses" in ask_broker(session, program(none, subscribe="a"), {}).why


def test_the_options_of_a_source_in_a_plan(session: Any) -> None:
    given = {
        "Kafka.bootstrap.servers": "127.0.0.1:9",
        "kafka.ssl.truststore.password": SECRET,
        "subscribe": "a",
        "maxOffsetsPerTrigger": "5",
    }
    frame = session.readStream.format("kafka").options(**given).load()
    plan = read_tree(frame._jdf.queryExecution().analyzed())
    (relation,) = read_relations(session._jvm, plan)
    assert relation.signature == "kafka[subscribe=a]"
    assert {name.lower(): value for name, value in relation.options.items()} == {
        "kafka.bootstrap.servers": "127.0.0.1:9",
        "kafka.ssl.truststore.password": SECRET,
        "subscribe": "a",
    }
    assert SECRET not in repr(relation)


def test_a_source_without_servers(spark: Any) -> None:
    assert "bootstrap servers are unknown" in ask_broker(spark, reads("kafka[subscribe=a]"), {}).why


def test_a_client_that_hangs_was_given_three_times_as_long() -> None:
    hangs = unanswered("host:1", "java.util.concurrent.TimeoutException", 5.0)
    assert hangs == "host:1 does not answer within 15 s"
    why = "org.apache.kafka.common.errors.TimeoutException: Timed out. Call: listTopics"
    assert unanswered("host:1", why, 5.0).endswith(f"within 5 s, or refuses: {why}")


def test_the_settings_of_a_client_among_the_options() -> None:
    given = {"Kafka.Sasl.Mechanism": "PLAIN", "subscribe": "a", "kafkaX": "1"}
    assert client_options(given) == {"sasl.mechanism": "PLAIN"}
