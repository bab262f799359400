"""A real broker, and none, asked for topics where no driver runs."""

from __future__ import annotations

import socket
import sys
import threading
import time

import pytest

from flinkish.connectors.kafka.reading import Available
from flinkish.connectors.kafka.topics import topics_of
from flinkish.errors import BrokerError
from tests.support.servers.kafka import KafkaServer
from tests.support.servers.process import free_port


@pytest.mark.servers
def test_what_a_broker_has(kafka: KafkaServer) -> None:
    kafka.make_topic("has-a", 2)
    kafka.make_topic("has-b")
    kafka.write("has-a", 0, [(1_000 + 1_000 * n, str(n).encode()) for n in range(3)])
    kafka.write("has-a", 1, [(1_000, b"0")])
    kafka.forget_rows("has-a", 0, before=2)
    found = {"has-a": {0: Available(2, 3), 1: Available(0, 1)}, "has-b": {0: Available(0, 0)}}
    servers = f" {kafka.bootstrap}, {kafka.bootstrap}"
    assert topics_of(servers, ["has-b", "has-a", "no-such", "not a name!"]) == found
    assert topics_of(kafka.bootstrap, []) == {}
    with kafka.admin() as admin:
        assert "no-such" not in admin.list_topics()  # asking has not made it


def test_a_broker_that_does_not_answer_is_left_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        for port in (free_port(), mute.getsockname()[1]):
            started = time.monotonic()
            with pytest.raises(BrokerError, match=rf"127.0.0.1:{port} does not answer within 0.3"):
                topics_of(f"127.0.0.1:{port}", ["a"], timeout=0.3)
            assert time.monotonic() - started < 30
    assert [thread.name for thread in threading.enumerate() if "kafka" in thread.name] == []


@pytest.mark.parametrize("bootstrap", ["host:port", "::::"])
def test_servers_that_are_none(bootstrap: str) -> None:
    with pytest.raises(BrokerError, match="refuses"):
        topics_of(bootstrap, ["a"], timeout=0.2)


def test_without_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kafka", None)  # as where it is not installed
    with pytest.raises(BrokerError) as refused:
        topics_of("127.0.0.1:9", ["a"])
    assert "flinkish[kafka]" in refused.value.hint
    assert refused.value.code == 16
