"""A real broker, and none, asked for the topics of a source."""

from __future__ import annotations

import socket
import sys
import threading
import time
from dataclasses import replace

import pytest

from flinkish.connectors.findings import Consent
from flinkish.connectors.kafka.identity import FirstRow, made_again
from flinkish.connectors.kafka.positions import judge
from flinkish.connectors.kafka.reading import Available, BrokerAnswer, Position, reading_of
from flinkish.connectors.kafka.topics import ask_for, offsets_at, topics_of
from flinkish.connectors.sources import NewSource
from flinkish.errors import BrokerError
from tests.support.restore.query_builders import reads
from tests.support.servers.kafka import KafkaServer
from tests.support.servers.process import free_port

servers = pytest.mark.servers


def rows(count: int, since_ms: int = 1_000) -> list[tuple[int, bytes]]:
    return [(since_ms + 1_000 * n, str(n).encode()) for n in range(count)]


def program(bootstrap: str, **how: str) -> NewSource:
    """A source of a program that says failOnDataLoss=false."""
    options = {"kafka.bootstrap.servers": bootstrap, "failOnDataLoss": "false", **how}
    return replace(reads("kafka[]", uid="in"), options=options)


def told(source: NewSource, position: Position, answer: BrokerAnswer) -> list[tuple[str, int]]:
    """What is found with the real answer, with its cost."""
    assert answer.topics is not None, answer.why
    reading = reading_of(source.signature, source.options)
    found = judge(reading, position, answer, Consent("--reset-source in"))
    return [(each.reason, each.rows or 0) for each in found]


@servers
def test_what_a_broker_has(kafka: KafkaServer) -> None:
    kafka.make_topic("has-a", 2)
    kafka.make_topic("has-b")
    kafka.write("has-a", 0, rows(3))
    kafka.write("has-a", 1, rows(1))
    kafka.forget_rows("has-a", 0, before=2)
    a = {0: Available(2, 3), 1: Available(0, 1)}
    at = kafka.bootstrap
    assert topics_of(at, names=["has-a", "no-such", "not a name!"]) == {"has-a": a}
    found = topics_of(f" {at}, {at}", lambda name: name.startswith("has-"), committed=True)
    assert found == {"has-a": a, "has-b": {0: Available(0, 0)}}
    assert topics_of(at, names=[]) == {}
    assert offsets_at(at, ["has-a", "no-such"], 1_500) == {"has-a": {0: 2, 1: None}}
    assert "no-such" not in topics_of(at)  # asking has not made it


@servers
def test_a_source_whose_topics_change(kafka: KafkaServer) -> None:
    for name in ("src-a", "src-b"):
        kafka.make_topic(name)
        kafka.write(name, 0, rows(10))
    saved = {"src-a": {0: 4}, "src-b": {0: 10}}
    both = program(kafka.bootstrap, subscribe="src-a,src-b")
    pattern = program(kafka.bootstrap, subscribePattern="src-")
    for source in (both, pattern):
        answer = ask_for(source, saved)
        assert answer == BrokerAnswer(
            {"src-a": {0: Available(0, 10)}, "src-b": {0: Available(0, 10)}}
        )
        assert told(source, saved, answer) == []
        at = ask_for(source, saved, at_ms=3_000)
        assert (at.topics, at.at) == (answer.topics, {"src-a": {0: 2}, "src-b": {0: 2}})

    kafka.forget_rows("src-a", 0, before=7)
    assert told(both, saved, ask_for(both, saved)) == [("rows-expired", 3)]
    only_b = program(kafka.bootstrap, subscribe="src-b")
    assert told(only_b, saved, ask_for(only_b, saved)) == [("topics-gone", 6)]

    kafka.grow_topic("src-b", 2)
    kafka.write("src-b", 1, rows(2))
    assert told(only_b, {"src-b": {0: 10}}, ask_for(only_b, {"src-b": {0: 10}})) == [
        ("partitions-new", 0)
    ]
    kafka.drop_topic("src-b")
    assert told(both, saved, ask_for(both, saved)) == [("topic-missing", 0), ("rows-expired", 3)]
    assert told(pattern, saved, ask_for(pattern, saved)) == [
        ("topics-gone", 0),
        ("rows-expired", 3),
    ]

    kafka.make_topic("src-b")
    kafka.write("src-b", 0, rows(4))
    assert told(only_b, {"src-b": {0: 10}}, ask_for(only_b, {"src-b": {0: 10}})) == [
        ("topic-recreated", 4)
    ]


@servers
def test_a_topic_that_is_made_again_has_another_id(kafka: KafkaServer) -> None:
    kafka.make_topic("again", 2)
    kafka.write("again", 0, rows(5))
    source = program(kafka.bootstrap, subscribe="again")
    saved = ask_for(source, {}).identities
    assert saved["again"].topic_id
    assert saved["again"].first == {0: FirstRow(0, 1_000)}
    kafka.write("again", 0, rows(5))
    assert made_again(saved, ask_for(source, {}).identities) == {}

    kafka.drop_topic("again")
    kafka.make_topic("again", 2)
    kafka.write("again", 0, rows(10, since_ms=5_000))
    now = ask_for(source, {}).identities
    assert list(made_again(saved, now)) == ["again"]
    older = [{"again": replace(each["again"], topic_id=None)} for each in (saved, now)]
    assert made_again(*older) == {"again": "the time of the first row of partition 0 has changed"}


def test_a_broker_that_does_not_answer_is_left_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        for port in (free_port(), mute.getsockname()[1]):
            started = time.monotonic()
            source = program(f"127.0.0.1:{port}", subscribe="a")
            answer = ask_for(source, {"a": {0: 1}}, timeout=0.3)
            assert answer.topics is None
            assert f"127.0.0.1:{port} does not answer within 0.3 s" in answer.why
            assert time.monotonic() - started < 30
    assert [thread.name for thread in threading.enumerate() if "kafka" in thread.name] == []


@pytest.mark.parametrize("bootstrap", ["host:port", "::::"])
def test_servers_that_are_none(bootstrap: str) -> None:
    with pytest.raises(BrokerError, match="refuses"):
        topics_of(bootstrap, names=["a"], timeout=0.2)


def test_what_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    source = program("127.0.0.1:9", subscribe="a")
    assert ask_for(reads("kafka[subscribe=a]"), {}).why == (
        "the source's bootstrap servers are unknown"
    )
    secure = replace(source, options={**source.options, "kafka.security.protocol": "sasl_ssl"})
    assert "it logs in by GSSAPI" in ask_for(secure, {}).why
    monkeypatch.setitem(sys.modules, "kafka", None)  # as where it is not installed
    assert "no Kafka client" in ask_for(source, {}).why
    with pytest.raises(BrokerError) as refused:
        offsets_at("127.0.0.1:9", ["a"], 0)
    assert "flinkish[kafka]" in refused.value.hint
    assert refused.value.code == 16
