"""Topics of the same name, told by their ids or their first rows."""

from __future__ import annotations

import json

import pytest

from flinkish.connectors.kafka.identity import (
    FirstRow,
    TopicIdentity,
    made_again,
    parse_identities,
    unknown,
)


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
    odd = {"a": {"id": 7, "first": rows}, "b": [], "c": {"first": 1}}
    assert parse_identities(odd) == {"a": topic(None), "c": topic(None)}
    assert parse_identities([]) == parse_identities(None) == {}
