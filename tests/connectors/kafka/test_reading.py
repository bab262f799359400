"""Positions and options of Kafka sources, as Spark writes and takes them."""

from __future__ import annotations

import pytest

from flinkish.connectors.kafka.reading import KafkaReading, parse_position, reading_of


def test_a_position_is_sorted_by_topic_and_partition() -> None:
    found = parse_position('{"b":{"10":7,"2":0},"a":{"0":9223372036854775807}}')
    assert found == {"a": {0: 9223372036854775807}, "b": {2: 0, 10: 7}}
    assert [list(found), list(found["b"])] == [["a", "b"], [2, 10]]


@pytest.mark.parametrize(
    "text",
    [
        *("-", "", "5", "[]", "{}", '{"logOffset":0}', '{"a":{"x":1}}', '{"a":{"0":"1"}}'),
        *('{"a":{"0":true}}', '{"a":{"0":1.5}}', '{"a":{"-1":0}}', "[" * 100_000),
    ],
)
def test_what_is_no_position(text: str) -> None:
    assert parse_position(text) is None


@pytest.mark.parametrize(
    ("signature", "topics", "reads", "not_read"),
    [
        ("kafka[subscribe=a,b]", {"a", "b"}, ("b", 7), ("c", 0)),
        ("kafka[subscribe=a,b, topic=x]", {"a", "b"}, ("b", 7), ("x", 0)),
        ('kafka[assign={"a":[0,2]}]', {"a"}, ("a", 2), ("a", 1)),
        # Spark searches for a pattern: it need not be all of the name.
        ("kafka[subscribePattern=[ab]]", set(), ("cab", 0), ("c", 0)),
        ("kafka[subscribePattern=^(a|b), c$]", set(), ("b, c", 0), ("a", 0)),
    ],
)
def test_what_a_signature_says(
    signature: str, topics: set[str], reads: tuple[str, int], not_read: tuple[str, int]
) -> None:
    reading = reading_of(signature, {})
    assert reading.topics == topics
    assert reading.is_known
    assert reading.reads(*reads)
    assert not reading.reads(*not_read)
    assert reading.fail_on_data_loss is None


@pytest.mark.parametrize(
    "signature", ["kafka[subscribePattern=\\Qa\\E]", "kafka[assign=no json]", "kafka[]"]
)
def test_what_cannot_be_told_is_read(signature: str) -> None:
    reading = reading_of(signature, {})
    assert not reading.is_known
    assert reading.reads("any", 0)


def test_options_come_before_the_signature() -> None:
    options = {"SubscribePattern": " x.* ", "failOnDataLoss": "False"}
    assert reading_of("kafka[subscribe=a]", options) == KafkaReading(
        "subscribePattern", " x.* ", fail_on_data_loss=False
    )
    assert reading_of("kafka[subscribe=a]", {"subscribe": "a"}).fail_on_data_loss is True
