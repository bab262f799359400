"""What becomes of a Kafka position, with what a broker has and without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flinkish.connectors.kafka.new_offsets import reset_cost
from flinkish.connectors.kafka.offset_checks import judge, rows_waiting
from flinkish.connectors.kafka.reading import Available, BrokerAnswer, reading_of
from flinkish.connectors.sources import Consent, Finding
from flinkish.messages.plan import RestoreOutcome

NOTE, WARNING = RestoreOutcome.NOTE, RestoreOutcome.WARNING
CONSENT, REFUSED = RestoreOutcome.CONSENT, RestoreOutcome.REFUSED
FAILS, SKIPS = "true", "false"


def topics(**bounds: list[tuple[int, int]]) -> BrokerAnswer:
    return BrokerAnswer(
        {t: {n: Available(*each) for n, each in enumerate(b)} for t, b in bounds.items()}
    )


def found(
    position: dict[str, dict[int, int]],
    answer: BrokerAnswer,
    fail: str = FAILS,
    *,
    accept: bool = False,
    **how: str,
) -> list[Finding]:
    reading = reading_of("", {"failOnDataLoss": fail, **(how or {"subscribe": "a,b"})})
    return list(judge(reading, position, answer, Consent("--reset-source in", accept)))


def told(findings: list[Finding]) -> list[tuple[Any, ...]]:
    return [(each.reason, each.outcome, each.rows) for each in findings]


SAVED = {"a": {0: 5, 1: 2}, "b": {0: 7}}


def test_a_position_that_the_broker_still_has() -> None:
    within = topics(a=[(0, 5), (2, 9)], b=[(7, 7)])
    assert found(SAVED, within) == []
    assert rows_waiting(SAVED, within.topics or {}) == {"a": 7, "b": 0}
    assert found(SAVED, BrokerAnswer(None, "silent")) == []


@pytest.mark.parametrize("fail", [FAILS, SKIPS])
def test_a_subscribed_topic_that_is_not_there(fail: str) -> None:
    (refused,) = found(SAVED, topics(a=[(0, 5), (2, 9)]), fail, accept=True)
    assert told([refused]) == [("topic-missing", REFUSED, None)]
    assert "the broker has no topic b" in refused.text
    assert "--offline" in refused.advice


def test_rows_that_retention_has_deleted() -> None:
    answer = topics(a=[(1_005, 2_000), (2, 2)], b=[(8, 8)])
    fails = found(SAVED, answer)
    assert told(fails) == [("rows-expired", CONSENT, 1_000), ("rows-expired", CONSENT, 1)]
    assert "up to 1,000 rows of topic a" in fails[0].text
    assert "partition 0 was read up to 5 and has 1005 to 2000" in fails[0].text
    assert "Spark would fail" in fails[0].text
    assert "--reset-source in; or set failOnDataLoss to false" in fails[0].advice
    skips = found(SAVED, answer, SKIPS)
    assert told(skips) == told(fails)
    assert "Spark would silently skip those rows" in skips[0].text
    assert skips[0].advice.endswith("or accept the loss: --accept-lost-rows")
    # Agreed to, where Spark does not fail anyway.
    assert {each.outcome for each in found(SAVED, answer, SKIPS, accept=True)} == {WARNING}
    assert {each.outcome for each in found(SAVED, answer, FAILS, accept=True)} == {CONSENT}


def test_a_topic_that_was_made_again() -> None:
    (finding,) = found(SAVED, topics(a=[(0, 3), (0, 2)], b=[(0, 7)]), SKIPS)
    assert told([finding]) == [("topic-recreated", CONSENT, 3)]
    assert (
        "partition 0 was read up to 5 and has 0 to 3; its rows (up to 3 rows) count as read"
        in finding.text
    )


def test_fewer_partitions_are_partitions_that_are_gone() -> None:
    (finding,) = found(SAVED, topics(a=[(0, 5)], b=[(0, 7)]))
    assert told([finding]) == [("topics-gone", CONSENT, None)]
    assert "it no longer reads partition a-1, which the position contains" in finding.text


def test_a_topic_that_is_not_read_any_more_costs_what_waits_there() -> None:
    answer = topics(a=[(0, 5), (0, 2)], b=[(0, 17)])
    (finding,) = found(SAVED, answer, SKIPS, subscribe="a")
    assert told([finding]) == [("topics-gone", CONSENT, 10)]
    assert "topic b, which the position contains (up to 10 rows there were not" in finding.text
    assert finding.advice.startswith("subscribe to it as well, or start it from scratch")
    # All of it was read: nothing is lost, and Spark fails only if it is to.
    read = topics(a=[(0, 5), (0, 2)], b=[(0, 7)])
    assert told(found(SAVED, read, SKIPS, subscribe="a")) == [("topics-gone", WARNING, 0)]
    assert told(found(SAVED, read, FAILS, subscribe="a")) == [("topics-gone", CONSENT, 0)]
    # A pattern does not mind a topic that is gone from the broker.
    gone = topics(a=[(0, 5), (0, 2)])
    assert told(found(SAVED, gone, subscribePattern="[ab]")) == [("topics-gone", CONSENT, None)]
    assert told(found(SAVED, BrokerAnswer(), subscribe="a")) == [("topics-gone", CONSENT, None)]


def test_an_assignment() -> None:
    answer = topics(a=[(0, 5), (0, 4)], b=[(0, 7)])
    given = '{"a":[0,9],"b":[0]}'
    (finding,) = found(SAVED, answer, SKIPS, assign=given)
    assert told([finding]) == [("topics-gone", CONSENT, 2)]
    assert "partition a-1" in finding.text
    missing = found(SAVED, answer, SKIPS, assign='{"a":[0,1],"b":[0],"c":[0]}')
    assert told(missing) == [("topic-missing", REFUSED, None)]


def test_partitions_and_topics_that_are_new() -> None:
    grown = topics(a=[(0, 5), (0, 2), (0, 9), (0, 1)], b=[(0, 7)])
    (finding,) = found(SAVED, grown)
    assert told([finding]) == [("partitions-new", NOTE, None)]
    assert "partitions 2, 3 of topic a are new to it" in finding.text
    assert finding.text.endswith("up to 10 rows")
    more = topics(a=[(0, 5), (0, 2)], b=[(0, 7)], c=[(0, 1)])
    assert told(found(SAVED, more, subscribe="a,b,c")) == [("topic-new", NOTE, None)]
    assert found(SAVED, more) == []


def test_new_ones_that_do_not_begin_at_0() -> None:
    late = topics(a=[(0, 5), (0, 2), (4, 9)], b=[(0, 7)])
    assert told(found(SAVED, late)) == [
        ("rows-expired", CONSENT, 4),
        ("partitions-new", NOTE, None),
    ]
    # Of a topic that was never read nothing is lost, but Spark thinks so.
    added = topics(a=[(0, 5), (0, 2)], b=[(0, 7)], c=[(4, 9)])
    assert told(found(SAVED, added, subscribe="a,b,c")) == [
        ("new-topic-starts-late", CONSENT, 0),
        ("topic-new", NOTE, None),
    ]
    assert told(found(SAVED, added, SKIPS, subscribe="a,b,c")) == [("topic-new", NOTE, None)]


def test_a_pattern_that_only_java_understands_is_judged_by_bounds_alone() -> None:
    java = "\\Qa\\E"
    answer = topics(a=[(0, 5), (3, 9)], b=[(0, 7)])
    assert told(found(SAVED, answer, subscribePattern=java)) == [("rows-expired", CONSENT, 1)]
    assert told(found(SAVED, topics(a=[(0, 5), (0, 9)]), subscribePattern=java)) == [
        ("topics-gone", CONSENT, None)
    ]
    assert found(SAVED, BrokerAnswer(), subscribePattern=java) == []


def test_what_starting_afresh_costs() -> None:
    has = topics(a=[(1, 9), (0, 2)], b=[(0, 17)], c=[(0, 99)]).topics or {}
    reading = reading_of("kafka[subscribe=a,b]", {})
    until = ", and skips what arrives before it runs"
    end, begin = "it starts at the end: it ", "it starts at the beginning: it "
    skips = f"{end}skips up to 14 rows{until}"
    assert reset_cost(reading, SAVED, has, "latest") == skips
    assert reset_cost(reading, SAVED, has, " Earliest ") == f"{begin}reads up to 13 rows again"
    given = '{"a":{"0":3,"1":-2},"b":{"0":-1}}'
    assert reset_cost(reading, SAVED, has, given) == (
        f"it starts at {given}: it skips up to 10 rows and reads up to 4 rows again"
    )
    there = topics(a=[(0, 5), (0, 2)], b=[(0, 7)]).topics or {}
    assert (
        reset_cost(reading, SAVED, there, "latest") == f"{end}skips no row and repeats none{until}"
    )


def test_what_starting_at_the_end_skips_of_what_the_position_does_not_know() -> None:
    has = topics(a=[(0, 3), (0, 2), (0, 30)], b=[(5, 25)]).topics or {}
    reading = reading_of("kafka[subscribe=a,b,c]", {})
    cost = reset_cost(reading, SAVED, has, "latest")  # a-0 made again, a-2 new, b-0 went on
    assert f"skips up to {3 + 30 + 18} rows" in cost
    again = reset_cost(reading, SAVED, has, "latest", recreated={"a", "b"})
    assert f"skips up to {3 + 2 + 30 + 20} rows" in again
    assert "again" not in reset_cost(reading, SAVED, has, "earliest", recreated={"a", "b"})


def test_where_the_cost_of_starting_afresh_is_not_known() -> None:
    has = topics(a=[(0, 5), (0, 2)], b=[(0, 7)]).topics or {}
    reading = reading_of("kafka[subscribe=a,b]", {})
    for known, starting in ((None, "latest"), (has, "startingtimestamp"), (has, '{"a":{"0":3}}')):
        cost = reset_cost(reading, SAVED, known, starting)
        assert cost.endswith("the number of rows skipped or read again is unknown")
    assert reset_cost(reading, SAVED, has, "") == ""
    assert "at its startingTimestamp;" in reset_cost(reading, SAVED, has, "startingtimestamp")


def test_a_topic_that_was_made_again_and_is_read_from_its_beginning() -> None:
    has = topics(a=[(5, 9), (2, 2)], b=[(0, 7)])
    reading = reading_of("kafka[subscribe=a,b]", {"subscribe": "a,b", "failOnDataLoss": "false"})
    again = {"a": "its id was x, and is y"}
    assert list(judge(reading, SAVED, has, Consent("--reset-source in"), again)) == []


def test_a_topic_that_was_made_again_as_long_as_the_position() -> None:
    has = topics(a=[(0, 5), (0, 1)], b=[(0, 7)])
    reading = reading_of("kafka[subscribe=a,b]", {"subscribe": "a,b", "failOnDataLoss": "false"})
    again = {"a": "its id was x, and is y"}
    consent = Consent("--reset-source in")
    beyond, within = sorted(
        judge(reading, SAVED, has, consent, again), key=lambda each: each.rows or 0
    )
    assert (beyond.reason, beyond.rows) == ("topic-recreated", 1)
    assert (within.reason, within.outcome, within.rows) == ("topic-recreated", CONSENT, 5)
    assert "its id was x, and is y" in within.text
    assert "--reset-source in" in within.advice
    agreed = judge(reading, SAVED, has, replace(consent, lost_rows=True), again)
    assert [each.outcome for each in agreed] == [RestoreOutcome.WARNING] * 2


def test_a_topic_that_was_made_again_and_has_lost_more_than_the_position() -> None:
    has = topics(a=[(100, 300), (1, 9)], b=[(0, 7)])
    reading = reading_of("kafka[subscribe=a,b]", {"subscribe": "a,b", "failOnDataLoss": "true"})
    again = {"a": "its id was x, and is y"}
    inside, expired = judge(reading, SAVED, has, Consent("--reset-source in"), again)
    assert told([inside]) == [("topic-recreated", CONSENT, 1)]
    assert told([expired]) == [("rows-expired", CONSENT, 95)]
    assert "partition 0 was read up to 5 and has 100 to 300; Spark would fail" in expired.text


@pytest.mark.parametrize("saved", [9, 4])
def test_a_topic_that_was_made_again_and_is_not_read_any_more(saved: int) -> None:
    has = topics(a=[(0, 5), (0, 7)], b=[(0, 7)])
    options = {"assign": '{"a":[1],"b":[0]}', "failOnDataLoss": "false"}
    position = {"a": {0: saved, 1: 0}, "b": {0: 7}}
    again = {"a": "its id was x, and is y"}
    reading = reading_of("", options)
    (finding,) = judge(reading, position, has, Consent("--reset-source in"), again)
    assert told([finding]) == [("topics-gone", CONSENT, 5)]
    if saved > 5:  # it is not the old topic, whatever its identity
        assert judge(reading, position, has, Consent("--reset-source in")) == (finding,)
