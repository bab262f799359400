"""What a savepoint records of topics; that a restore learns from it is in tests/e2e/test_kafka."""

from __future__ import annotations

import pytest

from flinkish.driver.plan.plan_extraction import PlannedQuery, PlannedSource
from flinkish.driver.requests import topic_records
from flinkish.driver.requests.topic_records import with_topics
from flinkish.operators.graph import OperatorGraph
from flinkish.operators.hasher import HasherVersion
from flinkish.operators.identity import UNKNOWN
from tests.support.servers.kafka import KafkaServer
from tests.support.servers.process import free_port


def planned(signature: str, **options: str) -> PlannedQuery:
    given = {name.replace("_", "."): value for name, value in options.items()}
    source = PlannedSource(0, "0", 0, UNKNOWN, signature, (), given)
    return PlannedQuery("q", OperatorGraph(()), {}, (), HasherVersion.V3, sources=(source,))


def test_what_has_no_topics_stays_as_it_is() -> None:
    records = [{"signature": "file[/in]"}]
    assert with_topics(records, planned("file[/in]")) == records
    assert with_topics([{"description": "x"}], None) == [{"description": "x"}]


def test_a_broker_that_does_not_answer_leaves_it_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_records, "_PATIENCE", 0.2)
    servers = f"127.0.0.1:{free_port()}"
    query = planned("kafka[subscribe=a]", subscribe="a", kafka_bootstrap_servers=servers)
    assert with_topics([{"signature": "kafka[subscribe=a]"}], query) == [
        {"signature": "kafka[subscribe=a]"}
    ]
    assert "no ids of its topics" in "".join(capsys.readouterr())


@pytest.mark.servers
def test_the_topics_of_a_source(kafka: KafkaServer) -> None:
    kafka.make_topic("recorded")
    kafka.write("recorded", 0, [(1_500, b"x")])
    query = planned(
        "kafka[subscribe=recorded]", subscribe="recorded", kafka_bootstrap_servers=kafka.bootstrap
    )
    (record,) = with_topics([{"uid": "in"}], query)
    assert record["uid"] == "in"
    assert record["topics"]["recorded"]["id"]
    assert record["topics"]["recorded"]["first"] == {"0": [0, 1_500]}
