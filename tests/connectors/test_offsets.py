"""Other offsets for a source: what a text names, what comes of it, and what that costs."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.connectors.kafka.new_offsets import kafka_offsets
from flinkish.connectors.kafka.reading import Available, BrokerAnswer, KafkaReading, Topics
from flinkish.connectors.offsets import (
    NewOffsets,
    Target,
    Unresolved,
    other_offsets,
    parse_target,
)
from flinkish.errors import UsageError
from flinkish.messages.plan import Move

READING = KafkaReading("subscribe", "a,b", True)
SAVED = {"a": {0: 5, 1: 8}, "b": {0: 2}}
TOPICS: Topics = {
    "a": {0: Available(0, 10), 1: Available(3, 10), 2: Available(1, 4)},
    "b": {0: Available(0, 2)},
}
EARLIEST, LATEST = Target("earliest"), Target("latest")


def moved(
    target: Target,
    *,
    recreated: tuple[str, ...] = (),
    topics: Topics | None = TOPICS,
    at: dict[str, dict[int, int | None]] | None = None,
    reading: KafkaReading = READING,
) -> NewOffsets:
    answer = BrokerAnswer(topics, at=at)
    found = kafka_offsets(target, reading, SAVED, answer, recreated=recreated)
    assert isinstance(found, NewOffsets), found
    return found


def refused(target: Target, *, topics: Topics | None = TOPICS, why: str = "") -> Unresolved:
    found = kafka_offsets(target, READING, SAVED, BrokerAnswer(topics, why))
    assert isinstance(found, Unresolved), found
    return found


def offsets(found: object) -> Target:
    return Target("offsets", offsets=found)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", EARLIEST),
        (" latest ", LATEST),
        ("timestamp:1700000000000", Target("timestamp", 1_700_000_000_000)),
        ("timestamp:2023-11-14T22:13:20Z", Target("timestamp", 1_700_000_000_000)),
        ("timestamp:2023-11-14T23:13:20.25+01:00", Target("timestamp", 1_700_000_000_250)),
        ("timestamp:2023-11-14Z", Target("timestamp", 1_699_920_000_000)),
        ("timestamp:2023-11-14z", Target("timestamp", 1_699_920_000_000)),
        ("timestamp:2023-11-14+02:00", Target("timestamp", 1_699_912_800_000)),
        ("timestamp:2023-11-14-02:00", Target("timestamp", 1_699_927_200_000)),
        ('{"a": {"0": 5}}', offsets({"a": {"0": 5}})),
        ("12", offsets(12)),
    ],
)
def test_targets(text: str, target: Target) -> None:
    assert parse_target(text) == target
    assert parse_target(target.text) == target


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("early", "does not specify offsets"),
        ("[1]", "does not specify offsets"),
        ("true", "does not specify offsets"),
        ("[" * 100_000, "does not specify offsets"),
        ("", "does not specify offsets"),
        ("timestamp:", "is not a time"),
        ("timestamp:yesterday", "is not a time"),
        ("timestamp:2023-11-14T22:13:20", "has no time zone"),
        ("timestamp:1911-11-14T22:13:20Z", "before 1970"),
    ],
)
def test_no_targets(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_target(text)


@pytest.mark.parametrize("text", ["2023-11-14", "2023-11-14T22:13:20"])
def test_the_hint_for_a_time_without_a_zone_is_a_target(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_target(f"timestamp:{text}")
    assert caught.value.hint == f"write {text}Z for UTC"
    assert parse_target(f"timestamp:{text}Z").how == "timestamp"


def test_words_for_a_target() -> None:
    assert parse_target("timestamp:1700000000000").describe() == "2023-11-14T22:13:20Z"
    assert parse_target("timestamp:1700000000025").describe() == "2023-11-14T22:13:20.025Z"
    assert parse_target("timestamp:999999999999999").describe() == "time 999999999999999 ms"
    assert EARLIEST.describe() == "earliest"
    assert offsets({}).describe() == "the offsets that were given"


def test_to_the_earliest() -> None:
    found = moved(EARLIEST)
    assert json.loads(found.offset) == {"a": {"0": 0, "1": 3, "2": 1}, "b": {"0": 0}}
    assert found.moves == (
        Move("a", 0, 5, 0, 0, 5),
        Move("a", 1, 8, 3, 0, 5),
        Move("a", 2, None, 1),  # a new partition would be read from there anyway
        Move("b", 0, 2, 0, 0, 2),
    )
    assert (found.skipped, found.repeated) == (0, 12)
    assert found.cost() == (
        "up to 12 rows read again (5 of a-0, 5 to 0; 5 of a-1, 8 to 3; 2 of b-0, 2 to 0)"
    )


def test_to_the_latest() -> None:
    found = moved(LATEST)
    assert json.loads(found.offset) == {"a": {"0": 10, "1": 10, "2": 4}, "b": {"0": 2}}
    assert (found.skipped, found.repeated) == (5 + 2 + 3, 0)
    assert "3 of a-2, new to 4" in found.cost()


def test_to_a_time() -> None:
    found = moved(Target("timestamp", 7), at={"a": {0: 7, 1: 7, 2: None}, "b": {0: None}})
    assert json.loads(found.offset) == {"a": {"0": 7, "1": 7, "2": 4}, "b": {"0": 2}}
    assert (found.skipped, found.repeated) == (2 + 3, 1)
    assert found.cost() == (
        "up to 5 rows never read (2 of a-0, 5 to 7; 3 of a-2, new to 4); "
        "1 row read again (1 of a-1, 8 to 7)"
    )


def test_to_given_offsets_the_rest_stays() -> None:
    found = moved(offsets({"a": {"0": -2, "2": -1}, "b": {"0": 1}}))
    assert json.loads(found.offset) == {"a": {"0": 0, "1": 8, "2": 4}, "b": {"0": 1}}
    assert (found.skipped, found.repeated) == (3, 6)
    assert moved(offsets({"a": {"0": 5}})).moves == ()
    assert moved(offsets({"a": {"0": 5}})).cost() == "it is already there"


def test_given_offsets_need_no_broker_others_do() -> None:
    found = moved(offsets({"a": {"0": 7, "1": 1}, "b": {"0": 2}}), topics=None)
    assert (found.skipped, found.repeated) == (2, 7)
    assert moved(offsets({"a": {"7": 4}}), topics=None).moves == (Move("a", 7, None, 4, 4),)
    for target in (EARLIEST, LATEST, Target("timestamp", 5), offsets({"a": {"0": -1}})):
        why = refused(target, topics=None, why="--offline")
        assert why.reason == "set-offsets-broker"
        assert "--offline" in why.text
    assert refused(Target("timestamp", 5)).reason == "set-offsets-broker"  # it did not say


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ({"a": {"0": 11}}, "set-offsets-range"),
        ({"a": {"1": 2}}, "set-offsets-range"),
        ({"a": {"7": 2}}, "set-offsets-topic"),
        ({"c": {"0": 2}}, "set-offsets-topic"),
        ({"a": {"0": -3}}, "set-offsets-form"),
        ({"a": {"0": 2**63}}, "set-offsets-form"),
        ({"a": {}}, "set-offsets-form"),
        ({"a": 5}, "set-offsets-form"),
        ({"a": {"0": "5"}}, "set-offsets-form"),
        ({"a": {"x": 5}}, "set-offsets-form"),
        ({}, "set-offsets-form"),
        (5, "set-offsets-form"),
    ],
)
def test_offsets_that_cannot_be(found: object, reason: str) -> None:
    assert refused(offsets(found)).reason == reason
    assert refused(offsets(found)).advice


def test_without_a_broker_what_it_does_not_read_is_refused_too() -> None:
    assert refused(offsets({"c": {"0": 2}}), topics=None).reason == "set-offsets-topic"


def test_topics_that_it_reads_no_more_are_left_behind() -> None:
    found = moved(EARLIEST, reading=KafkaReading("subscribe", "b", True))
    assert json.loads(found.offset) == {"b": {"0": 0}}
    assert Move("a", 0, 5, None, 5) in found.moves
    assert found.skipped == 5 + 2
    assert "5 of a-0, 5 to the end" in found.cost()
    assert refused(EARLIEST, topics={}).reason == "set-offsets-topic"


def test_nothing_was_read_of_a_topic_that_was_made_again() -> None:
    """Although it has grown beyond the saved offsets."""
    first = {m.partition: m for m in moved(EARLIEST, recreated=("a",)).moves if m.topic == "a"}
    assert (first[0].before, first[0].after, first[0].repeated) == (5, 0, 0)
    last = {m.partition: m for m in moved(LATEST, recreated=("a",)).moves if m.topic == "a"}
    assert (last[0].skipped, last[1].skipped) == (10, 7)


@pytest.mark.parametrize(("before", "recreated"), [(5, ("a",)), (5, ()), (1, ("a",))])
def test_a_topic_that_was_made_again_is_left_behind_with_all_its_rows(
    before: int, recreated: tuple[str, ...]
) -> None:
    """Also one that is known to be another because it ends before the saved offset."""
    has: Topics = {"a": {0: Available(0, 3), 1: Available(0, 9)}}
    found = kafka_offsets(
        EARLIEST,
        KafkaReading("assign", '{"a":[1]}', True),
        {"a": {0: before, 1: 0}},
        BrokerAnswer(has),
        recreated=recreated,
    )
    assert isinstance(found, NewOffsets)
    assert found.moves == (Move("a", 0, before, None, 3),)


def test_a_topic_that_was_made_again() -> None:
    """Nobody knows which of its rows were read, so it counts as all that it can be."""
    topics: Topics = {"a": {0: Available(0, 3), 1: Available(3, 10)}, "b": {0: Available(0, 2)}}
    assert moved(EARLIEST, topics=topics).moves[0] == Move("a", 0, 5, 0, 0, 3)
    assert moved(LATEST, topics=topics).moves[0] == Move("a", 0, 5, 3, 3, 0)


def test_rows_that_are_deleted_count_as_skipped() -> None:
    topics: Topics = {"a": {0: Available(7, 9), 1: Available(0, 10)}, "b": {0: Available(0, 2)}}
    assert moved(EARLIEST, topics=topics).moves[0] == Move("a", 0, 5, 7, 2, 0)


@pytest.mark.parametrize(
    ("target", "lost", "repeated", "missing"),
    [
        (EARLIEST, False, False, ("--accept-repeated-rows",)),
        (EARLIEST, True, False, ("--accept-repeated-rows",)),
        (EARLIEST, False, True, ()),
        (LATEST, False, True, ("--accept-lost-rows",)),
        (LATEST, True, False, ()),
        (
            offsets({"a": {"0": 0, "1": 10}}),
            *(False, False, ("--accept-lost-rows", "--accept-repeated-rows")),
        ),
        (offsets({"a": {"0": 5}}), False, False, ()),
    ],
)
def test_what_needs_consent(
    target: Target, lost: bool, repeated: bool, missing: tuple[str, ...]
) -> None:
    assert moved(target).missing_consents("", lost=lost, repeated=repeated) == missing


def test_other_sources_take_what_looks_like_their_offsets() -> None:
    found = other_offsets(offsets({"logOffset": 3}), '{"logOffset":7}', "file")
    assert isinstance(found, NewOffsets)
    assert (found.offset, found.known) == ('{"logOffset":3}', False)
    assert len(found.missing_consents('{"logOffset":7}', lost=False, repeated=False)) == 2
    assert found.missing_consents('{"logOffset":7}', lost=True, repeated=True) == ()
    assert found.missing_consents('{"logOffset":3}', lost=False, repeated=False) == ()
    assert "is unknown" in found.cost()
    assert isinstance(other_offsets(offsets(5), "7", "rate"), NewOffsets)
    for target, saved in (
        (offsets({"other": 3}), '{"logOffset":7}'),
        (offsets({"logOffset": "3"}), '{"logOffset":7}'),
        (offsets(5), '{"logOffset":7}'),
        (offsets({"logOffset": 3}), "-"),
        (EARLIEST, '{"logOffset":7}'),
    ):
        why = other_offsets(target, saved, "file")
        assert isinstance(why, Unresolved), (target, saved)
        assert why.reason == "set-offsets-form"


@pytest.mark.parametrize(("given", "is_there"), [(8, False), (7, True), (-1, True), (-2, False)])
def test_a_file_source_is_moved_only_to_what_its_log_has(given: int, is_there: bool) -> None:
    found = other_offsets(offsets({"logOffset": given}), '{"logOffset":7}', "file")
    assert isinstance(found, NewOffsets) is is_there
    if isinstance(found, Unresolved):
        assert found.reason == "set-offsets-range"
        assert "has -1 to 7" in found.text


@given(
    begin=st.integers(0, 50),
    rows=st.integers(0, 50),
    before=st.integers(0, 120),
    share=st.floats(0, 1),
)
def test_no_row_is_skipped_or_repeated_without_being_counted(
    begin: int, rows: int, before: int, share: float
) -> None:
    end = begin + rows
    after = begin + int(rows * share)
    has = {"a": {0: Available(begin, end)}}
    found = kafka_offsets(
        offsets({"a": {"0": after}}),
        KafkaReading("subscribe", "a"),
        {"a": {0: before}},
        BrokerAnswer(has),
    )
    assert isinstance(found, NewOffsets)
    read_before = set(range(min(before, end)))
    read_now = set(range(after, end))
    assert found.repeated >= len(read_before & read_now & set(range(begin, end)))
    unread = set(range(begin, end)) - read_before - read_now
    assert found.skipped >= len(unread)
