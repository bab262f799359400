"""Positions and options of Kafka sources, as Spark writes and takes them."""

from __future__ import annotations

import json

import pytest

from flinkish.connectors.kafka.reading import (
    FirstRow,
    KafkaReading,
    TopicIdentity,
    made_again,
    parse_identities,
    parse_position,
    reading_of,
    unknown,
)


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


def topic(topic_id: str | None, **first: tuple[int, int]) -> TopicIdentity:
    rows = {int(n.removeprefix("p")): FirstRow(*row) for n, row in first.items()}
    return TopicIdentity(topic_id, rows)


SAVED = topic("x", p0=(3, 1000), p1=(0, 2000))
OLD = topic(None, p0=(3, 1000), p1=(0, 2000))


@pytest.mark.parametrize(
    ("saved", "now", "is_other", "is_unknown"),
    [
        (SAVED, topic("x", p0=(0, 9)), False, False),  # the id decides
        (SAVED, topic("y", p0=(3, 1000)), True, False),
        (OLD, OLD, False, False),
        (OLD, SAVED, False, False),
        (OLD, topic(None, p0=(3, 1000), p1=(7, 9000)), False, False),
        (OLD, topic(None, p0=(0, 1000)), True, False),  # nothing moves back
        (OLD, topic(None, p1=(0, 2001)), True, False),
        (OLD, topic(None, p0=(4, 5000), p1=(7, 9000)), False, True),  # retention, or made again
        (OLD, topic(None), False, True),
        (topic(None), topic(None, p0=(0, 5)), False, True),
    ],
)
def test_which_topic_is_another(
    saved: TopicIdentity, now: TopicIdentity, is_other: bool, is_unknown: bool
) -> None:
    assert bool(made_again({"t": saved}, {"t": now})) is is_other
    assert bool(unknown({"t": saved}, {"t": now})) is is_unknown


def test_only_topics_that_are_known_on_both_sides_are_compared() -> None:
    assert made_again({"a": SAVED}, {"b": topic("y")}) == {}
    assert unknown({}, {"b": topic(None)}) == []


def test_a_record_is_read_again() -> None:
    record = json.loads(json.dumps({"a": SAVED.to_json(), "b": topic(None).to_json()}))
    assert parse_identities(record) == {"a": SAVED, "b": topic(None)}


def test_a_record_of_another_hand_is_read_with_care() -> None:
    rows = {"0": [1], "x": [1, 2], "1": ["a", 2], "-1": [1, 2], "2": {}, "3": [True, 1]}
    rows["9" * 5000] = [1, 2]
    odd = {"a": {"id": 7, "first": rows}, "b": [], "c": {"first": 1}}
    assert parse_identities(odd) == {"a": topic(None), "c": topic(None)}
    assert parse_identities([]) == parse_identities(None) == {}
